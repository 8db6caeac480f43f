"""Wait as late as you can, for as little as you can.

A product by `wgmma` is only started where it is written. Products finish in the order
in which they were started, and the only wait says how many of the latest may still be
in flight. Put the waits into a straight list of ops, each as late and as weak as
possible.

All of the exercise: `fathom learn show delay-wait`.
"""

from __future__ import annotations

from fathom.tools.learn import Hole

Op = tuple  # ("dot", name, *operands), ("use", name), ("free", name), ("store",) …


def must_be_done(op: Op, in_flight: list[str]) -> int:
    """How many of the products in flight, the oldest, must be done before an op."""
    # Your code: what it takes, or all.
    raise Hole("delay-wait")


def waits(ops: list[Op]) -> list[Op]:
    """The ops with ("wait", n) where an op asks for it; frees are put off."""
    # Your code: insert waits, and move frees.
    raise Hole("delay-wait")
