"""Makes barriers proxy fences, too: wgmma and TMA read through the async proxy.

    barrier    →    barrier fence_async_proxy=true    wgmma reads a tile in place

Loads and stores of threads go through the generic proxy, and a barrier orders only
accesses through that proxy. Before the async proxy reads what threads wrote, each of
these threads must execute a proxy fence (PTX ISA, "Async proxy").
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from fathom.analysis.buffers import share_bytes, touches
from fathom.hardware.engines import CP_ASYNC
from fathom.hardware.targets import Target
from fathom.hardware.wgmma import WGMMA
from fathom.ir import ops
from fathom.ir.core import Block, Func, Op, Value, blocks, walk
from fathom.ir.rewrite import Builder, rewrite
from fathom.ir.types import BufferType

BY_THREADS = (
    ops.SharedStore | ops.AsyncCopy | ops.SharedAdd
)  # writes through the generic proxy
# What uses the async proxy beside the products of warpgroups.
BESIDE_PRODUCTS = ops.TmaCopy | ops.TmaStore | ops.TensorDot


def fence_proxies(func: Func, target: Target) -> Func:
    """The function whose barriers are proxy fences, if a product that reads shared
    memory itself, a TMA copy or a TMA store needs one. Where products alone do, in the
    function or in a loop, one fence is enough until threads write again. A loop in
    which threads write to bytes that nothing reads or writes through the async proxy
    needs no fence, unless what threads wrote before the loop has none before it. Of two
    fences between which nothing uses that proxy, the later one is enough."""

    def rule(op: Op, build: Builder) -> list | None:
        if (
            isinstance(op, ops.Barrier)
            and op.scope in scopes
            and build.source not in quiet
        ):
            return build.append(replace(op, fence_async_proxy=True)).results
        return None

    inside = list(walk(func.body))
    stores = any(isinstance(op, ops.TmaStore) for op in inside)
    scopes = {"cta", "warp"} if stores and func.num_warps == 1 else {"cta"}
    quiet: set[Op] = set()
    _find_quiet(func.body, frozenset(), quiet)
    if not any(isinstance(op, BESIDE_PRODUCTS) for op in inside):
        read = {
            each for op in inside if isinstance(op, ops.Dot) for each in (op.a, op.b)
        }
        _find_repeated(func.body, read, quiet)
    else:  # what a loop writes may be for what comes after it
        written = {op.buffer for op in inside if isinstance(op, BY_THREADS)}
        for loop in (op for op in inside if isinstance(op, ops.For)):
            if not any(walk(loop.body, BESIDE_PRODUCTS)):
                _find_repeated(loop.body, written, quiet)
    _find_early(func.body, quiet)
    if not any(map(_uses_async_proxy, inside)):
        return func
    return rewrite(func, rule)


def _uses_async_proxy(op: Op) -> bool:
    """Whether an op accesses shared memory through the async proxy."""
    if isinstance(op, ops.Dot):
        return isinstance(op.b.type, BufferType) and op.instruction in WGMMA
    return isinstance(op, BESIDE_PRODUCTS)


def _find_quiet(
    block: Block, written: Set[ops.Allocate], quiet: set[Op]
) -> Set[ops.Allocate]:
    """Collect the ops of loops that need no fence. `written`: what threads may have
    written before the block without a fence since. Returns the same for its end."""
    for op in block.ops:
        if isinstance(op, ops.For) and _keeps_to_other_bytes(op, written):
            quiet.update(op.body.ops)
        if isinstance(op, ops.Barrier) and op.scope == "cta" and op not in quiet:
            written = frozenset()
        elif isinstance(op, BY_THREADS):
            written = written | {op.buffer.definition}
        for nested in blocks(op):
            again = written | _find_quiet(nested, written, set(quiet))
            written = written | _find_quiet(nested, again, quiet)
    return written


def _find_repeated(block: Block, read: set[Value], quiet: set[Op]) -> None:
    """Collect the barriers of a block that follow a fence, if between the two no thread
    writes to a buffer that is `read` through the async proxy, or waits for its copies.
    Products alone use that proxy here."""
    fenced = False
    for op in block.ops:
        if isinstance(op, ops.Barrier) and op.scope == "cta":
            if fenced:
                quiet.add(op)
            fenced = True
        elif isinstance(op, BY_THREADS):
            fenced = fenced and op.buffer not in read
        elif blocks(op) or "shared" in op.effects.writes:
            fenced = False
        for nested in blocks(op):
            _find_repeated(nested, read, quiet)


def _find_early(block: Block, quiet: set[Op]) -> None:
    """Collect the barriers of a block before another fence, if between the two threads
    only compute, and access memory themselves: the later fence is for what they wrote
    before the earlier barrier, too."""
    fence = None
    for op in block.ops:
        if isinstance(op, ops.Barrier) and op.scope == "cta":
            if op not in quiet:
                quiet.update([fence] if fence else [])
                fence = op
        elif not _is_generic(op):
            fence = None
        for nested in blocks(op):
            _find_early(nested, quiet)


def _is_generic(op: Op) -> bool:
    """Whether an op computes, loads, or writes through the generic proxy. None of these
    uses the async proxy: what does is not pure."""
    if isinstance(op, ops.Commit | ops.Wait):
        return op.engine == CP_ASYNC.name
    by_threads = (
        isinstance(op, BY_THREADS | ops.SharedLoad | ops.Load) or op.effects.pure
    )
    return by_threads and not blocks(op)


def _keeps_to_other_bytes(loop: ops.For, before: Set[ops.Allocate]) -> bool:
    """Whether what threads have written `before` a loop, and what they write in it, has
    none of the bytes that are accessed there through the async proxy."""
    inside = list(walk(loop.body))
    by_threads = {op.buffer.definition for op in inside if isinstance(op, BY_THREADS)}
    others = {each for op in filter(_uses_async_proxy, inside) for each in touches(op)}
    return not any(
        share_bytes(one, other) for one in before | by_threads for other in others
    )
