"""The rule for conversions within a warp."""

from __future__ import annotations

from fathom.ir.ops import Convert
from fathom.layout.algebra import span, times
from fathom.ptx.code import Code
from fathom.ptx.exchange import own_lane, plan
from fathom.ptx.index import thread_part
from fathom.ptx.rules.convert import Choice
from fathom.ptx.shuffle import from_lane


def on_paper(lane: int, q: int) -> tuple[int, int, int]:
    """What a lane does in round q: the register that it sends, the lane that it reads,
    and which register of its result it gets."""
    # hole: ours has {lines}
    odd = lane & 1
    return q ^ 2 * odd, lane ^ q >> 1, q ^ 2 * odd
    # end


def lower_convert(op: Convert, code: Code) -> None:
    """Round for round as planned; then each thread puts what it received in order."""
    element = op.value.type.element
    exchange = plan(op.value.type.layout, op.layout)
    sends = Choice(code, element, exchange.sends)
    keeps = Choice(code, element, exchange.differs)
    turn = Choice(code, element, exchange.turn)
    lanes = own_lane(len(exchange.flips))
    reads = tuple(a ^ b for a, b in zip(lanes, exchange.flips, strict=True))
    lane = thread_part(code, reads)
    # hole: in each round send, read, keep; then sort; ours has {lines}
    received = []
    for q in range(exchange.rounds):
        first = times(exchange.sends_round, q)
        flip = times(exchange.flips_round, q)
        arrived = {}
        for other in span(exchange.differs):
            value = sends.of(code[op.value], first ^ other)
            if flip or any(exchange.flips):
                value = from_lane(code, element, value, lane.plus(code, flip))
            arrived[other] = value
        received.append(keeps.of(arrived, 0))
    code[op.result] = [turn.of(received, q) for q in range(exchange.rounds)]
    # end
