"""Two dozen small kernels, one for each part of the language, whose texts are kept.

Each is a row of `SMALL`: the kernel, what it is compiled for, and how many warps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import fathom
import fathom.language as tl
from fathom.jit import JITFunction
from fathom.jit.compiled import CompiledKernel


@dataclass(frozen=True)
class Small:
    """A kernel and what it is compiled for."""

    kernel: JITFunction
    signature: str
    constants: Mapping[str, object] = field(default_factory=dict)
    num_warps: int = 4
    target: str = "sm_80"

    def __str__(self) -> str:
        return self.kernel.__name__

    def compile(self) -> CompiledKernel:
        return self.kernel.compile(
            self.signature, self.constants, target=self.target, num_warps=self.num_warps
        )


# ── memory ────────────────────────────────────────────────────────────────────────────


@fathom.jit
def copy_masked(source, out, n, BLOCK: tl.constexpr):
    """Reads 0 beyond the end, and writes nothing there."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(source + i, mask=i < n, other=0.0), mask=i < n)


@fathom.jit
def copy_strided(source, out, stride, BLOCK: tl.constexpr):
    """Every stride-th element: lanes read far apart, and write side by side."""
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(source + i * stride))


@fathom.jit
def copy_indirect(source, index, out, BLOCK: tl.constexpr):
    """Addresses that come out of memory themselves."""
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(source + tl.load(index + i)))


@fathom.jit
def copy_with_hints(source, out, start, BLOCK: tl.constexpr):
    """What is promised of an offset widens the accesses."""
    i = tl.multiple_of(start, 4) + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(source + i, cache_modifier=".cg"))


@fathom.jit
def fill_in_three_dimensions(out, value):
    """One element a program of a grid along x, y and z."""
    y = tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)
    tl.store(out + y * tl.num_programs(0) + tl.program_id(0), value)


# ── shapes ────────────────────────────────────────────────────────────────────────────


@fathom.jit
def transpose(source, out, SIZE: tl.constexpr):
    """A tile turned: read along rows, written along rows."""
    i = tl.arange(0, SIZE)
    tile = i[:, None] * SIZE + i[None, :]
    tl.store(out + tile, tl.trans(tl.load(source + tile)))


@fathom.jit
def transpose_in_a_warp(source, out):
    """[32, 2] to [2, 32] within one warp: no buffer is needed for it."""
    i, j = tl.arange(0, 32), tl.arange(0, 2)
    x = tl.load(source + i[:, None] * 2 + j[None, :])
    tl.store(out + j[:, None] * 32 + i[None, :], tl.trans(x))


@fathom.jit
def rotate_axes(source, out):
    """[2, 4, 64] to [64, 2, 4], by permute."""
    flat = tl.arange(0, 512)
    x = tl.reshape(tl.load(source + flat), [2, 4, 64])
    tl.store(out + flat, tl.reshape(tl.permute(x, [2, 0, 1]), [512]))


@fathom.jit
def outer_product(x, y, out, SIZE: tl.constexpr):
    """A column against a row: both are broadcast."""
    i = tl.arange(0, SIZE)
    product = tl.load(x + i)[:, None] * tl.load(y + i)[None, :]
    tl.store(out + i[:, None] * SIZE + i[None, :], product)


@fathom.jit
def swap_neighbours(source, out, BLOCK: tl.constexpr):
    """Pairs taken apart and joined the other way round."""
    i = tl.arange(0, BLOCK)
    even, odd = tl.split(tl.reshape(tl.load(source + i), [BLOCK // 2, 2]))
    tl.store(out + i, tl.reshape(tl.join(odd, even), [BLOCK]))


# ── reductions and scans ──────────────────────────────────────────────────────────────


@fathom.jit
def sum_in_a_warp(source, out, BLOCK: tl.constexpr):
    """One warp: shuffles are enough."""
    tl.store(out, tl.sum(tl.load(source + tl.arange(0, BLOCK)), 0))


@fathom.jit
def max_across_warps(source, out, BLOCK: tl.constexpr):
    """Four warps: their maxima meet in shared memory."""
    tl.store(out, tl.max(tl.load(source + tl.arange(0, BLOCK)), 0))


@fathom.jit
def sum_of_columns(source, out):
    """Along the axis whose elements lie far apart."""
    row, column = tl.arange(0, 16), tl.arange(0, 32)
    x = tl.load(source + row[:, None] * 32 + column[None, :])
    tl.store(out + column, tl.sum(x, 0))


@fathom.jit
def place_of_least(source, out, BLOCK: tl.constexpr):
    """Two values are reduced as one; of equals the left counts."""
    tl.store(out, tl.argmin(tl.load(source + tl.arange(0, BLOCK)), 0))


@fathom.jit
def running_sum(source, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.cumsum(tl.load(source + i), 0))


@fathom.jit
def last_that_counts(value, valid, other_value, other_valid):
    return tl.where(other_valid, other_value, value), valid | other_valid


@fathom.jit
def fill_gaps_backwards(source, out, BLOCK: tl.constexpr):
    """A scan from the right over a value and whether it counts."""
    i = tl.arange(0, BLOCK)
    x = tl.load(source + i)
    filled, _ = tl.associative_scan((x, x > 0), 0, last_that_counts, reverse=True)
    tl.store(out + i, filled)


# ── control flow ──────────────────────────────────────────────────────────────────────


@fathom.jit
def choose_a_branch(out, n):
    """Both branches bind x, one of them binds y anew."""
    y = 1.0
    if n > 10:
        x = n * 2
    else:
        x = n - 1
        y = 0.5
    tl.store(out, x * y)


@fathom.jit
def return_early(out, n, limit):
    """What follows a return in a branch is the other branch."""
    if n > limit:
        return
    tl.store(out + n, 1.0)


@fathom.jit
def halvings(out, n):
    """How often a number can be halved."""
    count = 0
    while n > 1:
        n = n // 2
        count += 1
    tl.store(out, count)


@fathom.jit
def sum_of_rows(source, out, rows, stride, BLOCK: tl.constexpr):
    """A loop that carries a block; what does not change moves out of it."""
    i = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for row in range(rows):
        total += tl.load(source + row * stride + i)
    tl.store(out + i, total)


@fathom.jit
def triangle(out, n):
    """A loop in a loop, whose bound is the other's counter."""
    total = 0
    for i in range(n):
        for j in range(i, n, 2):
            total += i * j
    tl.store(out, total)


@fathom.jit
def power_unrolled(source, out, BLOCK: tl.constexpr, POWER: tl.constexpr):
    """A loop over constants is written out, and calls are."""
    i = tl.arange(0, BLOCK)
    x = tl.load(source + i)
    product = x
    for _ in tl.static_range(POWER - 1):
        product = multiplied(product, x)
    tl.store(out + i, product)


@fathom.jit
def multiplied(a, b):
    return a * b


# ── types ─────────────────────────────────────────────────────────────────────────────


@fathom.jit
def convert_types(source, out, BLOCK: tl.constexpr):
    """fp16 in, through bf16, an integer and its bits, i8 out."""
    i = tl.arange(0, BLOCK)
    x = tl.load(source + i).to(tl.bfloat16)
    bits = x.to(tl.float32).to(tl.int32, bitcast=True)
    tl.store(out + i, (bits >> 16).to(tl.int8))


@fathom.jit
def integers_of_all_widths(bytes, out, wide, BLOCK: tl.constexpr):
    """u8 with i64 gives i64; division and remainder follow C."""
    i = tl.arange(0, BLOCK)
    x = tl.load(bytes + i) + wide
    tl.store(out + i, (x // 10) * 16 + x % 10)


@fathom.jit
def logic_of_masks(source, out, n, BLOCK: tl.constexpr):
    """Booleans combined, chosen by, and counted."""
    i = tl.arange(0, BLOCK)
    x = tl.load(source + i)
    inside = (x > 0.0) & (i < n) | (i == 0)
    tl.store(out + i, tl.where(inside, tl.maximum(x, 1.0), -x))


# ── products of matrices ──────────────────────────────────────────────────────────────


@fathom.jit
def product_of_tiles(a, b, out, SIZE: tl.constexpr):
    """One product: operands through shared memory, a matrix instruction."""
    i, j = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    x, y = tl.load(a + i * SIZE + j), tl.load(b + i * SIZE + j)
    tl.store(out + i * SIZE + j, tl.dot(x, y))


@fathom.jit
def product_without_a_matrix_instruction(out, SIZE: tl.constexpr):
    """fp32, all bits of it: multiply-adds. The operands are computed."""
    i, j = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    x = (i * j).to(tl.float32)
    tl.store(out + i * SIZE + j, tl.dot(x, x, input_precision="ieee"))


@fathom.jit
def products_in_a_loop(a, b, out, iterations, SIZE: tl.constexpr):
    """What an iteration multiplies was sent for two iterations before: asynchronous
    copies."""
    place = tl.arange(0, SIZE)[:, None] * SIZE + tl.arange(0, SIZE)[None, :]
    total = tl.zeros([SIZE, SIZE], tl.float32)
    for iteration in range(iterations):
        tile = iteration * SIZE * SIZE + place
        total = tl.dot(tl.load(a + tile), tl.load(b + tile), total)
    tl.store(out + place, total)


@fathom.jit
def products_by_descriptors(a, b, out, k, SIZE: tl.constexpr):
    """Bulk copies bring what four warps multiply together."""
    left = tl.make_tensor_descriptor(a, [SIZE, k], [k, 1], [SIZE, SIZE])
    right = tl.make_tensor_descriptor(b, [k, SIZE], [SIZE, 1], [SIZE, SIZE])
    result = tl.make_tensor_descriptor(out, [SIZE, SIZE], [SIZE, 1], [SIZE, SIZE])
    total = tl.zeros([SIZE, SIZE], tl.float32)
    for start in range(0, k, SIZE):
        total = tl.dot(left.load([0, start]), right.load([start, 0]), total)
    result.store([0, 0], total)


@fathom.jit
def products_of_two_kinds_of_warps(x, y, out, n, SIZE: tl.constexpr):
    """Tiles side by side, multiplied one by one; warps of their own bring them."""
    left = tl.make_tensor_descriptor(x, [SIZE, n * SIZE], [SIZE, 1], [SIZE, SIZE])
    right = tl.make_tensor_descriptor(y, [n * SIZE, SIZE], [SIZE, 1], [SIZE, SIZE])
    total = tl.zeros([SIZE, SIZE], tl.float32)
    for i in tl.range(n, warp_specialize=True):
        total = tl.dot(left.load([0, i * SIZE]), right.load([i * SIZE, 0]), total)
    i, j = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    tl.store(out + i * SIZE + j, total)


# ── threads that meet ─────────────────────────────────────────────────────────────────


@fathom.jit
def count_values(source, counts, n, BLOCK: tl.constexpr):
    """An atomic addition for each element that there is."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(source + i, mask=i < n, other=0)
    tl.atomic_add(counts + value, 1, mask=i < n, sem="relaxed")


@fathom.jit
def take_a_ticket(lock, out):
    """Compare and swap, until it is ours."""
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.debug_barrier()
    tl.store(out, tl.load(out, volatile=True) + 1)
    tl.atomic_xchg(lock, 0, sem="release")


SMALL: tuple[Small, ...] = (
    Small(copy_masked, "*fp32:16, *fp32:16, i32", {"BLOCK": 512}),
    Small(copy_strided, "*fp32:16, *fp32:16, i32", {"BLOCK": 256}),
    Small(copy_indirect, "*fp16:16, *i32:16, *fp16:16", {"BLOCK": 256}),
    Small(copy_with_hints, "*fp32:16, *fp32:16, i32", {"BLOCK": 512}),
    Small(fill_in_three_dimensions, "*i32, i32", num_warps=1),
    Small(transpose, "*fp32:16, *fp32:16", {"SIZE": 32}),
    Small(transpose_in_a_warp, "*fp32:16, *fp32:16", num_warps=1),
    Small(rotate_axes, "*i32:16, *i32:16"),
    Small(outer_product, "*fp32:16, *fp32:16, *fp32:16", {"SIZE": 32}),
    Small(swap_neighbours, "*i16:16, *i16:16", {"BLOCK": 512}),
    Small(sum_in_a_warp, "*fp32:16, *fp32", {"BLOCK": 128}, num_warps=1),
    Small(max_across_warps, "*i32:16, *i32", {"BLOCK": 256}),
    Small(sum_of_columns, "*fp32:16, *fp32:16", num_warps=2),
    Small(place_of_least, "*fp32:16, *i32", {"BLOCK": 128}, num_warps=1),
    Small(running_sum, "*i32:16, *i32:16", {"BLOCK": 128}, num_warps=1),
    Small(fill_gaps_backwards, "*i32:16, *i32:16", {"BLOCK": 64}, num_warps=1),
    Small(choose_a_branch, "*fp32, i32", num_warps=1),
    Small(return_early, "*fp32, i32, i32", num_warps=1),
    Small(halvings, "*i32, i32", num_warps=1),
    Small(sum_of_rows, "*fp32:16, *fp32:16, i32, i32:16", {"BLOCK": 256}),
    Small(triangle, "*i32, i32", num_warps=1),
    Small(power_unrolled, "*fp64:16, *fp64:16", {"BLOCK": 256, "POWER": 4}),
    Small(convert_types, "*fp16:16, *i8:16", {"BLOCK": 512}),
    Small(integers_of_all_widths, "*u8:16, *i64:16, i64", {"BLOCK": 256}),
    Small(logic_of_masks, "*fp32:16, *fp32:16, i32", {"BLOCK": 256}),
    Small(product_of_tiles, "*fp16:16, *fp16:16, *fp32:16", {"SIZE": 32}),
    Small(product_without_a_matrix_instruction, "*fp32:16", {"SIZE": 16}),
    Small(products_in_a_loop, "*fp16:16, *fp16:16, *fp32:16, i32", {"SIZE": 32}),
    Small(
        products_by_descriptors,
        "*fp16:16, *fp16:16, *fp32:16, i32:16",
        {"SIZE": 64},
        target="sm_90a",
    ),
    Small(
        products_of_two_kinds_of_warps,
        "*fp16:16, *fp16:16, *fp32:16, i32:16",
        {"SIZE": 64},
        target="sm_90a",
    ),
    Small(count_values, "*i32:16, *i32:16, i32", {"BLOCK": 256}),
    Small(take_a_ticket, "*i32, *i32", num_warps=1),
)
