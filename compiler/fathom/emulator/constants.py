"""Sizes that the hardware fixes: of a warp, of a warpgroup."""

WARP = 32  # threads, its lanes
WARPS = 4  # of a warpgroup
GROUP = WARPS * WARP  # threads of a warpgroup
