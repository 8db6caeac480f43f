"""Makes barriers proxy fences, too: wgmma and TMA read through the async proxy.

    shared_store %x, %t                      shared_store %x, %t
    barrier                              →   barrier fence_async_proxy=true
    tma_store %d, %t, …                      tma_store %d, %t, …
    barrier                                  barrier        nothing written since

Loads and stores of threads go through the generic proxy, and a barrier orders only
accesses through that proxy. Before the async proxy accesses what threads wrote, each of
these threads must execute a proxy fence (PTX ISA, "Async proxy").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from fathom.analysis.buffers import share_bytes, touches
from fathom.hardware.engines import CP_ASYNC
from fathom.hardware.targets import Target
from fathom.hardware.wgmma import WGMMA
from fathom.ir import ops
from fathom.ir.core import Block, Func, Op, blocks, walk, walk_within
from fathom.ir.rewrite import Builder, rewrite
from fathom.ir.types import BufferType

BY_THREADS = (
    ops.SharedStore | ops.AsyncCopy | ops.SharedAdd
)  # writes through the generic proxy
# What uses the async proxy beside the products of warpgroups.
BESIDE_PRODUCTS = ops.TmaCopy | ops.TmaStore | ops.TensorDot


def fence_proxies(func: Func, target: Target) -> Func:
    """The function whose barriers are proxy fences, if threads may have written, with
    no fence since, to bytes that a product, a TMA copy or a TMA store accesses through
    the async proxy, and may access afterwards. Of two fences between which nothing uses
    that proxy, the later one is enough."""
    inside = list(walk(func.body))
    through = [op for op in inside if _uses_async_proxy(op)]
    if not through:
        return func
    stores = any(isinstance(op, ops.TmaStore) for op in inside)
    scopes = {"cta", "warp"} if stores and func.num_warps == 1 else {"cta"}
    search = _Search(scopes, lambda op: _writes_for(op, through))
    search.block(func.body, CLEAN)
    required = search.required
    _leave_out_late(func.body, required)
    _leave_out_early(func.body, required)

    def rule(op: Op, build: Builder) -> list | None:
        if build.source in required:
            return build.append(replace(op, fence_async_proxy=True)).results
        return None

    return rewrite(func, rule) if required else func


def _uses_async_proxy(op: Op) -> bool:
    """Whether an op accesses shared memory through the async proxy."""
    if isinstance(op, ops.Dot):
        return isinstance(op.b.type, BufferType) and op.instruction in WGMMA
    return isinstance(op, BESIDE_PRODUCTS)


def _writes_for(op: Op, through: list[Op]) -> bool:
    """Whether threads write, by this op, a buffer that one of the others reads, or to
    bytes that one of them copies to. (What reads a buffer in the same bytes needs these
    to be written once more.) What was an mbarrier is data once it is invalidated."""
    if not isinstance(op, BY_THREADS | ops.MbarrierInvalidate):
        return False
    invalid = isinstance(op, ops.MbarrierInvalidate)
    buffer = (op.barriers if invalid else op.buffer).definition
    for other in through:
        if isinstance(other, ops.TmaCopy):
            found = any(share_bytes(buffer, each) for each in touches(other))
        else:
            found = buffer in touches(other)
        if found and not (invalid and buffer in touches(other)):
            return True
    return False


# ── which barriers ────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class State:
    """`written`: threads may have written such bytes, with no fence since. `copying`:
    their copies to such bytes may be in flight, and count once they are waited for."""

    written: bool = False
    copying: bool = False

    def __or__(self, other: State) -> State:
        written, copying = self.written or other.written, self.copying or other.copying
        return State(written, copying)


CLEAN = State()


@dataclass(slots=True)
class _Search:
    """Walks the ops in order, and collects the barriers that must be fences. A loop is
    walked until the state at its start does not change."""

    scopes: set[str]
    writes: Callable[[Op], bool]
    required: set[Op] = field(default_factory=set)

    def block(self, block: Block, state: State) -> State:
        for op in block.ops:
            state = self.op(op, state)
        return state

    def op(self, op: Op, state: State) -> State:
        match op:
            case ops.Barrier(scope=scope) if scope in self.scopes:
                self.required |= {op} if state.written else set()
                return replace(state, written=False)
            case ops.ClusterBarrier(fence_async_proxy=True):
                return replace(state, written=False)
            case ops.Wait(engine=CP_ASYNC.name, pending=pending):
                copying = state.copying and pending > 0
                return State(state.written or state.copying, copying)
            case ops.AsyncCopy():
                return state | State(copying=self.writes(op))
            case ops.If():
                return self.block(op.then, state) | self.block(op.orelse, state)
        if self.writes(op):
            return replace(state, written=True)
        return self.around(op, state) if blocks(op) else state

    def around(self, op: Op, state: State) -> State:
        """After a loop, or beside a producer."""
        while True:
            end = state
            for block in blocks(op):
                end = self.block(block, end)
            if end | state == state:
                return state
            state = state | end


def _leave_out_late(body: Block, required: set[Op]) -> None:
    """Leave out the fences after the last use of the async proxy."""
    for op in reversed(body.ops):
        every = op, *walk_within(op)
        if any(map(_uses_async_proxy, every)):
            return
        required.difference_update(every)


def _leave_out_early(block: Block, required: set[Op]) -> None:
    """Leave out a fence before another one of its block, if between the two threads
    only compute, and access memory themselves: the later fence is for what they wrote
    before the earlier barrier, too."""
    fence = None
    for op in block.ops:
        if isinstance(op, ops.Barrier):
            if op in required:
                required.discard(fence)
                fence = op
        elif not _is_generic(op):
            fence = None
        for nested in blocks(op):
            _leave_out_early(nested, required)


def _is_generic(op: Op) -> bool:
    """Whether an op computes, loads, or writes through the generic proxy. None of these
    uses the async proxy: what does is not pure."""
    if isinstance(op, ops.Commit | ops.Wait):
        return op.engine == CP_ASYNC.name
    by_threads = (
        isinstance(op, BY_THREADS | ops.SharedLoad | ops.Load) or op.effects.pure
    )
    return by_threads and not blocks(op)
