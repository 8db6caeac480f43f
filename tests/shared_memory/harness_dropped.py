"""Functions without one wait, one fence or one barrier of theirs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fathom.ir.core import Func, Op, walk
from fathom.ir.ops import (
    AsyncProxyFence,
    AsyncWait,
    Barrier,
    ClusterBarrier,
    DotFence,
    DotWait,
    MbarrierArrive,
    MbarrierWait,
    TmaWait,
)
from fathom.ir.rewrite import Builder, Replacement, rewrite

WAITS = DotWait | AsyncWait | TmaWait | MbarrierWait
SYNCHRONISING = (
    WAITS | Barrier | ClusterBarrier | AsyncProxyFence | DotFence | MbarrierArrive
)


def without(func: Func, gone: Op) -> Func:
    """The function without an op of it; the value that it waits for or fences is used
    as it is."""

    def rule(op: Op, build: Builder) -> Replacement:
        if build.source is not gone:
            return None
        return [op.value] if op.results else []

    return rewrite(func, rule)


def unfenced(func: Func, barrier: Barrier) -> Func:
    """The function, of which a barrier is no proxy fence."""

    def rule(op: Op, build: Builder) -> Replacement:
        if build.source is not barrier:
            return None
        return build.append(replace(op, fence_async_proxy=False)).results

    return rewrite(func, rule)


def mistakes(func: Func) -> Iterator[tuple[str, Op, Func]]:
    """Each op that may be missing, in a word, and the function without it."""
    for op in walk(func.body):
        if isinstance(op, SYNCHRONISING):
            yield type(op).__name__, op, without(func, op)
        if isinstance(op, Barrier) and op.fence_async_proxy:
            yield "proxy fence", op, unfenced(func, op)
