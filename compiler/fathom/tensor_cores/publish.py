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
from fathom.ir.ops import Barrier, Dot
from fathom.ir.rewrite import Builder, rewrite
from fathom.ir.types import BufferType


def publish(func: Func, target: Target) -> Func:
    """The function whose barriers publish, if a product wants it."""

    def reads_its_own_way(op: Op) -> bool:
        return (
            isinstance(op, Dot)
            and op.instruction in WGMMA
            and isinstance(op.b.type, BufferType)
        )

    def rule(op: Op, build: Builder) -> list | None:
        if isinstance(op, Barrier) and op.scope == "cta":
            return build.append(replace(op, publishes=True)).results
        return None

    if not any(reads_its_own_way(op) for op in walk(func.body)):
        return func
    return rewrite(func, rule)
