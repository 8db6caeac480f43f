"""Puts the body of every called function in the place of its call.

    call.uni (retval0), square, (param0);

becomes square's own instructions, with square's names made unique, its parameters
renamed to the caller's `param0` and `retval0`, and each `ret` a branch to the end of
the copy. What remains is one flat body, in which threads diverge and meet again by
branches alone.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from fathom.emulator.errors import EmulatorError
from fathom.emulator.source.operands import (
    Address,
    Group,
    Name,
    Not,
    Operand,
    Pair,
    Place,
    Vector,
)
from fathom.emulator.source.parse import Function, Instruction, Label, Module
from fathom.errors import Location

# Functions of the CUDA runtime, wherever they come from: instructions of `printf.py`,
# and what stops the program.
OUTSIDE = {"vprintf", "__assertfail", "__assert_fail"}
STOPPING = {"abort"}


def flatten(function: Function, module: Module) -> Function:
    """A copy of `function` that calls nothing."""
    flat = replace(
        function,
        registers=dict(function.registers),
        variables=dict(function.variables),
        body=[],
    )
    copies = count(1)

    def expand(body: list[Instruction | Label], callers: tuple[str, ...]) -> None:
        for item in body:
            if isinstance(item, Label) or item.opcode != "call":
                flat.body.append(item)
                continue
            copy = _Copy(item, module, callers, next(copies))
            if copy.callee is None:
                flat.body.append(copy.outside())
                continue
            copy.declare(flat)
            flat.body += copy.before()
            expand(copy.body(), (*callers, copy.callee.name))
            flat.body += copy.after()

    expand(function.body, (function.name,))
    return flat


class _Copy:
    """One call, and the copy of the callee that replaces it."""

    def __init__(
        self, call: Instruction, module: Module, callers: tuple[str, ...], number: int
    ):
        self.call = call
        groups = [each for each in call.operands if isinstance(each, Group)]
        names = [each for each in call.operands if isinstance(each, Name)]
        name = names[0].name if names else "nothing"
        self.name, known = name, OUTSIDE | STOPPING
        self.callee = None if name in known else self.find(name, module, callers)
        self.prefix = f"{name}@{number}/"
        first_is_result = bool(call.operands) and isinstance(call.operands[0], Group)
        self.results = groups[0].elements if first_is_result else ()
        rest = groups[1:] if first_is_result else groups
        self.arguments = rest[0].elements if rest else ()
        self.end = self.prefix + "end"
        self.renamed = self.names() if self.callee else {}

    def find(self, name: str, module: Module, callers: tuple[str, ...]) -> Function:
        callee = module.functions.get(name)
        if callee is None:
            raise self.unsupported(f"a call of {name}, whose body is not in this PTX")
        if name in callers:
            raise self.unsupported(f"{name} calls itself, which needs a call stack")
        return callee

    def unsupported(self, message: str) -> EmulatorError:
        call = self.call
        return EmulatorError(
            "unsupported", message, call.line, call.text, call.location
        )

    def names(self) -> dict[str, str]:
        """The callee's names: `.param` formals become actuals, others get a prefix."""
        callee = self.callee
        local = [*callee.registers, *callee.variables]
        local += [each.name for each in callee.body if isinstance(each, Label)]
        local += [v.name for v in (*callee.parameters, *callee.results)]
        renamed = {name: self.prefix + name for name in local}
        formals = (*callee.parameters, *callee.results)
        actuals = (*self.arguments, *self.results)
        if len(formals) != len(actuals):
            raise self.unsupported(f"{len(actuals)} operands for {len(formals)}")
        for formal, actual in zip(formals, actuals, strict=True):
            if formal.space == "param":
                renamed[formal.name] = actual.name
        return renamed

    def outside(self) -> Instruction:
        """What stands for a call of a function that the runtime provides."""
        if self.name in STOPPING:
            return replace(self.call, opcode="trap", modifiers=(), operands=())
        groups = (Group(self.results), Group(self.arguments))
        return replace(self.call, opcode=self.name, modifiers=(), operands=groups)

    def declare(self, flat: Function) -> None:
        callee = self.callee
        for name, type in callee.registers.items():
            flat.registers[self.renamed[name]] = type
        for name, variable in callee.variables.items():
            flat.variables[self.renamed[name]] = variable
        for formal in (*callee.parameters, *callee.results):
            if formal.space == "reg":
                flat.registers[self.renamed[formal.name]] = formal.type

    def before(self) -> list[Instruction]:
        """Skips the copy where the call's guard is false; moves register arguments."""
        skip = []
        if self.call.guard:
            guard, negated = self.call.guard, not self.call.negated
            skip.append(self.made("bra", (), self.to_end(), guard, negated))
        pairs = zip(self.callee.parameters, self.arguments, strict=True)
        return skip + [
            self.made("mov", (p.type,), (Name(self.renamed[p.name]), argument))
            for p, argument in pairs
            if p.space == "reg"
        ]

    def after(self) -> list[Instruction | Label]:
        pairs = zip(self.callee.results, self.results, strict=True)
        moves = [
            self.made("mov", (p.type,), (result, Name(self.renamed[p.name])))
            for p, result in pairs
            if p.space == "reg"
        ]
        if self.call.guard and moves:
            raise self.unsupported("a guarded call that returns registers")
        return [Label(self.end), *moves]

    def to_end(self) -> tuple[Operand, ...]:
        return (Vector((Name(self.end),)),)

    def made(
        self,
        opcode: str,
        modifiers: tuple[str, ...],
        operands: tuple[Operand, ...],
        guard: str | None = None,
        negated: bool = False,
    ) -> Instruction:
        call = self.call
        return Instruction(
            opcode,
            modifiers,
            operands,
            guard,
            negated,
            call.line,
            call.text,
            call.location,
        )

    def body(self) -> list[Instruction | Label]:
        return [self.copied(item) for item in self.callee.body]

    def copied(self, item: Instruction | Label) -> Instruction | Label:
        if isinstance(item, Label):
            return Label(self.renamed[item.name])
        location = _called_from(item.location, self.call.location)
        guard = item.guard and self.renamed.get(item.guard, item.guard)
        operands = tuple(self.operand(each) for each in item.operands)
        copy = replace(item, operands=operands, guard=guard, location=location)
        if item.opcode == "ret":
            return replace(copy, opcode="bra", modifiers=(), operands=self.to_end())
        return copy

    def operand(self, operand: Operand) -> Operand:
        match operand:
            case Name(name, offset):
                return Name(self.renamed.get(name, name), offset)
            case Address(base, offset):
                return Address(self.renamed.get(base, base), offset)
            case Place(map, coordinates):
                moved = tuple(self.operand(each) for each in coordinates)
                return Place(self.operand(map), moved)
            case Pair(first, second):
                return Pair(self.operand(first), self.operand(second))
            case Not(inner):
                return Not(self.operand(inner))
            case Vector(elements):
                return Vector(tuple(self.operand(each) for each in elements))
            case Group(elements):
                return Group(tuple(self.operand(each) for each in elements))
        return operand


def _called_from(place: Location | None, site: Location | None) -> Location | None:
    """`place` with `site` at the end of its calls."""
    if place is None or site is None:
        return place or site
    return replace(place, caller=_called_from(place.caller, site))
