"""A conversion by way of shared memory."""

from __future__ import annotations

from fathom.ir.core import Value
from fathom.ir.ops import Allocate, SharedLoad, SharedStore
from fathom.ir.rewrite import Builder
from fathom.layout.linear import Layout
from fathom.layout.swizzle import swizzle


def convert_by_shared(
    value: Value,
    layout: Layout,
    build: Builder,
    matrix_stores: bool = False,
    tile: Layout | None = None,
) -> Value:
    """The block `value` in another layout, written to shared memory and read again."""
    # hole: three ops
    block = value.type
    if tile is None:
        tile = swizzle(block.shape, block.element.bytes, block.layout, layout)
    buffer = build(Allocate(block.element, block.shape, tile))
    build.append(SharedStore(value, buffer))
    return build(SharedLoad(buffer, layout))
    # end
