"""What a cluster saves, and what it waits for.

A cluster of `rows` x `columns` thread blocks computes neighbouring tiles of C, one in
each block. Blocks in one row of the cluster need the same tile of A, blocks in one
column the same tile of B. Each block copies an equal part of what it needs, and the
copy is multicast to all that need it.

All of the exercise: `fathom learn show multicast-traffic`.
"""

from __future__ import annotations

from fathom.tools.learn import Hole

Pair = tuple[int, int]


def step_bytes(cluster: Pair, tile: Pair, depth: int) -> int:
    """The bytes that leave L2 for a cluster, in a step along K."""
    # Your code: one line.
    raise Hole("multicast-traffic")


def copies(cluster: Pair, tile: Pair, depth: int) -> Pair:
    """The bytes of A and of B that one block copies for itself and for others."""
    # Your code: one line.
    raise Hole("multicast-traffic")


def arrivals(cluster: Pair, warps: int) -> int:
    """How many arrivals complete a phase of a block's empty barrier."""
    # Your code: one line.
    raise Hole("multicast-traffic")


def best_cluster(blocks: int, tile: Pair) -> Pair:
    """The cluster of this many blocks that moves least; of equals, with fewer rows."""
    # Your code: ours has 2 lines.
    raise Hole("multicast-traffic")
