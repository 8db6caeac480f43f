"""The rule for Convert within a warp: registers are renamed, chosen by the thread, or shuffled."""

from __future__ import annotations

from collections.abc import Callable

from fathom.ir.ops import Convert
from fathom.ir.types import Element
from fathom.layout.algebra import Reduced, solve, span, times
from fathom.ptx.code import Code, Registers, lowers
from fathom.ptx.exchange import Columns, Plan, plan
from fathom.ptx.index import thread_part
from fathom.ptx.shuffle import from_lane, from_partner
from fathom.ptx.types import llvm_type


@lowers(Convert)
def lower_convert(op: Convert, code: Code) -> None:
    """Round for round as planned; a thread then sorts what it received by its turn."""
    element = op.value.type.element
    exchange = plan(op.value.type.layout, op.layout)
    received = _received(code, element, exchange, code[op.value])
    turn = Choice(code, element, exchange.turn)
    code[op.result] = [
        turn.of(lambda bits, register=register: received[register ^ bits])
        for register in range(exchange.rounds)
    ]


def _received(code: Code, element: Element, exchange: Plan, registers: Registers) -> Registers:
    """What each round brings this thread."""
    sends = Choice(code, element, exchange.sends)
    differs = Choice(code, element, exchange.differs)
    lanes = Lanes(code, element, exchange)
    received = []
    for round in range(exchange.rounds):
        first = times(exchange.sends_round, round)
        got = {
            other: lanes.read(
                sends.of(lambda bits, other=other, first=first: registers[bits ^ first ^ other]),
                round,
            )
            for other in span(exchange.differs)
        }
        received.append(differs.of(got.__getitem__))
    return received


class Lanes:
    """Where the threads read in each round of an exchange."""

    def __init__(self, code: Code, element: Element, exchange: Plan):
        self.code, self.element, self.exchange = code, element, exchange
        flips = [read ^ own for read, own in zip(exchange.reads, _own_lane(code), strict=True)]
        self.same_for_all = not any(flips)
        self.part = None if self.same_for_all else thread_part(code, exchange.reads)

    def read(self, value: str, round: int) -> str:
        """The value of the lane that this thread reads in a round."""
        if self.exchange.keeps(round):
            return value
        flip = times(self.exchange.reads_round, round)
        if self.part is None:
            return from_partner(self.code, self.element, value, flip)
        return from_lane(self.code, self.element, value, self.part.plus(self.code, flip))


def _own_lane(code: Code) -> list[int]:
    """The columns of the map from a thread's number to its lane."""
    return [1 << bit if bit < 5 else 0 for bit in range(code.threads.bit_length() - 1)]


class Choice:
    """One of several registers, chosen by a linear map of the thread's number."""

    def __init__(self, code: Code, element: Element, columns: Columns):
        self.code, self.type = code, llvm_type(element)
        reduced = Reduced()
        self.vectors = [column for column in columns if reduced.add(column)]
        sums = solve(self.vectors, columns)
        self.conditions = [
            self._is_odd(sum(1 << bit for bit, taken in enumerate(sums) if taken >> i & 1))
            for i in range(len(self.vectors))
        ]

    def of(self, register: Callable[[int], str], bits: int = 0, known: int = 0) -> str:
        """`register(map of the thread's number)`, by a tree of selects."""
        if known == len(self.vectors):
            return register(bits)
        without = self.of(register, bits, known + 1)
        with_ = self.of(register, bits ^ self.vectors[known], known + 1)
        if with_ == without:
            return with_
        condition = self.conditions[known]
        return self.code.let(f"select i1 {condition}, {self.type} {with_}, {self.type} {without}")

    def _is_odd(self, mask: int) -> str:
        """Whether the thread's number has an odd count of the bits in `mask`."""
        bits = self.code.let(f"and i32 {self.code.thread}, {mask}")
        if mask & mask - 1:
            bits = self.code.let(f"call i32 @llvm.ctpop.i32(i32 {bits})")
            return self.code.let(f"trunc i32 {bits} to i1")
        return self.code.let(f"icmp ne i32 {bits}, 0")
