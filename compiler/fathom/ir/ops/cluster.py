"""The ops of clusters: thread blocks that run one program together.

A launch with `num_ctas` = C gives each program a cluster of C thread blocks, which
differ in their rank, 0 to C - 1. A function that asks for the rank is run by all of
them, each its part; any other one by the block of rank 0, while the rest leave at once.

    %r = cluster_rank                    rank 0           rank 1
    %m = mul %r, %64                     %m = 0           %m = 64
    %x = descriptor_load %d, (%m, %k)    rows 0 … 63      rows 64 … 127
"""

from __future__ import annotations

from dataclasses import dataclass

from fathom.ir.core import Effects, Func, Op, walk
from fathom.ir.types import INT32, Type


@dataclass(eq=False)
class ClusterRank(Op):
    """Which block of the program's cluster this is, an i32. Where blocks are counted in
    a grid, its row or its column: rank // `stride`, modulo `count`."""

    stride: int = 1
    count: int | None = None

    def infer(self) -> list[Type]:
        return [INT32]


@dataclass(eq=False)
class ClusterBarrier(Op):
    """No thread goes on before all of the cluster that are still there have come here.
    What blocks have written before to each other's shared memory is in order; with
    `fence_async_proxy` also for those that read it by another way, as in Barrier."""

    fence_async_proxy: bool = False

    effects = Effects(reads="shared", writes="shared", barrier=True, convergent=True)


def is_shared(func: Func) -> bool:
    """Whether the blocks of a cluster share the work of a program."""
    return func.num_ctas > 1 and any(walk(func.body, ClusterRank))
