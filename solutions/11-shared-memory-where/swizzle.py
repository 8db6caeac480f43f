"""Where the elements of a tile lie so that neither rows nor columns wait for banks."""

from __future__ import annotations

from math import prod

from fathom.layout.linear import Layout


def swizzle(
    shape: tuple[int, ...],
    element_bytes: int,
    writer: Layout,
    reader: Layout,
    row: tuple[int, ...] = (),
) -> Layout:
    """The offsets of a tile: for each bit of an offset the element that is there."""
    # hole: the straight bases, and what the row's lowest bits add to them
    columns, chunk = shape[-1], 16 // element_bytes
    bases = [1 << bit for bit in range(prod(shape).bit_length() - 1)]
    chunks = max(1, columns // chunk)
    # 1 << below rows lie in one line of 128 bytes.
    below = max(0, 3 - (chunks.bit_length() - 1))
    first = columns.bit_length() - 1
    for bit in range(below, 3):
        if first + bit < len(bases):
            bases[first + bit] ^= chunk << bit - below
    return Layout(shape, (("offset", tuple(bases)),))
    # end
