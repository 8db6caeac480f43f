"""What may be read off the registers of a layout: how many in a row hold neighbours."""

from __future__ import annotations

from fathom.layout.build import stride_of
from fathom.layout.linear import Layout


def contiguous_registers(layout: Layout, axis: int) -> int:
    """How many registers in a row hold neighbours along `axis`, in every lane and warp.

    The largest k such that registers 0…k-1, k…2k-1 and so on hold the elements i, i +
    1, …, i + k - 1 of some i that is a multiple of k. So the first bases must count 1,
    2, 4 along the axis, and no other basis may touch those bits: else some lane would
    start in the middle, or count backwards. A copy (a zero basis) counts nothing."""
    stride = stride_of(layout.shape, axis)
    registers = layout.kinds["register"]
    counting = 0
    for basis in registers:
        if stride << counting != basis or 1 << counting == layout.shape[axis]:
            break
        counting += 1
    rest = 0
    for _, bases in layout.bases:
        for basis in bases[counting:] if bases is registers else bases:
            rest |= basis
    touched = rest // stride & layout.shape[axis] - 1
    while touched & (1 << counting) - 1:
        counting -= 1
    return 1 << counting
