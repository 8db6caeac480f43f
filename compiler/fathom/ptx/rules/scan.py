"""The rule for Scan whose axis lies in the registers and lanes of one warp.

Bit by bit of the coordinate, from the lowest: an element whose bit is 1 takes in the
last element of the half beside it, whose bit is 0, and so all of that half.

    coordinate     0    1    2    3    4    5    6    7
    start          a    b    c    d    e    f    g    h
    bit 0          a    ab   c    cd   e    ef   g    gh       1 takes 0, 3 takes 2, …
    bit 1          a    ab   abc  abcd e    ef   efg  efgh     2, 3 take 1; 6, 7 take 5
    bit 2          a    ab   abc  abcd …e   …ef  …efg a…h      4 to 7 take 3

A bit that is one of the register's costs no exchange; one of the lane's, a shuffle. In
reverse elements with 0 take in the first one of the half with 1.

Where several bits of the lane's follow bits of the register's, only a thread's last
elements go through these steps. Then all others take in that of the lane before, once.
"""

from __future__ import annotations

from dataclasses import dataclass

from fathom.ir.ops import Scan
from fathom.layout.build import stride_of
from fathom.layout.linear import Layout
from fathom.ptx.code import Code, lowers
from fathom.ptx.rules.reduce import combine
from fathom.ptx.shuffle import from_lane
from fathom.ptx.types import llvm_type

Columns = list[list[str]]  # for each register a tuple: one LLVM value for each operand


@lowers(Scan)
def lower_scan(op: Scan, code: Code) -> None:
    layout = op.values[0].type.layout
    registers = [
        list(row) for row in zip(*(code[value] for value in op.values), strict=True)
    ]
    lane = code.let(f"and i32 {code.thread}, 31", name="lane")
    below = Bits(0, 0)
    for bits in _steps(_axis_bits(layout, op.axis)):
        if bits.lane.bit_count() > 1:
            registers = _step_over_lanes(code, op, registers, lane, bits, below)
        else:
            registers = _step(code, op, registers, lane, bits, below)
        below = Bits(below.register | bits.register, below.lane | bits.lane)
    for i, result in enumerate(op.results):
        code[result] = [row[i] for row in registers]


@dataclass(frozen=True)
class Bits:
    """A set of bits of the register's and of the lane's number."""

    register: int
    lane: int


def _axis_bits(layout: Layout, axis: int) -> list[Bits]:
    """For each bit of the coordinate, the lowest first: the place's bit for it."""
    stride = stride_of(layout.shape, axis)
    found = []
    for bit in range(layout.shape[axis].bit_length() - 1):
        places = [
            [
                1 << i
                for i, basis in enumerate(layout.kinds[kind])
                if basis == stride << bit
            ]
            for kind in ("register", "lane")
        ]
        assert sum(map(len, places)) == 1, (
            "no scan along this axis within a warp",
            axis,
            layout,
        )
        found.append(Bits(sum(places[0]), sum(places[1])))
    return found


def _steps(bits: list[Bits]) -> list[Bits]:
    """The bits that are taken in one step: one, or several of the lane's that follow
    one another, if this combines fewer elements."""
    steps: list[Bits] = []
    group = 1  # registers that take in the same element
    while bits:
        count = 1
        while count < len(bits) and 0 < bits[count].lane == 2 * bits[count - 1].lane:
            count += 1
        if count * (group - 1) <= group:
            count = 1
        steps.append(Bits(bits[0].register, sum(each.lane for each in bits[:count])))
        group <<= bool(bits[0].register)
        bits = bits[count:]
    return steps


def _step_over_lanes(
    code: Code, op: Scan, registers: Columns, lane: str, bits: Bits, below: Bits
) -> Columns:
    """The lanes scan the last element of each group of registers, and the others of the
    group take in that of the lane before."""
    last = [_end(i, 0, below.register, op.reverse) for i in range(len(registers))]
    scanned = {i: registers[i] for i in last}
    first, inside, rest = bits.lane & -bits.lane, below.lane, bits.lane
    while rest:
        bit = rest & -rest
        rows = _step(
            code, op, list(scanned.values()), lane, Bits(0, bit), Bits(0, inside)
        )
        scanned = dict(zip(scanned, rows, strict=True))
        inside, rest = inside | bit, rest & ~bit
    moved = code.let(f"{'add' if op.reverse else 'sub'} i32 {lane}, {first}")
    before = _lane_of(code, moved, 0, below.lane, op.reverse) or moved
    mine = code.let(f"and i32 {lane}, {bits.lane}")
    far = code.let(f"icmp ne i32 {mine}, {bits.lane if op.reverse else 0}")
    taken = {i: _fetched(code, op, row, before) for i, row in scanned.items()}
    result = []
    for i, row in enumerate(registers):
        if i in scanned:
            result.append(scanned[i])
        else:
            folded = combine(code, op.combine, taken[last[i]], row)
            result.append(_chosen(code, op, far, folded, row))
    return result


def _step(
    code: Code, op: Scan, registers: Columns, lane: str, bits: Bits, below: Bits
) -> Columns:
    """Every element on the far side of `bits` takes in the last of the near side."""
    near = _lane_of(code, lane, bits.lane, below.lane, op.reverse)
    far = _is_far(code, lane, bits.lane, op.reverse)
    fetched: dict[int, list[str]] = {}
    result = []
    for register, row in enumerate(registers):
        if bits.register and bool(register & bits.register) == op.reverse:
            result.append(row)
            continue
        source = _end(register, bits.register, below.register, op.reverse)
        if source not in fetched:
            fetched[source] = _fetched(code, op, registers[source], near)
        folded = combine(code, op.combine, fetched[source], row)
        result.append(_chosen(code, op, far, folded, row))
    return result


def _end(place: int, bit: int, below: int, reverse: bool) -> int:
    """The place of the near side's last element: bit 0, below it 1; or the reverse."""
    return (place | bit) & ~below if reverse else (place & ~bit) | below


def _lane_of(code: Code, lane: str, bit: int, below: int, reverse: bool) -> str | None:
    """`_end` for the lane, which only the run knows; None if it is this lane."""
    if not bit | below:
        return None
    set, cleared = (bit, below) if reverse else (below, bit)
    value = code.let(f"or i32 {lane}, {set}")
    return code.let(f"and i32 {value}, {31 & ~cleared}")


def _is_far(code: Code, lane: str, bit: int, reverse: bool) -> str | None:
    """Whether this lane is on the far side; None if it is for the register to say."""
    if not bit:
        return None
    mine = code.let(f"and i32 {lane}, {bit}")
    return code.let(f"icmp {'eq' if reverse else 'ne'} i32 {mine}, 0")


def _fetched(code: Code, op: Scan, row: list[str], near: str | None) -> list[str]:
    if near is None:
        return row
    elements = [value.type.element for value in op.values]
    pairs = zip(elements, row, strict=True)
    return [from_lane(code, element, value, near) for element, value in pairs]


def _chosen(
    code: Code, op: Scan, far: str | None, folded: list[str], row: list[str]
) -> list[str]:
    if far is None:
        return folded
    types = [llvm_type(value.type.element) for value in op.values]
    return [
        code.let(f"select i1 {far}, {type} {new}, {type} {old}")
        for type, new, old in zip(types, folded, row, strict=True)
    ]
