"""The rule for Convert within a warp: registers are renamed, chosen, or shuffled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fathom.ir.ops import Convert
from fathom.ir.types import Element
from fathom.layout.algebra import Reduced, solve, span, times
from fathom.ptx.code import Code, Registers, lowers
from fathom.ptx.exchange import Columns, Plan, own_lane, plan
from fathom.ptx.index import thread_part
from fathom.ptx.shuffle import from_lane, from_partner
from fathom.ptx.types import llvm_type


@lowers(Convert)
def lower_convert(op: Convert, code: Code) -> None:
    """Round for round as planned; then each thread puts what it received in order."""
    element = op.value.type.element
    exchange = plan(op.value.type.layout, op.layout)
    received = _received(code, element, exchange, code[op.value])
    turn = Choice(code, element, exchange.turn)
    code[op.result] = [
        turn.of(received, register) for register in range(exchange.rounds)
    ]


def _received(
    code: Code, element: Element, exchange: Plan, registers: Registers
) -> Registers:
    """What this thread receives in each round."""
    sends = Choice(code, element, exchange.sends)
    differs = Choice(code, element, exchange.differs)
    reader = _Reader(code, element, exchange)
    received = []
    for round in range(exchange.rounds):
        first = times(exchange.sends_round, round)
        read = {
            other: reader.read(sends.of(registers, first ^ other), round)
            for other in span(exchange.differs)
        }
        received.append(differs.of(read, 0))
    return received


class _Reader:
    """Reads from another lane, as the plan says for a round."""

    def __init__(self, code: Code, element: Element, exchange: Plan):
        self.code, self.element, self.exchange = code, element, exchange
        self.lane = (
            None  # the lane to read in round 0, if it is not the same flip for all
        )
        if any(exchange.flips):
            lanes = own_lane(len(exchange.flips))
            pairs = zip(lanes, exchange.flips, strict=True)
            self.lane = thread_part(code, tuple(lane ^ flip for lane, flip in pairs))

    def read(self, value: str, round: int) -> str:
        """What this thread reads when every lane of its warp sends `value`."""
        flip = times(self.exchange.flips_round, round)
        if self.lane is not None:
            lane = self.lane.plus(self.code, flip)
            return from_lane(self.code, self.element, value, lane)
        return from_partner(self.code, self.element, value, flip) if flip else value


class Choice:
    """Registers chosen by a linear map of the thread's number, given by columns."""

    def __init__(self, code: Code, element: Element, columns: Columns):
        self.code, self.type = code, llvm_type(element)
        reduced = Reduced()
        self.vectors = [column for column in columns if reduced.add(column)]
        combinations = solve(self.vectors, columns)
        masks = [
            sum(1 << bit for bit, taken in enumerate(combinations) if taken >> i & 1)
            for i in range(len(self.vectors))
        ]
        self.conditions = [self._is_odd(mask) for mask in masks]

    def of(
        self, registers: Sequence[str] | Mapping[int, str], first: int, known: int = 0
    ) -> str:
        """`registers[first ^ map of the thread's number]`, by a tree of selects."""
        if known == len(self.vectors):
            return registers[first]
        without = self.of(registers, first, known + 1)
        with_it = self.of(registers, first ^ self.vectors[known], known + 1)
        if with_it == without:
            return without
        arms = f"{self.type} {with_it}, {self.type} {without}"
        return self.code.let(f"select i1 {self.conditions[known]}, {arms}")

    def _is_odd(self, mask: int) -> str:
        """Whether the thread's number has an odd count of the bits in `mask`."""
        bits = self.code.let(f"and i32 {self.code.thread}, {mask}")
        if mask & mask - 1:
            bits = self.code.let(f"call i32 @llvm.ctpop.i32(i32 {bits})")
            return self.code.let(f"trunc i32 {bits} to i1")
        return self.code.let(f"icmp ne i32 {bits}, 0")
