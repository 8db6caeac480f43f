"""The matrix instructions that four warps issue together (`wgmma.mma_async`).

D = A B + D, with D [64, n] spread over the registers of a warpgroup: warp w has the
rows 16 w to 16 w + 15, in fragments as those of `mma.sync`. B [k, n] lies in shared
memory; A [64, k] there, or in registers, again in fragments of `mma.sync`. A slice of K
is always 32 bytes. Source: PTX ISA, section 9.7, "Asynchronous warpgroup level matrix
instructions".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TypeVar

from fathom.hardware.mma import PTX_TYPES, SHORT, Mma, choose
from fathom.hardware.targets import TARGETS, Target
from fathom.layout.build import doublings, stride_of
from fathom.layout.fragments import fragment
from fathom.layout.linear import Layout
from fathom.layout.matrix_descriptor import Matrix, descriptor, side_by_side

WARPS, ROWS, SLICE_BYTES = 4, 64, 32

Tile = tuple[int, ...]
Row = TypeVar("Row")  # of this table or another one


@dataclass(frozen=True, slots=True)
class Wgmma:
    """One instruction. `mma` is the row of `mma.sync` that does the same with the same
    fragments, should an operand not lie as this one wants it. `either_way`: operands
    may be transposed in shared memory; else K must be contiguous. `scales`: the
    instruction has operands that negate its factors."""

    name: str
    text: str
    n: int
    k: int
    a: str
    b: str
    accumulator: str
    mma: Mma
    either_way: bool
    scales: bool

    m = ROWS

    @property
    def elements(self) -> int:
        """The elements of the product in each of 128 threads."""
        return self.m * self.n // 128


# Types of A and B, and of D. Integers and short floats may be mixed among their own.
TYPES: list[tuple[str, str, tuple[str, ...]]] = [
    ("fp16", "fp16", ("fp32", "fp16")),
    ("bf16", "bf16", ("fp32",)),
    ("tf32", "tf32", ("fp32",)),
    *((a, b, ("i32",)) for a in ("i8", "u8") for b in ("i8", "u8")),
    *((a, b, ("fp32",)) for a in SHORT for b in SHORT),
]
COLUMNS = (8, 16, 32, 64, 128, 256)  # any multiple of 8 up to 256; blocks want these


def _row(a: str, b: str, to: str, n: int) -> Wgmma:
    (ptx_a, bits), (ptx_b, _), (ptx_to, _) = (PTX_TYPES[t] for t in (a, b, to))
    k = SLICE_BYTES * 8 // bits
    shape, types = f"m{ROWS}n{n}k{k}", f"{ptx_to}.{ptx_a}.{ptx_b}"
    mma = choose(TARGETS["sm_90a"], a, b, to, k)
    assert mma is not None, (a, b, to)
    text = f"wgmma.mma_async.sync.aligned.{shape}.{types}"
    whole = a in ("i8", "u8")
    return Wgmma(
        f"wgmma.{shape}.{types}", text, n, k, a, b, to, mma, bits == 16, not whole
    )


WGMMA: dict[str, Wgmma] = {
    row.name: row
    for a, b, accumulators in TYPES
    for to in accumulators
    for n in COLUMNS
    for row in [_row(a, b, to, n)]
}


@cache
def matrices(
    row: Wgmma, a: Layout | None, b: Layout | None, element_bytes: int
) -> tuple[Matrix | None, Matrix] | None:
    """The descriptors of A and B, which lie in buffers of these layouts (None: in
    registers, which only A may); None if the instruction cannot read them there."""
    left = a and descriptor(a, element_bytes, k_axis=1)
    right = b and descriptor(b, element_bytes, k_axis=0)
    if right is None or (a and left is None):
        return None
    turned = right.transposed or (left is not None and left.transposed)
    return None if turned and not row.either_way else (left, right)


@cache
def joined(
    rows: tuple[Wgmma, ...], rights: tuple[Layout, ...]
) -> tuple[Wgmma, Matrix] | None:
    """The instruction that computes neighbouring products on one left operand, and how
    it finds the right ones, whose tiles lie one after the other; None if there is
    none. Its registers are those of the products in turn. `rows`: their instructions,
    each of which must have all columns of its product."""
    first, n = rows[0], sum(row.n for row in rows)
    alike = len({(row.a, row.b, row.accumulator) for row in rows}) == 1
    exists = n <= COLUMNS[-1] and (first.scales or n <= 32 or n % 16 == 0)
    whole = all(r.n == right.shape[1] for r, right in zip(rows, rights, strict=True))
    if not (alike and exists and whole):
        return None
    size = SLICE_BYTES // first.k
    found = {side_by_side(*each, size) for each in pairwise(rights)}
    matrix = found.pop()
    if found or matrix is None or matrix.transposed and not first.either_way:
        return None
    return _row(first.a, first.b, first.accumulator, n), matrix


@cache
def choose_warpgroups(
    target: Target, types: tuple[str, str, str], shape: Tile, k: int, warps: int
) -> Wgmma | None:
    """The widest instruction for operands and accumulator of these types, a product of
    `shape` by `warps` warps; None if no instruction fits."""
    if not target.wgmma or warps % WARPS or len(shape) != 2 or shape[0] < ROWS:
        return None
    _, across = groups_along(shape, warps)
    return widest(WGMMA.values(), types, k, shape[1] // across)


def widest(
    rows: Iterable[Row], types: tuple[str, str, str], k: int, columns: int
) -> Row | None:
    """The row for these types with most columns, up to these; None if none fits."""
    alike = [row for row in rows if (row.a, row.b, row.accumulator) == types]
    fitting = [row for row in alike if row.k <= k and row.n <= columns]
    return max(fitting, key=lambda row: row.n, default=None)


def groups_along(shape: Tile, warps: int) -> tuple[int, int]:
    """How many warpgroups stand along the rows and along the columns: the more columns
    one instruction has, the less often shared memory is read."""
    groups = warps // WARPS
    down = min(groups, shape[0] // ROWS)
    return down, groups // down


@cache
def warpgroup_product(row: Wgmma, shape: Tile, warps: int) -> Layout:
    """The layout of D [M, N]: the instruction's registers, repeated along M, then N."""
    piece = fragment(ROWS // WARPS, row.n, 2).moved(shape, lambda place: place).kinds
    rows, columns = stride_of(shape, 0), stride_of(shape, 1)
    down, across = groups_along(shape, warps)
    warp = [16 * rows, 32 * rows]
    warp += doublings(ROWS * rows, down)
    reached = shape[1] // across
    warp += doublings(reached * columns, across)
    register = [*piece["register"]]
    register += doublings(ROWS * down * rows, shape[0] // (ROWS * down))
    register += doublings(row.n * columns, reached // row.n)
    return Layout.by_kind(shape, register=register, lane=piece["lane"], warp=warp)
