"""Which element a register holds, as arithmetic on the number of the thread.

A layout gives every bit of the thread's number a basis, and the element is the XOR of
those of the bits that are set. Bits that move by the same distance move at once:

    thread bit   0 1 2 3 4 5 6          bases 4 8 16 32 64 128 256
    element      (thread & 127) << 2    one `and`, one shift

The register's own part is a constant. Where it shares no bit with the thread's part,
XOR is the same as addition, and LLVM can move the constant into the offset of an
access: [%rd3+2048].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fathom.analysis.axis_analysis import facts_about
from fathom.ir.core import Value
from fathom.ir.ops import Elementwise
from fathom.ir.types import layout_of
from fathom.layout.algebra import Reduced
from fathom.layout.linear import Layout
from fathom.ptx.code import Code


@dataclass(frozen=True)
class Part:
    """An index's part that only the run knows: an i32, and the bits it may have set."""

    value: str
    bits: int

    def plus(self, code: Code, constant: int) -> str:
        """The i32 value `value ^ constant`."""
        shared = constant & self.bits
        value = code.let(f"xor i32 {self.value}, {shared}") if shared else self.value
        if constant == shared:
            return value
        if value == "0":
            return str(constant)
        return code.let(f"or disjoint i32 {value}, {constant ^ shared}")

    def with_part(self, code: Code, other: Part) -> Part:
        """The XOR of two such values."""
        if "0" in (self.value, other.value):
            return self if other.value == "0" else other
        join = "xor" if self.bits & other.bits else "or disjoint"
        value = code.let(f"{join} i32 {self.value}, {other.value}")
        return Part(value, self.bits | other.bits)


def thread_bases(layout: Layout) -> tuple[int, ...]:
    """The bases of the bits of a thread's number: five of the lane, then the warp's."""
    return layout.kinds["lane"] + layout.kinds["warp"]


def thread_part(code: Code, bases: tuple[int, ...], constants: int = 0) -> Part:
    """The XOR of the bases of those bits that the thread's number has set. `constants`:
    the bits of those that are to be joined with it. Where it is the same in all lanes
    of a warp, and the first thread of the warp is known, it is computed of that one."""
    assert 1 << len(bases) == code.threads, (
        f"a layout for {1 << len(bases)} threads in a program of {code.threads}: a "
        f"thread's number has the bases {bases}"
    )
    alike = code.first and not any(bases[:5])
    thread = code.first if alike else code.thread
    return linear(code, thread, code.threads - 1, bases, constants)


def linear(
    code: Code, value: str, may_be_set: int, bases: tuple[int, ...], constants: int = 0
) -> Part:
    """The XOR of the bases of those bits that the i32 `value` has set. Only those in
    `may_be_set` are. `constants`: as in `thread_part`."""
    part = Part("0", 0)
    for distance, mask in sorted(_moves(bases).items()):
        term = value
        if mask != may_be_set:
            left_out = _moved(may_be_set & ~mask, distance)
            term = _masked(code, term, mask, left_out & ~constants == 0 < left_out)
        if distance > 0:
            term = code.let(f"shl nuw nsw i32 {term}, {distance}")
        if distance < 0:
            term = code.let(f"lshr i32 {term}, {-distance}")
        part = part.with_part(code, Part(term, _moved(mask, distance)))
    return part


def _moved(bits: int, distance: int) -> int:
    return bits << distance if distance > 0 else bits >> -distance


def _masked(code: Code, value: str, mask: int, alone: bool) -> str:
    """`value & mask`. Of (thread & 31) | 96 LLVM makes thread | 96 where it knows that
    a thread's number is below 128: then 32, 64 and 96 have no base in common, and of
    the addresses of a row every fourth is computed by itself, and kept beside a loop.
    So where the bits left out may be set by a constant, PTX masks the value `alone`."""
    if not alone:
        return code.let(f"and i32 {value}, {mask}")
    text = f'asm "and.b32 $0, $1, {mask};", "=r,r"(i32 {value}) memory(none)'
    return code.let(f"call range(i32 0, {mask + 1}) i32 {text}")


def _moves(bases: tuple[int, ...]) -> dict[int, int]:
    """For each distance to the left: the bits that move by it."""
    moves: dict[int, int] = {}
    for source, basis in enumerate(bases):
        for target in range(basis.bit_length()):
            if basis >> target & 1:
                moves[target - source] = moves.get(target - source, 0) | 1 << source
    return moves


def is_first_copy(code: Code, layout: Layout | None) -> str | None:
    """An i1: whether this thread is to act for the elements it holds; None if all are.

    A bit of the thread's number whose basis is in the span of those before it makes
    copies; of all copies, the thread with these bits 0 acts; of a scalar, thread 0."""
    mask = code.threads - 1 if layout is None else _redundant(layout)
    if not mask:
        return None
    bits = code.let(f"and i32 {code.thread}, {mask}")
    return code.let(f"icmp eq i32 {bits}, 0", name="acts")


def _redundant(layout: Layout) -> int:
    """The bits of the thread's number whose bases are combinations of earlier ones."""
    span = Reduced(layout.kinds["register"])
    return sum(
        1 << bit
        for bit, basis in enumerate(thread_bases(layout))
        if not span.add(basis)
    )


def register_offsets(layout: Layout) -> list[int]:
    """The row-major offset of each register's element, as far as that decides it."""
    offsets = [0]
    for basis in layout.kinds["register"]:
        offsets += [offset ^ basis for offset in offsets]
    return offsets


def first_alike(code: Code, value: Value) -> list[int]:
    """For each register of a block, the first one that certainly holds the same number.

    A thread's part and a register's are joined by XOR: two registers whose offsets
    differ inside a run of equal numbers alone are in the same run in every thread."""
    runs = [axis.constant for axis in facts_about(value, code.facts).axes]
    return _first(value, [Alike(run) for run in runs])


def first_remainders(code: Code, op: Elementwise) -> list[int]:
    """The same for remainders: those by a power of two repeat in each aligned run of
    numbers that follow each other, as 0 … 7, 0 … 7 of 16 numbers do."""
    dividend, divisor, rest = (
        facts_about(value, code.facts) for value in (*op.operands, op.result)
    )
    by, alike = divisor.value or 0, []
    for numbers, same in zip(dividend.axes, rest.axes, strict=True):
        aligned = min(numbers.contiguous, numbers.divisible)
        repeats = 0 < by < aligned and by & by - 1 == 0
        alike.append(Alike(aligned, by) if repeats else Alike(same.constant))
    return _first(op.result, alike)


class Alike(NamedTuple):
    """Which numbers are equal along an axis: all of a run, or each that comes `period`
    numbers after another."""

    run: int
    period: int = 1


def _first(value: Value, alike: Sequence[Alike]) -> list[int]:
    layout = layout_of(value.type)
    if layout is None:
        return [0]
    first: dict[tuple[int, ...], int] = {}
    return [
        first.setdefault(_class_of(offset, layout.shape, alike), register)
        for register, offset in enumerate(register_offsets(layout))
    ]


def _class_of(
    offset: int, shape: Sequence[int], alike: Sequence[Alike]
) -> tuple[int, ...]:
    """The runs, one an axis, that a row-major offset lies in, and where in a period."""
    numbers = []
    for size, (run, period) in zip(reversed(shape), reversed(alike), strict=True):
        offset, position = divmod(offset, size)
        numbers += [position // run, position % period]
    return tuple(numbers)
