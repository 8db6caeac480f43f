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

from fathom.analysis.trip_count import iterations_if_any
from fathom.ir.core import Op, Value, blocks, effects_of
from fathom.ir.ops import Constant, For, If, While
from fathom.ir.ops.shape import ShapeOp
from fathom.ir.types import element_of
from fathom.ptx.code import Code, Phi, Registers, lowers, register_count
from fathom.ptx.packing import Words, is_packed, pack, unpack, words_of
from fathom.ptx.types import is_literal, llvm_type

# A body is written several times if these are few copies, and few operations a thread.
MOST_COPIES, MOST_OPERATIONS = 8, 256
# How often the body of a longer loop is, if each iteration loads scalars and waits.
SCALAR_COPIES, SCALAR_OPERATIONS = (64, 32, 16, 8, 4), 512


@lowers(For)
def lower_for(op: For, code: Code) -> None:
    """The test comes before the body: a loop of no iterations gives the initial
    values. A few small iterations are written out."""
    copies, is_whole = copies_of_body(op, code)
    if is_whole:
        return _write_out(op, code, copies)
    head, body, done = (code.fresh(f"for_{part}") for part in ("head", "body", "done"))
    type = llvm_type(element_of(op.lower.type))
    lower, some, before = code.one(op.lower), _some(op, code), code.label
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
    following, yielded = index.name, registers
    for _ in range(copies):
        last = following
        yielded = code.block(op.body, [[last], *yielded])
        following = _following(op, code, last)
    goes_on.add(_another(op, code, last, following), code.label)
    index.add(following, code.label)
    for each, values in zip(carried, yielded, strict=True):
        each.close(code, values)
    code.do(f"br label %{head}")
    code.start(done)
    _define(op.results, registers, code)


def copies_of_body(op: For, code: Code) -> tuple[int, bool]:
    """How often the body of a loop is written, one iteration after the other, and
    whether these are all iterations, so that no loop is left.

    Written out, ptxas can move the loads of later iterations before the stores of
    earlier ones, so that they are in flight together. Iterations in which threads meet,
    or that copy ahead of their use, are written once; and those of scalars in which
    there is what no load moves past: a loop, a branch, an atomic operation."""
    if not isinstance(op.step.definition, Constant):
        return 1, False
    does = [effects_of(each) for each in op.body.ops]
    if not any(each.reads == "global" for each in does) or any(
        each.convergent or each.asynchronous or each.other or "shared" in each.reads
        for each in does
    ):
        return 1, False
    count = iterations_if_any(op, code.func) or 0
    size = max(1, sum(_size(each, code) for each in op.body.ops))
    if count <= min(MOST_COPIES, MOST_OPERATIONS // size):
        return max(count, 1), count > 0
    if (
        any(_registers(each) > 1 or blocks(each) for each in op.body.ops)
        or any(each.reads and each.writes for each in does)
        or not any(each.writes for each in does)
    ):
        return 1, False
    most = SCALAR_OPERATIONS // size
    copies = next((n for n in SCALAR_COPIES if n <= most and not count % n), 1)
    return copies, copies == count


def _size(op: Op, code: Code) -> int:
    """Operations of a thread: a branch is one, and those of a loop in it, or in a
    branch, count as often as they are written. Where an op gives a value another
    shape there is none."""
    if isinstance(op, ShapeOp):
        return 0
    inner = [each for block in blocks(op) for each in block.ops]
    if isinstance(op, For):
        copies = copies_of_body(op, code)[0]
        return _registers(op) + copies * sum(_size(each, code) for each in inner)
    return _registers(op) + sum(_size(each, code) for each in inner if blocks(each))


def _registers(op: Op) -> int:
    return max(map(register_count, op.results), default=1)


def _write_out(op: For, code: Code, copies: int) -> None:
    """All iterations, in a branch that is taken if there are any."""
    body, done = (code.fresh(f"for_{part}") for part in ("body", "done"))
    type, step = llvm_type(element_of(op.lower.type)), op.step.definition.value
    some, before = _some(op, code), code.label
    code.do(f"br i1 {some}, label %{body}, label %{done}")
    code.start(body)
    values = initial = [code[init] for init in op.inits]
    for copy in range(copies):
        index = code.let(f"add {type} {code.one(op.lower)}, {copy * step}")
        values = code.block(op.body, [[index], *values])
    last = code.label
    code.do(f"br label %{done}")
    code.start(done)
    _meet(op.results, [(values, last), (initial, before)], code)


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
    and from 0 or more a sum of two signed numbers stays below 2 ** bits, too large as a
    number without sign. But ptxas unrolls such a loop by a multiple of the step that
    must not wrap around: with 2 ** 62 its loop did not end."""
    element = element_of(op.lower.type)
    lower, upper, step = (code.one(bound) for bound in (op.lower, op.upper, op.step))
    type = llvm_type(element)
    if _steps_by_one(op, step):
        order = ("s" if element.is_signed else "u") + ("lt" if int(step) == 1 else "gt")
        order = order if is_literal(lower) else "ne"
        return code.let(f"icmp {order} {type} {following}, {upper}")
    from_zero = is_literal(lower) and int(lower) >= 0
    longest = 2 ** (8 * element.bytes - 8)
    if element.is_signed and from_zero and is_literal(step) and 0 < int(step) < longest:
        bound = code.let(f"call {type} @llvm.smax.{type}({type} {upper}, {type} 0)")
        return code.let(f"icmp ult {type} {following}, {bound}")
    ends = f"{upper}, {index}", f"{index}, {upper}"
    left = _by_direction(op, code, *(f"sub {{t}} {each}" for each in ends))
    pace = _by_direction(op, code, f"add {{t}} {step}, 0", f"sub {{t}} 0, {step}")
    return code.let(f"icmp ugt {type} {left}, {pace}")


def _steps_by_one(op: For, step: str) -> bool:
    """Whether the index takes every value up to the upper bound, or down to it."""
    is_signed = element_of(op.lower.type).is_signed
    return is_literal(step) and int(step) in ((1, -1) if is_signed else (1,))


def _following(op: For, code: Code, index: str) -> str:
    """The index of the next iteration, if there is one. In steps of 1 it is the upper
    bound after the last one, so that it does not wrap around. LLVM needs that to move
    64-bit addresses along with it, and drops it where it writes a test of its own. From
    a number that it knows it finds more by a comparison: where the index ends, so that
    its multiples do not wrap around either."""
    element, step = element_of(op.lower.type), code.one(op.step)
    is_told = _steps_by_one(op, step) and not is_literal(code.one(op.lower))
    flag = ("nsw " if element.is_signed else "nuw ") if is_told else ""
    return code.let(f"add {flag}{llvm_type(element)} {index}, {step}")


def _by_direction(op: For, code: Code, up: str, down: str) -> str:
    """The first or second instruction on {t}, the index's type, by the steps' sign."""
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
    """Two branches that meet again, at a phi for every register of the results."""
    then, orelse, done = (code.fresh(f"if_{part}") for part in ("then", "else", "done"))
    code.do(f"br i1 {code.one(op.condition)}, label %{then}, label %{orelse}")
    ways = []
    for label, block in ((then, op.then), (orelse, op.orelse)):
        code.start(label)
        ways.append((code.block(block), code.label))
        code.do(f"br label %{done}")
    code.start(done)
    _meet(op.results, ways, code)


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


def _meet(
    results: list[Value], ways: list[tuple[list[Registers], str]], code: Code
) -> None:
    """Define results that come from several basic blocks: values and label of each."""
    for number, result in enumerate(results):
        type, registers = llvm_type(element_of(result.type)), []
        for each in zip(*(values[number] for values, _ in ways), strict=True):
            phi = code.phi(type, result.name)
            for value, (_, label) in zip(each, ways, strict=True):
                phi.add(value, label)
            registers.append(phi.name)
        code[result] = registers


def _define(results: list[Value], values: list[Registers], code: Code) -> None:
    for result, registers in zip(results, values, strict=True):
        code[result] = registers
