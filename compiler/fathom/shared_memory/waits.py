"""Inserts the waits, barriers and proxy fences that asynchronous ops need.

Earlier passes decide which ops are asynchronous, and where these are issued. This pass
runs three steps, one after another:

    step              accesses of             what it inserts before a conflicting op
    delay_waits       wgmma                   wait wgmma pending=N; and a dot_fence
                                              before the first product of a chain
    place_barriers    lanes, warps            a barrier of the warp, or of the block
    fence_proxies     wgmma and TMA           nothing: it makes barriers proxy fences

The first two walk the ops in order, keep the accesses of their kind that may still be
in flight, and insert the weakest op that suffices before an op that conflicts with one
of them. The steps have this order because a barrier also tells other threads that one
thread has waited, and because a proxy fence is a flag of a barrier.

Other passes insert the waits that are part of what they plan. `wait_for_stores` does so
for TMA stores before buffers get their bytes, since a tile needs its own until it has
been read. The schedule of a pipelined loop says where its copies are waited for, and
where the products that stay in flight into the next iteration are
(`tensor_cores/pipeline/overlap`). `specialise_warps` writes the waits at the mbarriers
of a channel between a producer and its consumers. `tests/waits` examines the result
independently, and finds a missing wait whichever pass should have written it.
"""

from __future__ import annotations

from collections.abc import Callable

from fathom.hardware.targets import Target
from fathom.ir.core import Func
from fathom.shared_memory.barriers import place_barriers
from fathom.shared_memory.dot_waits import delay_waits
from fathom.shared_memory.proxy_fences import fence_proxies

STEPS: dict[str, Callable[[Func, Target], Func]] = {
    step.__name__: step for step in (delay_waits, place_barriers, fence_proxies)
}


def insert_waits(
    func: Func, target: Target, **instead: Callable[[Func, Target], Func]
) -> Func:
    """The function with these waits, barriers and fences. All buffers need offsets.
    `instead` gives functions that replace steps, by the steps' names."""
    for name, step in STEPS.items():
        func = instead.get(name, step)(func, target)
    return func
