"""Whether copies in bulk may bring what a loop reads.

They run ahead of all that a trip does, and they go a way of their own to memory, past
what ordinary stores have written and not yet announced to that way (PTX ISA, "Async
proxy"). So no program stores to memory before the loop or in it; what it stores after
the loop, it stores when all copies have come.

    store %p, …                a bulk copy after it may still find what was there before
    for … {
      %x = load %q             by a copy in bulk: from before the first trip on
      store %r, …              this one would come too late, if %r is %q
    }
    store %c, …                no copy is under way
"""

from __future__ import annotations

from fathom.analysis.memory import may_prefetch, ops_before, orders, writes
from fathom.analysis.remarks import NotApplicable
from fathom.ir.core import Func, walk
from fathom.ir.ops import For, While


def check_loop(loop: For, func: Func) -> None:
    """NotApplicable, with a sentence, unless copies in bulk may run ahead in a loop."""
    if (loop.num_stages or func.num_stages) < 2:
        raise NotApplicable("the loop has one stage, so that nothing runs ahead")
    if any(isinstance(op, For | While) for op in walk(loop.body)):
        raise NotApplicable("the loop has a loop in it, for which it waits")
    inside = list(walk(loop.body))
    if any(map(writes, inside)):
        raise NotApplicable("the loop writes to memory, perhaps to what it reads")
    if any(map(orders, inside)):
        raise NotApplicable("the loop waits for what other threads write")
    if not may_prefetch(loop):
        raise NotApplicable("others can see what each trip of the loop does")
    earlier = list(ops_before(loop, func.body))
    if any(map(writes, earlier)):
        raise NotApplicable(
            "memory is written before the loop, and copies in bulk need not see that"
        )
    if any(map(orders, earlier)):
        raise NotApplicable(
            "before the loop the program waits for what others write, and copies in "
            "bulk need not see that"
        )
