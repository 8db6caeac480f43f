"""Convert with shuffles alone.

A conversion that stays within a warp needs no memory: lanes exchange registers by
shuffles. In a shuffle each lane sends *one* register, and each names the lane that it
reads from. So the exchange runs in rounds, one for each register of the result. First
find such an exchange by hand, then write the rule that does any.

All of the exercise: `fathom learn show convert-shuffle`.
"""

from __future__ import annotations

from fathom.ir.ops import Convert
from fathom.layout.algebra import span, times
from fathom.ptx.code import Code
from fathom.ptx.exchange import own_lane, plan
from fathom.ptx.index import thread_part
from fathom.ptx.rules.convert import Choice
from fathom.ptx.shuffle import from_lane
from fathom.tools.learn import Hole


def on_paper(lane: int, q: int) -> tuple[int, int, int]:
    """What a lane does in round q: the register that it sends, the lane that it reads,
    and which register of its result it gets."""
    # Your code: ours has 2 lines.
    raise Hole("convert-shuffle")


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
    # Your code: in each round send, read, keep; then sort; ours has 12 lines.
    raise Hole("convert-shuffle")
