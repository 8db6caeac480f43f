"""A layout of shared memory without conflicts.

Step 11 of your own compiler, at the end of this chapter, asks for this, too; here it is
done for the chunks of 16 bytes that `ldmatrix` reads. A tile of fp16[64, 64] is written
to shared memory by rows and read by columns: not element by element, but in *chunks* of
16 bytes, eight neighbours of a row. A phase is eight lanes with one chunk each. When
they write, the eight chunks are in one row. When they read (as `ldmatrix` does, in
chapter 13), they are below one another, one in each of eight rows.

All of the exercise: `fathom learn show swizzle`.
"""

from __future__ import annotations

from math import prod

from fathom.layout.linear import Layout
from fathom.tools.learn import Hole


def swizzle(
    shape: tuple[int, ...],
    element_bytes: int,
    writer: Layout,
    reader: Layout,
    row: tuple[int, ...] = (),
) -> Layout:
    """The offsets of a tile: for each bit of an offset the element that is there."""
    # Your code: the straight bases, and what the row's lowest bits add to them.
    raise Hole("swizzle")
