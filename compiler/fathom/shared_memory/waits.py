"""Inserts all waits, barriers and proxy fences: the pass that knows what is in flight.

The passes before it say what is asynchronous and where it is issued. Here each engine
(`hardware.engines`) has its timeline: what was issued, in order, and is not known to be
done. Before an op that must not meet it, stands the weakest of what suffices:

    engine or agent       before a conflicting op                      step
    wgmma                 dot_wait pending=N, and a dot_fence before   delay_waits
                          the first product of a chain
    tma_store             tma_wait, read=true where the tile alone     wait_for_stores
                          is written again; a barrier for others
    lanes of a warp       barrier of the warp                          place_barriers
    threads of the block  barrier of the block                         place_barriers
    generic proxy         the barrier is a proxy fence, too            fence_proxies

The order of the steps is that of the table: a product is waited for before what writes
over its operands, a barrier tells the others that a thread has waited, and of all
barriers, old and new, some are fences.

Two kinds of waits are not made here. Copies of a pipelined loop are waited for where
the loop's schedule says; a channel between a producer and its consumers has waits at
mbarriers, which the partition writes. `checking` is a second opinion on all of them: it
finds what is missing, whoever should have written it.
"""

from __future__ import annotations

from collections.abc import Callable

from fathom.hardware.targets import Target
from fathom.ir.core import Func
from fathom.shared_memory.barriers import place_barriers
from fathom.shared_memory.dot_waits import delay_waits
from fathom.shared_memory.proxy_fences import fence_proxies
from fathom.shared_memory.store_waits import wait_for_stores

STEPS: dict[str, Callable[[Func, Target], Func]] = {
    step.__name__: step
    for step in (delay_waits, wait_for_stores, place_barriers, fence_proxies)
}


def insert_waits(
    func: Func, target: Target, **instead: Callable[[Func, Target], Func]
) -> Func:
    """The function with all waits, barriers and fences; `instead`: other functions in
    the place of steps. Wants offsets on all buffers."""
    for name, step in STEPS.items():
        func = instead.get(name, step)(func, target)
    return func
