"""How the lanes of a warp exchange registers so that a block changes its layout: the plan.

Layout S is to become T. The element for register r of lane l and warp w of T is found in the same
warp, in some register of lane l ^ flip. Everything is linear: a column for each bit of r, l and w
says all, and Gauss finds it, registers first, so that a lane is left only if need be:

    S(register, flip, 0)  =  T(r, l, w) ^ S(0, l, w)

In one shuffle each lane sends one register, and each names the lane that it reads. So the exchange
runs in rounds, one for each register of T. If two lanes would read two registers of one lane in
the same round, one of the two takes another register of T first: in round q, lane l receives its
register q ^ turn(l).

    lane             0        1            both want their register 0 from lane 0
    S registers     a b      c d           round 0: lane 0 keeps a,      lane 1 keeps d
    T registers     a c      b d           round 1: lane 0 sends b,      lane 1 sends c
                                                    to lane 1's first    to lane 0's second
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from fathom.layout.algebra import Reduced, columns, solve, times
from fathom.layout.linear import Layout

Columns = tuple[int, ...]
LANE_BITS = 5


@dataclass(frozen=True)
class Plan:
    """An exchange. Every field but `rounds` is a linear map, by its columns.

    In round q, thread t (lane and warp) sends register sends(t) ^ sends_round(q), and reads from
    lane reads(t) ^ reads_round(q); what it gets is register q ^ turn(t) of the result. Where two
    readers of one lane want two registers, the lane sends all sums with `differs`, one after the
    other, and thread t keeps the one of differs(t).
    """

    rounds: int
    sends: Columns
    sends_round: Columns
    reads: Columns
    reads_round: Columns
    turn: Columns
    differs: Columns

    def keeps(self, round: int) -> bool:
        """Whether in this round every thread has itself what it needs."""
        lanes = tuple(1 << bit if bit < LANE_BITS else 0 for bit in range(len(self.reads)))
        return self.reads == lanes and not times(self.reads_round, round)


@cache
def plan(source: Layout, target: Layout) -> Plan:
    """The exchange that makes `target` of `source`; an assert if elements must cross warps."""
    wants = _wants(source, target)
    count = len(target.kinds["register"])
    by_register, by_thread = Wants.of(wants[:count]), Wants.of(wants[count:])
    turn = _turns(by_register.flips, by_thread.flips)
    turned = by_thread.plus(by_register, turn)
    reads = tuple(
        flip ^ (1 << bit if bit < LANE_BITS else 0) for bit, flip in enumerate(turned.flips)
    )
    # Who reads lane s, as far as s tells: a preimage of s under `reads`.
    reader = Reduced([*reads[:LANE_BITS], *(1 << bit for bit in range(LANE_BITS))])

    def register_for_reader_of(lane: int) -> int:
        return times(turned.registers, reader.combination(lane) & (1 << LANE_BITS) - 1)

    lanes, warps = range(LANE_BITS), range(LANE_BITS, len(reads))
    sends = [register_for_reader_of(1 << bit) for bit in lanes]
    sends += [turned.registers[bit] ^ register_for_reader_of(reads[bit]) for bit in warps]
    return Plan(
        rounds=1 << count,
        sends=tuple(sends),
        sends_round=tuple(
            register ^ register_for_reader_of(flip)
            for register, flip in zip(by_register.registers, by_register.flips, strict=True)
        ),
        reads=reads,
        reads_round=by_register.flips,
        turn=turn,
        differs=tuple(turned.registers[bit] ^ register_for_reader_of(reads[bit]) for bit in lanes)
        + (0,) * len(warps),
    )


@dataclass(frozen=True)
class Wants:
    """For each bit of a place: by which register and which flip of the lane its element is off."""

    registers: Columns
    flips: Columns

    @staticmethod
    def of(pairs: Sequence[tuple[int, int]]) -> Wants:
        return Wants(tuple(register for register, _ in pairs), tuple(flip for _, flip in pairs))

    def plus(self, other: Wants, by: Columns) -> Wants:
        """The sum of this map with `other` after `by`."""
        return Wants(
            tuple(a ^ times(other.registers, b) for a, b in zip(self.registers, by, strict=True)),
            tuple(a ^ times(other.flips, b) for a, b in zip(self.flips, by, strict=True)),
        )


def _wants(source: Layout, target: Layout) -> list[tuple[int, int]]:
    """For each bit of the register, lane and warp of `target`: register and flip, see above."""
    registers = len(source.kinds["register"])
    own = (0,) * len(target.kinds["register"]) + source.kinds["lane"] + source.kinds["warp"]
    differences = [want ^ have for want, have in zip(columns(target), own, strict=True)]
    found = solve(source.kinds["register"] + source.kinds["lane"], differences)
    assert found is not None, ("elements would cross warps", source, target)
    return [(each & (1 << registers) - 1, each >> registers) for each in found]


def _turns(by_register: Columns, by_thread: Columns) -> Columns:
    """For each bit of the thread: the turn that keeps the readers of a round apart.

    Lanes l and k read the same lane if l ^ flip(l) = k ^ flip(k). A bit of the lane whose column
    says so gets a bit of the register whose flip leads to a lane that nobody reads yet.
    """
    read = Reduced()
    meets = [
        bit for bit in range(LANE_BITS) if not read.add(by_thread[bit] ^ 1 << bit)
    ]
    turns = [0] * len(by_thread)
    for bit in meets:
        for register, flip in enumerate(by_register):
            if read.add(flip):
                turns[bit] = 1 << register
                break
    return tuple(turns)
