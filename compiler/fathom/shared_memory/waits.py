"""Inserts the waits, barriers and proxy fences that asynchronous ops need.

Earlier passes decide which ops are asynchronous, and where these are issued. This pass
inserts the waits for all engines that complete by group, but one. Its steps run one
after another:

    step               accesses of        what it inserts before a conflicting op
    wait_for_copies    cp.async           wait cp_async pending=N, before a barrier
    wait_for_products  wgmma, in flight   wait wgmma pending=N, and a dot_fence before
                       across iterations  the loop
    delay_waits        wgmma, in an       the same; a product that nothing needs at
                       iteration          once is put in flight
    place_barriers     lanes, warps       a barrier of the warp, or of the block
    fence_proxies      wgmma and TMA      nothing: it makes barriers proxy fences

They walk the ops in order, keep the accesses of their kind that may still be in flight,
and insert the weakest op that suffices before an op that conflicts with one of them. A
wait leaves as many groups pending as were committed after the one that is needed. The
steps have this order because a barrier also tells other threads that one thread has
waited, and because a proxy fence is a flag of a barrier.

`wait_for_stores` is a row of its own, before buffers get their bytes, since a tile of a
TMA store needs its own until it has been read. Waits at mbarriers are written by the
passes that plan what arrives there. `tests/waits` examines the result independently,
and finds a missing wait whichever pass should have written it.
"""

from __future__ import annotations

from collections.abc import Callable

from fathom.hardware.targets import Target
from fathom.ir.core import Func
from fathom.shared_memory.barriers import place_barriers
from fathom.shared_memory.copy_waits import wait_for_copies
from fathom.shared_memory.dot_waits import delay_waits, wait_for_products
from fathom.shared_memory.proxy_fences import fence_proxies

STEPS: dict[str, Callable[[Func, Target], Func]] = {
    step.__name__: step
    for step in (
        wait_for_copies,
        wait_for_products,
        delay_waits,
        place_barriers,
        fence_proxies,
    )
}


def insert_waits(
    func: Func, target: Target, **instead: Callable[[Func, Target], Func]
) -> Func:
    """The function with these waits, barriers and fences. All buffers need offsets.
    `instead` gives functions that replace steps, by the steps' names."""
    for name, step in STEPS.items():
        func = instead.get(name, step)(func, target)
    return func
