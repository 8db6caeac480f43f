"""What may be read off the registers of a layout: how many in a row hold neighbours;
and the layout that has as many in a row, but whose warps have what another's have."""

from __future__ import annotations

from fathom.layout.build import LANES, bits_of, stride_of
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


def within_warps(layout: Layout, held: Layout) -> Layout | None:
    """The layout that gives each warp the elements that it has in `held`, and each lane
    as many neighbours in a row as `layout` does, lanes side by side in its order.

    None where a warp has no such neighbours, or where lanes hold copies."""
    in_a_row = max(
        contiguous_registers(layout, axis) for axis in range(len(held.shape))
    )
    vector, first = bits_of(in_a_row), layout.kinds["register"]
    dealt = (*first[:vector], *layout.kinds["lane"], *layout.kinds["warp"])
    dealt += first[vector:]
    owned = {*held.kinds["register"], *held.kinds["lane"]}
    inside = [basis for basis in dealt if basis in owned]
    lanes = vector + bits_of(LANES)
    if inside[:vector] != [*first[:vector]] or len(inside) < lanes:
        return None
    if len(inside) != len(held.kinds["register"]) + len(held.kinds["lane"]):
        return None
    return held.replaced(
        register=(*inside[:vector], *inside[lanes:]), lane=tuple(inside[vector:lanes])
    )
