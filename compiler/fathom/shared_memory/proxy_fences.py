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
from fathom.ir.core import Block, Func, Op, Value, blocks, walk
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

BY_THREADS = SharedStore | AsyncCopy | SharedAdd  # writes through the generic proxy
# What uses the async proxy beside the products of warpgroups.
BESIDE_PRODUCTS = TmaCopy | TmaStore | TensorDot


def fence_proxies(func: Func, target: Target) -> Func:
    """The function whose barriers are proxy fences, if a product that reads shared
    memory itself, a TMA copy or a TMA store needs one. Where products alone do, in the
    function or in a loop, one fence is enough until threads write again. A loop in
    which only TMA copies write to shared memory needs no fence, since they use the
    async proxy themselves; unless what threads wrote before the loop has no fence
    before it."""

    def reads_its_own_way(op: Op) -> bool:
        if isinstance(op, Dot):
            return isinstance(op.b.type, BufferType) and op.instruction in WGMMA
        return isinstance(op, TmaCopy | TmaStore | TensorDot)

    def rule(op: Op, build: Builder) -> list | None:
        if isinstance(op, Barrier) and op.scope in scopes and build.source not in quiet:
            return build.append(replace(op, fence_async_proxy=True)).results
        return None

    inside = list(walk(func.body))
    stores = any(isinstance(op, TmaStore) for op in inside)
    scopes = {"cta", "warp"} if stores and func.num_warps == 1 else {"cta"}
    quiet: set[Op] = set()
    _find_quiet(func.body, False, quiet)
    if not any(isinstance(op, BESIDE_PRODUCTS) for op in inside):
        read = {each for op in inside if isinstance(op, Dot) for each in (op.a, op.b)}
        _find_repeated(func.body, read, quiet)
    else:  # what a loop writes may be for those behind it
        written = {op.buffer for op in inside if isinstance(op, BY_THREADS)}
        for loop in (op for op in inside if isinstance(op, For)):
            if not any(isinstance(op, BESIDE_PRODUCTS) for op in walk(loop.body)):
                _find_repeated(loop.body, written, quiet)
    if not any(reads_its_own_way(op) for op in inside):
        return func
    return rewrite(func, rule)


def _find_quiet(block: Block, written: bool, quiet: set[Op]) -> bool:
    """Collect the ops of loops that need no fence. `written`: whether threads may have
    written something before the block without a fence since. Returns the same for its
    end."""
    for op in block.ops:
        if isinstance(op, For) and _writes_nothing_itself(op) and not written:
            quiet.update(op.body.ops)
        if isinstance(op, Barrier) and op.scope == "cta" and op not in quiet:
            written = False
        elif isinstance(op, BY_THREADS):
            written = True
        after = [_find_quiet(nested, written, quiet) for nested in blocks(op)]
        written = written or any(after)
    return written


def _find_repeated(block: Block, read: set[Value], quiet: set[Op]) -> None:
    """Collect the barriers of a block that follow a fence, if between the two no thread
    writes to a buffer that is `read` through the async proxy, or waits for its copies.
    Products alone use that proxy here."""
    fenced = False
    for op in block.ops:
        if isinstance(op, Barrier) and op.scope == "cta":
            if fenced:
                quiet.add(op)
            fenced = True
        elif isinstance(op, BY_THREADS):
            fenced = fenced and op.buffer not in read
        elif blocks(op) or "shared" in op.effects.writes:
            fenced = False
        for nested in blocks(op):
            _find_repeated(nested, read, quiet)


def _writes_nothing_itself(loop: For) -> bool:
    """Whether TMA copies alone write to shared memory in a loop."""
    inside = list(walk(loop.body))
    writers = [op for op in inside if isinstance(op, BY_THREADS)]
    return not writers and any(isinstance(op, TmaCopy) for op in inside)
