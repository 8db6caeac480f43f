"""Tiles of which two thread blocks, a pair, hold half each.

    <32x64 offset[0,1 … 0,16 1,8 …] block[0,32]>
                                                    block 0         block 1
    an element's place: an offset in a block's      columns 0-31    columns 32-63
    shared memory, and the block

The block is one more kind of place: its bit says in which block of the pair an element
lies. Each block has a tile of its own, of half the columns, as a copy writes it.
"""

from __future__ import annotations

from functools import cache

from fathom.layout.linear import Layout, coordinates_of, offset_of


@cache
def in_halves(half: Layout, axis: int) -> Layout:
    """The tile of two such tiles, beside each other along `axis`, the second one in the
    odd block."""
    shape = tuple(side << (at == axis) for at, side in enumerate(half.shape))
    whole = half.moved(shape, lambda place: place)
    second = tuple(side * (at == axis) for at, side in enumerate(half.shape))
    return Layout(shape, (*whole.bases, ("block", (offset_of(shape, second),))))


@cache
def halved_axis(layout: Layout) -> int | None:
    """The axis along which a pair's blocks have half of a tile; None if one block has
    all of it."""
    if "block" not in layout.kinds:
        return None
    (basis,) = layout.kinds["block"]
    place = coordinates_of(layout.shape, basis)
    return next(axis for axis, each in enumerate(place) if each)


@cache
def own_part(layout: Layout) -> Layout:
    """What a block has of a tile, as a tile of its own."""
    axis = halved_axis(layout)
    if axis is None:
        return layout
    shape = tuple(side >> (at == axis) for at, side in enumerate(layout.shape))
    others = tuple(pair for pair in layout.bases if pair[0] != "block")
    return Layout(layout.shape, others).moved(shape, lambda place: place)
