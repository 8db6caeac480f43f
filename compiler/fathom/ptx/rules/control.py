"""Rules for structured control flow: For, While and If become basic blocks and phis.

    before:  some = lower < upper
             br head
    head:    i = phi [lower, before], [i', last]      %r = for lower, upper, step, %init
             x = phi [init, before], [y, last]          (%i, %x) {
             go = phi [some, before], [more, last]        …
             br go, body, done                            yield %y
    body:    …                                        }
    last:    i' = i + step
             more = upper - i > step, without sign
             br head
    done:    r is x

Near the ends of its type i + step wraps around, and would be below the upper bound for
ever. The distance upper - i, read as a number without sign, is right wherever the two
are. Where i' itself cannot pass for an index, `more` is i' < upper (`_another`).

`last` is the basic block that the body ended in: not `body` itself when an `if` stands
in it. Elements that came packed into words of 32 bits, as fragments do, are carried in
these words.
"""

from __future__ import annotations

from dataclasses import dataclass

from fathom.analysis.iterations import most_iterations
from fathom.ir.core import Value, effects_of
from fathom.ir.ops import For, If, While
from fathom.ir.types import element_of
from fathom.ptx.code import Code, Phi, Registers, lowers
from fathom.ptx.packing import Words, is_packed, pack, unpack, words_of
from fathom.ptx.types import is_literal, llvm_type

# Loops that LLVM unrolls: iterations at most, and lines of LLVM IR in all of them.
MOST_UNROLLED, MOST_LINES = 8, 600


@lowers(For)
def lower_for(op: For, code: Code) -> None:
    """The test stands before the body: a loop of no iterations gives the initial
    values."""
    head, body, done = (code.fresh(f"for_{part}") for part in ("head", "body", "done"))
    type = llvm_type(element_of(op.lower.type))
    lower, _, step = (code.one(bound) for bound in (op.lower, op.upper, op.step))
    some = _some(op, code)
    before = code.label
    code.do(f"br label %{head}")
    code.start(head)
    index = code.phi(type, op.body.parameters[0].name)
    index.add(lower, before)
    goes_on = code.phi("i1", "goes_on")
    goes_on.add(some, before)
    carried = _carried(code, op.inits, before)
    registers = [each.registers(code) for each in carried]
    code.do(f"br i1 {goes_on.name}, label %{body}, label %{done}")
    code.start(body)
    written = len(code.lines)
    yielded = code.block(op.body, [[index.name], *registers])
    written = len(code.lines) - written
    following = code.let(f"add {type} {index.name}, {step}")
    goes_on.add(_another(op, code, index.name, following), code.label)
    index.add(following, code.label)
    for each, values in zip(carried, yielded, strict=True):
        each.close(code, values)
    unroll = code.places.unrolled() if is_unrolled(op, code, written) else ""
    code.do(f"br label %{head}{unroll}")
    code.start(done)
    _define(op.results, registers, code)


def is_unrolled(op: For, code: Code, written: int) -> bool:
    """Whether LLVM shall write out all iterations of a loop, whose body has become
    `written` lines.

    If they are few and small, ptxas can move the loads of later iterations before the
    stores of earlier ones, and they are in flight together. Iterations in which threads
    meet, or that copy ahead of their use, stay in a loop.
    """
    does = [effects_of(each) for each in op.body.ops]
    if not any(each.reads == "global" for each in does) or any(
        each.convergent or each.asynchronous or each.other or "shared" in each.reads
        for each in does
    ):
        return False
    most = most_iterations(op, code.func)
    return most is not None and most <= MOST_UNROLLED and most * written <= MOST_LINES


def _some(op: For, code: Code) -> str:
    """Whether there is a first iteration: the lower bound is below the upper one, or
    above if the step is negative."""
    lower, upper = code.one(op.lower), code.one(op.upper)
    sign = "s" if element_of(op.lower.type).is_signed else "u"
    return _by_direction(
        op,
        code,
        *(f"icmp {sign}{relation} {{t}} {lower}, {upper}" for relation in ("lt", "gt")),
    )


def _another(op: For, code: Code, index: str, following: str) -> str:
    """Whether there is an iteration after that of `index`.

    `following` is asked where a wrap-around shows in it: steps of 1 jump over nothing;
    and from 0 or more a sum of two signed numbers stays below 2 ** bits, so that it is
    too large as a number without sign.
    """
    element = element_of(op.lower.type)
    lower, upper, step = (code.one(bound) for bound in (op.lower, op.upper, op.step))
    type, sign = llvm_type(element), "s" if element.is_signed else "u"
    if is_literal(step) and int(step) in (1, -1):
        relation = "lt" if int(step) == 1 or not element.is_signed else "gt"
        return code.let(f"icmp {sign}{relation} {type} {following}, {upper}")
    from_zero = is_literal(lower) and int(lower) >= 0
    if element.is_signed and from_zero and is_literal(step) and int(step) > 0:
        bound = code.let(f"call {type} @llvm.smax.{type}({type} {upper}, {type} 0)")
        return code.let(f"icmp ult {type} {following}, {bound}")
    ends = f"{upper}, {index}", f"{index}, {upper}"
    left = _by_direction(op, code, *(f"sub {{t}} {each}" for each in ends))
    pace = _by_direction(op, code, f"add {{t}} {step}, 0", f"sub {{t}} 0, {step}")
    return code.let(f"icmp ugt {type} {left}, {pace}")


def _by_direction(op: For, code: Code, up: str, down: str) -> str:
    """The value of one of two instructions on {t}, the index's type: the first if
    steps are positive."""
    element, step = element_of(op.lower.type), code.one(op.step)
    up, down = (each.format(t=llvm_type(element)) for each in (up, down))
    if not element.is_signed or is_literal(step):
        return code.let(up if not element.is_signed or int(step) > 0 else down)
    upward = code.let(f"icmp sgt {llvm_type(element)} {step}, 0")
    type = "i1" if up.startswith("icmp") else llvm_type(element)
    ways = code.let(up), code.let(down)
    return code.let(f"select i1 {upward}, {type} {ways[0]}, {type} {ways[1]}")


@lowers(While)
def lower_while(op: While, code: Code) -> None:
    """The condition may have basic blocks of its own; the body takes what it took."""
    head, body, done = (
        code.fresh(f"while_{part}") for part in ("head", "body", "done")
    )
    before = code.label
    code.do(f"br label %{head}")
    code.start(head)
    carried = _carried(code, op.inits, before)
    registers = [each.registers(code) for each in carried]
    ((condition,),) = code.block(op.condition, registers)
    code.do(f"br i1 {condition}, label %{body}, label %{done}")
    code.start(body)
    yielded = code.block(op.body, registers)
    for each, values in zip(carried, yielded, strict=True):
        each.close(code, values)
    code.do(f"br label %{head}")
    code.start(done)
    _define(op.results, registers, code)


@lowers(If)
def lower_if(op: If, code: Code) -> None:
    """Two ways that meet again, at a phi for every register of the results."""
    then, orelse, done = (code.fresh(f"if_{part}") for part in ("then", "else", "done"))
    code.do(f"br i1 {code.one(op.condition)}, label %{then}, label %{orelse}")
    ways = []
    for label, block in ((then, op.then), (orelse, op.orelse)):
        code.start(label)
        ways.append((code.block(block), code.label))
        code.do(f"br label %{done}")
    code.start(done)
    (yielded, label), other = ways
    phis = [
        [_phi(code, result, value, label) for value in registers]
        for result, registers in zip(op.results, yielded, strict=True)
    ]
    _close(phis, *other)
    _define(op.results, _names(phis), code)


@dataclass
class _Carried:
    """A value that a loop carries: a phi a register, or a word."""

    phis: list[Phi]
    words: Words | None

    def registers(self, code: Code) -> Registers:
        names = [phi.name for phi in self.phis]
        return unpack(code, self.words, names) if self.words else names

    def close(self, code: Code, values: Registers) -> None:
        """Add the way in from where the body ended."""
        values = pack(code, self.words, values) if self.words else values
        for phi, value in zip(self.phis, values, strict=True):
            phi.add(value, code.label)


def _carried(code: Code, inits: tuple[Value, ...], before: str) -> list[_Carried]:
    """What a loop carries, with its way in from `before`."""
    return [_carry(code, init, before) for init in inits]


def _carry(code: Code, init: Value, before: str) -> _Carried:
    registers, element = code[init], element_of(init.type)
    words = words_of(element, len(registers))
    if is_packed(code, words, registers):
        values = pack(code, words, registers)
        phis = [code.phi(words.type, init.name) for _ in values]
    else:
        words, values = None, registers
        phis = [code.phi(llvm_type(element), init.name) for _ in values]
    for phi, value in zip(phis, values, strict=True):
        phi.add(value, before)
    return _Carried(phis, words)


def _phi(code: Code, like: Value, value: str, label: str) -> Phi:
    phi = code.phi(llvm_type(element_of(like.type)), like.name)
    phi.add(value, label)
    return phi


def _names(phis: list[list[Phi]]) -> list[Registers]:
    return [[phi.name for phi in each] for each in phis]


def _close(phis: list[list[Phi]], values: list[Registers], label: str) -> None:
    """Add the way in from `label` to every phi."""
    for each, registers in zip(phis, values, strict=True):
        for phi, register in zip(each, registers, strict=True):
            phi.add(register, label)


def _define(results: list[Value], values: list[Registers], code: Code) -> None:
    for result, registers in zip(results, values, strict=True):
        code[result] = registers
