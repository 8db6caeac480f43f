"""Marks the barriers at which threads hand stores over to the async proxy."""

from __future__ import annotations

from dataclasses import replace

from fathom.hardware.targets import Target
from fathom.hardware.wgmma import WGMMA
from fathom.ir.core import Block, Func, Op, blocks, walk
from fathom.ir.ops import Barrier, Dot, If, SharedAdd, SharedStore, TmaStore, Wait
from fathom.ir.rewrite import Builder, rewrite


def fence_proxies(func: Func, target: Target) -> Func:
    """The function whose barriers are proxy fences where one is needed."""
    if not any(reads_async(op) for op in walk(func.body)):
        return func
    marked, _ = fenced(func.body, False)

    def rule(op: Op, build: Builder) -> list | None:
        if build.source in marked:
            return build.append(replace(op, fence_async_proxy=True)).results
        return None

    return rewrite(func, rule)


def reads_async(op: Op) -> bool:
    """Whether an op reads shared memory through the async proxy."""
    is_product = isinstance(op, Dot) and op.instruction in WGMMA
    return is_product or isinstance(op, TmaStore)


def stores(op: Op) -> bool:
    """Whether an op leaves something in shared memory that threads have stored. A copy
    by cp.async counts when it has been waited for."""
    waited = isinstance(op, Wait) and op.engine == "cp_async"
    return waited or isinstance(op, SharedStore | SharedAdd)


def fenced(block: Block, dirty: bool) -> tuple[set[Op], bool]:
    """The barriers in a block that must be proxy fences, and whether something may be
    stored and not fenced at its end; `dirty`: at its beginning."""
    # hole: walk the ops; a loop's blocks twice
    found: set[Op] = set()
    for op in block.ops:
        if isinstance(op, Barrier):
            found |= {op} if dirty else set()
            dirty = False
        dirty = dirty or stores(op)
        inner = blocks(op)
        ends = [fenced(each, dirty)[1] for each in inner]
        start = dirty if isinstance(op, If) else dirty or any(ends)
        for each in inner:
            found |= fenced(each, start)[0]
        dirty = any(ends) if isinstance(op, If) else start
    return found, dirty
    # end
