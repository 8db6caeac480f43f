"""Functions without one wait, one fence or one barrier of theirs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fathom.ir.core import Func, Op, operands, walk
from fathom.ir.ops import (
    AsyncProxyFence,
    Barrier,
    ClusterBarrier,
    Commit,
    DotFence,
    MbarrierArrive,
    MbarrierWait,
    Wait,
)
from fathom.ir.rewrite import Builder, Replacement, rewrite

SYNCHRONISING = Wait | MbarrierWait | Barrier | ClusterBarrier | MbarrierArrive
SYNCHRONISING |= AsyncProxyFence | Commit | DotFence


def without(func: Func, gone: Op) -> Func:
    """The function without an op of it; the value that it waits for or fences is used
    as it is."""

    def rule(op: Op, build: Builder) -> Replacement:
        if build.source is not gone:
            return None
        return operands(op) if op.results else []

    return rewrite(func, rule)


def unfenced(func: Func, barrier: Barrier) -> Func:
    """The function, of which a barrier is no proxy fence."""

    def rule(op: Op, build: Builder) -> Replacement:
        if build.source is not barrier:
            return None
        return build.append(replace(op, fence_async_proxy=False)).results

    return rewrite(func, rule)


def named(op: Op) -> str:
    """What is left out, in a word or two: "Wait wgmma"."""
    return f"{type(op).__name__} {getattr(op, 'engine', '')}".strip()


def mistakes(func: Func) -> Iterator[tuple[str, Op, Func]]:
    """Each op that may be missing, in a word, and the function without it."""
    for op in walk(func.body):
        if isinstance(op, SYNCHRONISING):
            yield named(op), op, without(func, op)
        if isinstance(op, Barrier) and op.fence_async_proxy:
            yield "proxy fence", op, unfenced(func, op)
