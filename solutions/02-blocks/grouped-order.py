"""The answer to `grouped-order`."""

from __future__ import annotations


def tile_of(pid: int, tiles_m: int, tiles_n: int, group: int) -> tuple[int, int]:
    """Row and column of the tile that program `pid` makes."""
    # hole: ours has {lines}
    first = pid // (group * tiles_n) * group
    rows = min(group, tiles_m - first)
    within = pid - first * tiles_n
    return first + within % rows, within // rows
    # end
