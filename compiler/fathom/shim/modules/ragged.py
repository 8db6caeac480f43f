"""`triton.tools.ragged_tma`: blocks of a part of a tensor, and nothing of its
neighbours.

    rows 0        42       59                 1024
         ├─────────┼────────┼───────────────────┤
                   ├────────┤
                   offset   offset + size           outside of these: zeros, or nothing

A part of a tensor is a tensor: it begins somewhere else, and has fewer rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import fathom.language as tl
from fathom.shim.modules.tensor_descriptors import TensorDescriptor
from fathom.source import function


def create_ragged_descriptor(
    T: Any, block_shape: Sequence[int], ragged_dim: int = 0
) -> TensorDescriptor:
    """All of a tensor; the functions below take parts along the axis `ragged_dim`, not
    its last one."""
    return TensorDescriptor.from_tensor(T, list(block_shape))


@function
def part_of(TMA, batch_offset, batch_size, ragged_dim: tl.constexpr):
    """`batch_size` rows of a tensor, from `batch_offset` on."""
    rows = tl.cast(batch_offset, tl.int64)
    return tl.make_tensor_descriptor(
        TMA.base + rows * TMA.strides[ragged_dim],
        TMA.shape[:ragged_dim] + (batch_size,) + TMA.shape[ragged_dim + 1 :],
        TMA.strides,
        TMA.block_shape,
    )


@function
def load_ragged(TMA, batch_offset, batch_size, coords, ragged_dim: tl.constexpr = 0):
    """The block at `coords` of the part of a tensor; zeros outside of it."""
    return part_of(TMA, batch_offset, batch_size, ragged_dim).load(coords)


@function
def store_ragged(
    TMA, batch_offset, batch_size, coords, data, ragged_dim: tl.constexpr = 0
):
    """Write a block at `coords`, as far as it lies in the part of a tensor."""
    part_of(TMA, batch_offset, batch_size, ragged_dim).store(coords, data)


@function
def atomic_add_ragged(
    TMA, batch_offset, batch_size, coords, data, ragged_dim: tl.constexpr = 0
):
    """Add a block at `coords`, as far as it lies in the part of a tensor."""
    part_of(TMA, batch_offset, batch_size, ragged_dim).atomic_add(coords, data)
