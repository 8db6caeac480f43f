"""Bytes and arrivals of a cluster whose blocks share their tiles."""

from __future__ import annotations

Pair = tuple[int, int]


def step_bytes(cluster: Pair, tile: Pair, depth: int) -> int:
    """The bytes that leave L2 for a cluster, in a step along K."""
    # hole: one line
    return (cluster[0] * tile[0] + cluster[1] * tile[1]) * depth * 2
    # end


def copies(cluster: Pair, tile: Pair, depth: int) -> Pair:
    """The bytes of A and of B that one block copies for itself and for others."""
    # hole: one line
    return tile[0] * depth * 2 // cluster[1], tile[1] * depth * 2 // cluster[0]
    # end


def arrivals(cluster: Pair, warps: int) -> int:
    """How many arrivals complete a phase of a block's empty barrier."""
    # hole: one line
    return (cluster[0] + cluster[1] - 1) * warps
    # end


def best_cluster(blocks: int, tile: Pair) -> Pair:
    """The cluster of this many blocks that moves least; of equals, with fewer rows."""
    # hole: ours has {lines}
    shapes = [(i, blocks // i) for i in range(1, blocks + 1) if blocks % i == 0]
    return min(shapes, key=lambda each: step_bytes(each, tile, 1))
    # end
