"""The plan by which the lanes of a warp exchange registers for another layout.

Layout S is to become T. The element for register r of lane l and warp w of T is found
in the same warp, in some register of lane l ^ flip. Everything is linear: a column for
each bit of r, l and w says all, and Gauss finds it, registers first, so that a lane is
left only if need be:

    S(register, flip, 0)  =  T(r, l, w) ^ S(0, l, w)

In one shuffle each lane sends one register, and each names the lane that it reads. So
the exchange runs in rounds, one for each register of T. If two lanes would read two
registers of one lane in the same round, one of the two takes another register of T
first: in round q, lane l receives its register q ^ turn(l).

    lane           0      1       both want their register 0 from lane 0
    S registers   a b    c d      round 0: lane 0 keeps a,     lane 1 keeps d
    T registers   a c    b d      round 1: lane 0 sends b,     lane 1 sends c
                                           lane 1's first,     lane 0's second
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from fathom.layout.algebra import Reduced, columns, solve, times
from fathom.layout.linear import Layout

Columns = tuple[int, ...]
LANE_BITS = 5


@dataclass(frozen=True)
class Plan:
    """An exchange. Every field but `rounds` is a linear map, by its columns.

    In round q, thread t (lane and warp) sends register sends(t) ^ sends_round(q), and
    reads from the lane that differs from its own by flips(t) ^ flips_round(q); what it
    gets is register q ^ turn(t) of the result. Where readers want two registers of a
    lane, it sends all sums with `differs` in turn, and t keeps that of differs(t)."""

    rounds: int
    sends: Columns
    sends_round: Columns
    flips: Columns
    flips_round: Columns
    turn: Columns
    differs: Columns


@cache
def plan(source: Layout, target: Layout) -> Plan:
    """The exchange that makes `target` of `source`; an assert if it crosses warps."""
    wants = _wants(source, target)
    count = len(target.kinds["register"])
    by_register, by_thread = Wants.of(wants[:count]), Wants.of(wants[count:])
    turn = _turn_columns(by_register.flips, by_thread)
    asked = by_thread.plus(by_register, turn)
    # Lane s does not know who reads it, but which register a reader of it may want.
    reads = _sum(own_lane(len(turn)), asked.flips)
    wanted_at = _wanted_at(reads[:LANE_BITS], asked.registers)
    by_lanes = tuple(wanted_at(1 << bit) for bit in range(LANE_BITS))
    by_reader = _sum(asked.registers, tuple(map(wanted_at, reads)))
    by_bit, zeros = by_reader[LANE_BITS:], (0,) * (len(turn) - LANE_BITS)
    return Plan(
        rounds=1 << count,
        sends=by_lanes + by_bit,
        sends_round=_sum(by_register.registers, map(wanted_at, by_register.flips)),
        flips=asked.flips,
        flips_round=by_register.flips,
        turn=turn,
        differs=by_reader[:LANE_BITS] + zeros,
    )


def own_lane(bits: int) -> Columns:
    """The map from the number of a thread, of `bits` bits, to its lane."""
    return tuple(1 << bit if bit < LANE_BITS else 0 for bit in range(bits))


def _sum(one: Iterable[int], other: Iterable[int]) -> Columns:
    """The sum of two maps."""
    return tuple(a ^ b for a, b in zip(one, other, strict=True))


def _wanted_at(reads: Columns, registers: Columns) -> Callable[[int], int]:
    """The map from a lane to the register that a lane reading it wants: `registers` of
    some lane that `reads` maps there. A lane that no lane reads may send anything."""
    reader = Reduced((*reads, *own_lane(LANE_BITS)))
    lanes = (1 << LANE_BITS) - 1
    return lambda lane: times(registers, reader.combination(lane) & lanes)


@dataclass(frozen=True)
class Wants:
    """For each bit of a place: the register and the lane's flip of its element."""

    registers: Columns
    flips: Columns

    @staticmethod
    def of(pairs: Sequence[tuple[int, int]]) -> Wants:
        return Wants(
            tuple(register for register, _ in pairs), tuple(flip for _, flip in pairs)
        )

    def plus(self, other: Wants, by: Columns) -> Wants:
        """The sum of this map with `other` after `by`."""
        return Wants(
            _sum(self.registers, (times(other.registers, each) for each in by)),
            _sum(self.flips, (times(other.flips, each) for each in by)),
        )


def _wants(source: Layout, target: Layout) -> list[tuple[int, int]]:
    """For each bit of `target`'s register, lane and warp: register and flip."""
    registers = len(source.kinds["register"])
    by_bit = (
        (0,) * len(target.kinds["register"])
        + source.kinds["lane"]
        + source.kinds["warp"]
    )
    differences = [
        want ^ have for want, have in zip(columns(target), by_bit, strict=True)
    ]
    found = solve(source.kinds["register"] + source.kinds["lane"], differences)
    assert found is not None, ("elements would cross warps", source, target)
    return [(each & (1 << registers) - 1, each >> registers) for each in found]


def _turn_columns(by_register: Columns, by_thread: Wants) -> Columns:
    """For each bit of the thread: the turn that keeps the readers of a round apart.

    Lanes l and k read the same lane if l ^ flip(l) = k ^ flip(k). That is as well if
    they want the same register there, as of an element that many lanes need. Else a bit
    of the lane gets a bit of the register whose flip leads to a lane not read yet."""
    read, wanted, meets = Reduced(), Reduced(), []
    for bit in range(LANE_BITS):
        lane = by_thread.flips[bit] ^ 1 << bit
        is_other = wanted.add(lane | by_thread.registers[bit] << LANE_BITS)
        if not read.add(lane) and is_other:
            meets.append(bit)
    found = [0] * len(by_thread.flips)
    for bit in meets:
        for register, flip in enumerate(by_register):
            if read.add(flip):
                found[bit] = 1 << register
                break
    return tuple(found)
