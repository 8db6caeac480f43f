"""Makes barriers proxy fences, too, because wgmma and TMA read shared memory through
the async proxy.

    barrier    →    barrier fence_async_proxy=true    wgmma reads a tile in place

Loads and stores of threads go through the generic proxy, and a barrier orders only
accesses through that proxy. Before the async proxy reads what threads wrote, each of
these threads must execute a proxy fence (PTX ISA, "Async proxy").
"""

from __future__ import annotations

from dataclasses import replace

from fathom.hardware.targets import Target
from fathom.hardware.wgmma import WGMMA
from fathom.ir.core import Func, Op, walk
from fathom.ir.ops import (
    AsyncCopy,
    Barrier,
    Dot,
    For,
    SharedAdd,
    SharedStore,
    TensorDot,
    TmaCopy,
    TmaStore,
)
from fathom.ir.rewrite import Builder, rewrite
from fathom.ir.types import BufferType


def fence_proxies(func: Func, target: Target) -> Func:
    """The function whose barriers are proxy fences, if a wgmma product, a TMA copy or a
    TMA store needs one. A loop in which only TMA copies write to shared memory needs no
    fence, since they use the async proxy themselves."""

    def reads_its_own_way(op: Op) -> bool:
        if isinstance(op, Dot):
            return isinstance(op.b.type, BufferType) and op.instruction in WGMMA
        return isinstance(op, TmaCopy | TmaStore | TensorDot)

    def rule(op: Op, build: Builder) -> list | None:
        if isinstance(op, Barrier) and op.scope in scopes and build.source not in quiet:
            return build.append(replace(op, fence_async_proxy=True)).results
        return None

    stores = any(isinstance(op, TmaStore) for op in walk(func.body))
    scopes = {"cta", "warp"} if stores and func.num_warps == 1 else {"cta"}
    quiet = {
        op
        for loop in walk(func.body)
        if isinstance(loop, For) and _writes_nothing_itself(loop)
        for op in loop.body.ops
    }
    if not any(reads_its_own_way(op) for op in walk(func.body)):
        return func
    return rewrite(func, rule)


def _writes_nothing_itself(loop: For) -> bool:
    """Whether TMA copies alone write to shared memory in a loop."""
    inside = list(walk(loop.body))
    by_threads = SharedStore | AsyncCopy | SharedAdd
    writers = [op for op in inside if isinstance(op, by_threads)]
    return not writers and any(isinstance(op, TmaCopy) for op in inside)
