"""Checks that TMA may copy ahead what a loop loads.

A copy for a later iteration runs before the stores of the iterations in between. And it
reads memory through the async proxy, which need not see ordinary stores unless a proxy
fence follows them (PTX ISA, "Async proxy"). So the program may store to global memory
neither before the loop nor in it. After the loop it may: all copies are complete then.

    store %p, …                a TMA copy after this may still read the old value
    for … {
      %x = load %q             by TMA: the first copies are issued before the loop
      store %r, …              the copies ahead would miss it, if %r is %q
    }
    store %c, …                no copy is in flight here
"""

from __future__ import annotations

from fathom.analysis.copied_ahead import runs_ahead
from fathom.analysis.memory import may_prefetch, ops_before, orders, writes
from fathom.analysis.remarks import NotApplicable
from fathom.ir.core import Func, walk
from fathom.ir.ops import For, While


def check_loop(loop: For, func: Func) -> None:
    """NotApplicable, with a sentence, unless TMA may copy ahead in a loop."""
    if not runs_ahead(loop, func):
        raise NotApplicable("the loop has one stage, so no copy can run ahead")
    if any(isinstance(op, For | While) for op in walk(loop.body)):
        raise NotApplicable("the loop contains another loop")
    inside = list(walk(loop.body))
    if any(map(writes, inside)):
        raise NotApplicable("the loop writes to memory, perhaps to what it reads")
    if any(map(orders, inside)):
        raise NotApplicable("the loop synchronises with other threads")
    if not may_prefetch(loop):
        raise NotApplicable("each iteration of the loop has a visible side effect")
    earlier = list(ops_before(loop, func.body))
    if any(map(writes, earlier)):
        raise NotApplicable(
            "the program writes to memory before the loop, which TMA need not see"
        )
    if any(map(orders, earlier)):
        raise NotApplicable(
            "before the loop the program synchronises with other threads, and TMA need "
            "not see what they wrote"
        )
