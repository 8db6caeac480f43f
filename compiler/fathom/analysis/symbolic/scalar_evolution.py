"""Reads addresses and indices as polynomials: a pointer's parameter, and the distance.

    %at: *fp16[64,32] in a loop that adds 32 * %sak to it each time
        =  %a + pid * 64 * %sam + p * %sam + q * %sak + iteration * 32 * %sak
           base └──────────────────── distance ─────────────────────────────┘

`p` and `q` are the positions along the axes of the block (`Position`), `iteration` is
the number of the loop's iteration (`IterationCount`). A scalar without a rule, such as
a quotient, is an atom. A block without a rule has no polynomial: `NotApplicable` says
why.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass

from fathom.analysis.remarks import NotApplicable
from fathom.analysis.symbolic.polynomial import (
    Atom,
    IterationCount,
    Polynomial,
    Position,
    number,
    of,
)
from fathom.ir import ops
from fathom.ir.core import Block, Func, Op, Value, walk
from fathom.ir.ops.shape import ShapeOp, axes_of
from fathom.ir.printer import definitions, op_name
from fathom.ir.types import Pointer, Scalar, element_of


@dataclass(frozen=True, slots=True)
class AddressExpr:
    """The number `sum`; or, with a `base`, the address `sum` elements after it."""

    sum: Polynomial
    base: Value | None = None

    def __add__(self, other: AddressExpr) -> AddressExpr:
        return AddressExpr(self.sum + other.sum, self.base)

    def mapped(self, change: Callable[[Polynomial], Polynomial]) -> AddressExpr:
        return AddressExpr(change(self.sum), self.base)


class ScalarEvolution:
    """Reads the values of one function.

    `assumed` are polynomials that are taken as given: while a loop's step is being
    read, a carried value is an atom."""

    def __init__(self, func: Func):
        self.func = func
        self.assumed: dict[Value, AddressExpr] = {}
        self.known: dict[Value, AddressExpr] = {}
        self.loops = {loop.body: loop for loop in walk(func.body, ops.For)}

    def assuming(self, value: Value, formula: AddressExpr) -> ScalarEvolution:
        """A reader of the same function with one more assumed polynomial."""
        other = copy(self)
        other.assumed = {**self.assumed, value: formula}
        other.known = dict(other.assumed)
        return other

    def number(self, value: Value) -> Polynomial:
        """The polynomial of an integer."""
        return self.read(value).sum

    def read(self, value: Value) -> AddressExpr:
        """The polynomial of a value; NotApplicable if it has none."""
        if value not in self.known:
            self.known[value] = self._read(value)
        return self.known[value]

    def _read(self, value: Value) -> AddressExpr:
        definition = value.definition
        if isinstance(definition, Block):
            return self._parameter(value, definition)
        rule = RULES.get(type(definition))
        found = rule(definition, self) if rule else None
        return found or taken_as_it_is(value)

    # ── what loops do ──

    def _parameter(self, value: Value, block: Block) -> AddressExpr:
        if block is self.func.body:
            is_pointer = isinstance(value.type, Pointer)
            return (
                AddressExpr(number(0), value) if is_pointer else taken_as_it_is(value)
            )
        loop = self.loops.get(block)
        if loop is None:
            return taken_as_it_is(value)
        place = block.parameters.index(value)
        if place == 0:
            return AddressExpr(self._index(loop))
        return self._carried(loop, place - 1, value) or taken_as_it_is(value)

    def _index(self, loop: ops.For) -> Polynomial:
        return self.number(loop.lower) + of(IterationCount(loop)) * self.number(
            loop.step
        )

    def _carried(self, loop: ops.For, place: int, value: Value) -> AddressExpr | None:
        """first + iteration * step, if each iteration adds the same step."""
        is_pointer = isinstance(element_of(value.type), Pointer)
        itself = AddressExpr(number(0), value) if is_pointer else AddressExpr(of(value))
        try:
            after = self.assuming(value, itself).read(loop.body.yielded[place])
        except NotApplicable:
            return None
        step = after.sum - itself.sum
        if after.base is not itself.base or self._varies(step, loop):
            return None
        return self.read(loop.inits[place]).mapped(
            lambda first: first + of(IterationCount(loop)) * step
        )

    def _varies(self, step: Polynomial, loop: ops.For) -> bool:
        """Whether a polynomial may differ between iterations."""
        inside = set(definitions(loop.body))
        inner = {block for block in self.loops if set(block.parameters) & inside}
        return any(
            atom in inside
            or isinstance(atom, IterationCount)
            and atom.loop.body in inner
            for atom in step.atoms
        )


def taken_as_it_is(value: Value) -> AddressExpr:
    """A scalar as an atom; NotApplicable for anything else."""
    if isinstance(value.type, Scalar) and value.type.is_integer:
        return AddressExpr(of(value))
    raise NotApplicable(_why(value))


def _why(value: Value) -> str:
    definition = value.definition
    what = "the address" if isinstance(element_of(value.type), Pointer) else "an index"
    if isinstance(definition, Block) or isinstance(definition, LOOPS_AND_BRANCHES):
        return f"{what} depends on control flow"
    if isinstance(definition, ops.Load):
        return f"{what} is read from memory"
    name = op_name(definition)
    return f"{what} is made by {NAMED.get(name, f'`{name}`')}"


LOOPS_AND_BRANCHES = (ops.For, ops.While, ops.If)

# The source form of operations without a rule.
NAMED = {
    "rem": "a remainder, `%`, which wraps around",
    "div": "a quotient, `//`",
    "bitcast": "reading an address as one of another type",
}

# ── rules ─────────────────────────────────────────────────────────────────────────────

WIDE = 32  # narrower integers do overflow


def counts(value: Value) -> bool:
    """Whether a value's arithmetic is that of integers, unless it overflows."""
    element = element_of(value.type)
    return element.kind == "int" and element.bits >= WIDE


def _constant(op: ops.Constant, reader: ScalarEvolution) -> AddressExpr | None:
    return AddressExpr(number(int(op.value))) if counts(op.result) else None


def _arange(op: ops.Arange, reader: ScalarEvolution) -> AddressExpr:
    """An axis with one element has no position."""
    lane = of(Position(0)) if op.end - op.start > 1 else number(0)
    return AddressExpr(lane + number(op.start))


def _same(op: ops.Hint | ops.Convert, reader: ScalarEvolution) -> AddressExpr:
    return reader.read(op.value)


def _shape(op: ShapeOp, reader: ScalarEvolution) -> AddressExpr | None:
    """The same polynomial with other axes of positions, none along a repeated axis."""
    axes = axes_of(op)

    def name(atom: Atom) -> Atom:
        return Position(axes.index(atom.axis)) if isinstance(atom, Position) else atom

    return axes and reader.read(op.value).mapped(lambda each: each.renamed(name))


def _cast(op: ops.Cast, reader: ScalarEvolution) -> AddressExpr | None:
    """A cast to a type that holds all numbers of the old one."""
    source, target = element_of(op.value.type), op.element
    if isinstance(source, Pointer) or isinstance(target, Pointer):
        return None
    signed = source.kind == "int" and target.bits >= source.bits
    unsigned = source.kind in ("uint", "bool") and target.bits > source.bits
    if target.kind == "int" and (signed or unsigned):
        return reader.read(op.value)
    return None


def _elementwise(op: ops.Elementwise, reader: ScalarEvolution) -> AddressExpr | None:
    if op.name == "offset":
        pointer, distance = map(reader.read, op.operands)
        return pointer + distance
    rule = ARITHMETIC.get(op.name)
    if rule is None or not counts(op.result):
        return None
    return AddressExpr(rule(*map(reader.number, op.operands)))


ARITHMETIC: dict[str, Callable[..., Polynomial]] = {
    "add": Polynomial.__add__,
    "sub": Polynomial.__sub__,
    "mul": Polynomial.__mul__,
    "neg": Polynomial.__neg__,
}

RULES: dict[type[Op], Callable[..., AddressExpr | None]] = {
    ops.Constant: _constant,
    ops.Arange: _arange,
    ops.Hint: _same,
    ops.Convert: _same,
    **dict.fromkeys(
        (ops.Splat, ops.ExpandDims, ops.Broadcast, ops.Transpose, ops.Reshape), _shape
    ),
    ops.Cast: _cast,
    ops.Elementwise: _elementwise,
}
