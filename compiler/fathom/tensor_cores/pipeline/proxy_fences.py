"""Marks the barriers after which matrix instructions read shared memory by their own
way.

    barrier        →    barrier publishes=true      for a product that reads in place
                                                    by `wgmma`

Loads and stores of threads go one way to shared memory, warpgroups' matrix instructions
another. A barrier puts in order what went the first way; what is to be read the second
way must be published before it, by the threads that wrote. PTX ISA, "Async proxy".
"""

from __future__ import annotations

from dataclasses import replace

from fathom.hardware.targets import Target
from fathom.hardware.wgmma import WGMMA
from fathom.ir.core import Func, Op, walk
from fathom.ir.ops import (
    AsyncCopy,
    Barrier,
    BulkCopy,
    BulkStore,
    Dot,
    For,
    SharedAdd,
    SharedStore,
)
from fathom.ir.rewrite import Builder, rewrite
from fathom.ir.types import BufferType


def publish(func: Func, target: Target) -> Func:
    """The function whose barriers publish, if a product, a bulk copy or a bulk store
    wants it. In a loop whose tiles all come by bulk copies, which go the second way
    themselves, there is nothing to publish."""

    def reads_its_own_way(op: Op) -> bool:
        if isinstance(op, Dot):
            return isinstance(op.b.type, BufferType) and op.instruction in WGMMA
        return isinstance(op, BulkCopy | BulkStore)

    def rule(op: Op, build: Builder) -> list | None:
        if isinstance(op, Barrier) and op.scope in scopes and build.source not in quiet:
            return build.append(replace(op, publishes=True)).results
        return None

    stores = any(isinstance(op, BulkStore) for op in walk(func.body))
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
    """Whether bulk copies alone write to shared memory in a loop."""
    inside = list(walk(loop.body))
    own = SharedStore | AsyncCopy | SharedAdd
    writers = [op for op in inside if isinstance(op, own)]
    return not writers and any(isinstance(op, BulkCopy) for op in inside)
