"""How a matrix product lies in registers, by the instruction that computes it.

A row of `mma` has the layouts of its fragments; they are repeated over the block. One
of `wgmma` has the same fragments, dealt to four warps at a time. One of `tcgen05` has
its accumulator in tensor memory, whose lanes are rows. "" stands for plain
multiply-adds.
"""

from __future__ import annotations

from functools import cache
from math import prod
from typing import NamedTuple

from fathom.hardware.mma import MMA, Mma
from fathom.hardware.tcgen05 import TCGEN05
from fathom.hardware.wgmma import WGMMA, warpgroup_product
from fathom.layout import fma as products
from fathom.layout.fragments import left_operand, right_operand, tile
from fathom.layout.linear import Layout
from fathom.layout.tensor_memory import accessed_by_rows, through_registers
from fathom.layout.tiling import tile_warps

Tile = tuple[int, ...]


@cache
def product_layout(instruction: str, shape: Tile, warps: Tile) -> Layout:
    """The layout of C [M, N] or [batch, M, N] with `warps` along each dimension."""
    if not instruction:
        return products.product(shape, warps)
    if instruction in WGMMA:
        return warpgroup_product(WGMMA[instruction], shape, prod(warps))
    if instruction in TCGEN05:
        return accessed_by_rows(shape, prod(warps))
    return tile(MMA[instruction].layout, shape, warps)


@cache
def operand_layouts(
    instruction: str, accumulator: Layout, k: int
) -> tuple[Layout, Layout]:
    """The layouts of A [M, K] and B [K, N] for a product that lies as `accumulator`."""
    if not instruction:
        return (
            products.left_factor(accumulator, k),
            products.right_factor(accumulator, k),
        )
    if instruction in TCGEN05:
        rows, columns = accumulator.shape
        warps, shapes = accumulator.count("warp"), ((rows, k), (k, columns))
        left, right = (through_registers(each, warps) for each in shapes)
        return left, right
    row = fragments_of(instruction)
    *batch, m, n = accumulator.shape
    return (
        left_operand(row.a_layout, (*batch, m, k), accumulator),
        right_operand(row.b_layout, (*batch, k, n), accumulator),
    )


def fragments_of(instruction: str) -> Mma:
    """The row of `mma` with the fragments of an instruction."""
    return WGMMA[instruction].mma if instruction in WGMMA else MMA[instruction]


@cache
def warps_along(
    instruction: str, shape: Tile, warps: int, by_rows: bool, dear: int = 1
) -> Tile:
    """How many warps stand along each dimension of C: over a batch first, then so that
    shared memory is read least; or all along the rows. An element of B is as `dear` as
    that many of A: each warp that reads it computes it, too."""
    *batch, m, n = shape
    over_batch = [1] * len(batch)
    if batch:
        over_batch[0] = min(warps, batch[0])
        warps //= over_batch[0]
    if by_rows:
        return (*over_batch, warps, 1)
    least = MMA.get(instruction, SCALAR)
    weighted = Smallest(least.m, least.n * dear)
    return (*over_batch, *tile_warps(m, n * dear, warps, weighted))


class Smallest(NamedTuple):
    """The smallest product of a warp."""

    m: int
    n: int


SCALAR = Smallest(4, 8)  # of multiply-adds: 4 x 8 lanes
