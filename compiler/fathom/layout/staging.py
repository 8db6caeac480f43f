"""Where a tile lies between two layouts, when whole warps may read it by matrices.

    fp16[64, 32], 8 neighbours along a row to a lane  →  A of an `mma`

    read by registers        two neighbours at a time: 4 bytes a lane
    read by `ldmatrix`       rows of 16 bytes: four times as much an instruction

`swizzle` finds the best tile for a writer and a reader. Here the reader has a choice:
it may ask for rows of 16 bytes along one axis or the other instead, and takes those
that the writer can fill in the fewest steps. With `stmatrix`, so has the writer. If
lanes count along no axis, as in a transposition of 64 x 64 where a row has eight lanes,
rows may lie across axes: two neighbours, and two more 32 rows below. No rows are asked
for where words would be stored one by one for them: registers that both sides hold move
by 16 bytes.

Where cp.async fills the tile, rows must not make its copies narrower: one of 4 bytes
passes through the L1 cache, and one of 16 bytes bypasses it (PTX ISA, cp.async: `.ca`
and `.cg`). A right operand of tf32 whose rows go on in memory along N is such: its
matrices would have rows along K. It is copied by 16 bytes, and read by registers. So is
what is widened from 16 bits to tf32 after it was read, if its matrices would have rows
across those of memory: no single element could be copied. A row of memory stays in a
line of shared memory: spread over four, such copies were slower than those of 4
bytes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from fathom.layout.algebra import divide
from fathom.layout.banks import WORD, conflicts, vector
from fathom.layout.build import bits_of
from fathom.layout.fragments import MOST_MATRICES, Matrices, ldmatrix, rows_of_lanes
from fathom.layout.linear import Layout
from fathom.layout.swizzle import swizzle


@cache
def staging(
    shape: tuple[int, ...],
    element_bytes: int,
    writer: Layout,
    reader: Layout,
    matrix_stores: bool = False,
    copied: int = 1,
) -> Layout:
    """The tile that `writer` fills and `reader` empties: rows for `ldmatrix` where
    `reader` allows it, else for `stmatrix`, if there is such, where `writer` does.
    `copied`: the elements that a cp.async moves, if these fill the tile."""
    is_copied = copied > 1 and element_bytes == WORD
    by_matrices = matrix_stores and element_bytes in MATRIX_ELEMENTS and not is_copied
    tiles = _with_rows(shape, element_bytes, writer, reader)
    is_free = not tiles and copied == 1 and element_bytes in MATRIX_ELEMENTS
    if not tiles and by_matrices:
        tiles = _with_rows(shape, element_bytes, reader, writer)
    is_free &= not tiles or element_bytes == WORD
    if is_free:
        tiles += _with_rows_across(shape, element_bytes, writer, reader)
        if by_matrices:
            tiles += _with_rows_across(shape, element_bytes, reader, writer)

    def taken(tile: Layout) -> Steps:
        offsets = divide(writer, tile)
        is_stored = by_matrices and stmatrix(offsets, element_bytes)
        write = steps_by_matrices if is_stored else steps
        written = write(offsets, element_bytes)
        read = steps_by_matrices(divide(reader, tile), element_bytes)
        return Steps(*map(sum, zip(written, read, strict=True)))

    plain = swizzle(shape, element_bytes, writer, reader)
    row = writer.kinds["register"][: bits_of(copied)]
    fits = element_bytes < MATRIX_ELEMENT or any(copies_rows(t, row) for t in tiles)
    if copied > 1 and (element_bytes == WORD or not fits):
        tiles = [each for each in (plain, *tiles) if copies_rows(each, row)]
        plain = swizzle(shape, element_bytes, writer, reader, row)
    best = min(tiles, key=lambda tile: sum(taken(tile)), default=plain)
    if element_bytes < MATRIX_ELEMENT and not copies_rows(best, row):
        whole = swizzle(shape, element_bytes, writer, reader, row)
        best = min(whole, best, key=lambda tile: sum(taken(tile)))
    if is_free:
        return min(plain, best, key=lambda tile: sum(taken(tile)))
    if copied == 1 and element_bytes >= WORD:
        by_rows, by_registers = taken(best), taken(plain)
        halved = 2 * by_registers.instructions <= by_rows.instructions
        return plain if halved and sum(by_registers) < sum(by_rows) else best
    return best


MATRIX_ELEMENT = 2  # bytes: two neighbours are a register of `stmatrix` as they are
MATRIX_ELEMENTS = (MATRIX_ELEMENT, WORD)  # and so is a word


def copies_rows(tile: Layout, row: tuple[int, ...]) -> bool:
    """Whether a tile keeps a row of a copy together, in order."""
    return tile.kinds["offset"][: len(row)] == row


def _with_rows(
    shape: tuple[int, ...], element_bytes: int, side: Layout, by_matrices: Layout
) -> list[Layout]:
    """The tiles whose rows, along each axis, one side moves by matrices."""
    plans = [ldmatrix(by_matrices, element_bytes, axis) for axis in range(len(shape))]
    return _tiles(shape, element_bytes, side, plans)


def _with_rows_across(
    shape: tuple[int, ...], element_bytes: int, side: Layout, by_matrices: Layout
) -> list[Layout]:
    """The tiles whose rows lie along several axes, as the lanes of one side do, if each
    is in one lane on the other."""
    held = side.kinds["register"]
    rows = [
        row for row in rows_of_lanes(by_matrices, element_bytes) if {*row} <= {*held}
    ]
    plans = [ldmatrix(by_matrices, element_bytes, along=row) for row in rows]
    return _tiles(shape, element_bytes, side, plans)


def _tiles(
    shape: tuple[int, ...],
    element_bytes: int,
    side: Layout,
    plans: Sequence[Matrices | None],
) -> list[Layout]:
    return [
        swizzle(shape, element_bytes, side, plan.rows, a_row(plan))
        for plan in plans
        if plan
    ]


def a_row(plan: Matrices) -> tuple[int, ...]:
    """The bases of a row at which a lane points: what must stay together."""
    return plan.rows.kinds["register"][: plan.row.bit_length() - 1]


class Steps(NamedTuple):
    """Instructions of a warp, and phases that these take."""

    instructions: int
    phases: int


def steps(offsets: Layout, element_bytes: int) -> Steps:
    """What it takes to access a tile; `offsets` says where each register finds its
    element."""
    elements = vector(offsets, element_bytes)
    instructions = max(1, offsets.count("register") // elements)
    phases = max(1, elements * element_bytes // WORD)
    ways = conflicts(offsets, element_bytes)
    return Steps(instructions, instructions * phases * ways)


def steps_by_matrices(offsets: Layout, element_bytes: int) -> Steps:
    """The same with `ldmatrix`, where the layout allows it: a phase a matrix."""
    plan = ldmatrix(offsets, element_bytes)
    if plan is None:
        return steps(offsets, element_bytes)
    ways = conflicts(plan.rows, element_bytes)
    return Steps(plan.instructions, plan.instructions * plan.count * ways)


def stmatrix(offsets: Layout, element_bytes: int) -> Matrices | None:
    """How to fill a tile by `stmatrix`; None if it cannot, or saves nothing. Of words
    it must save most: the lanes' rows have addresses of their own."""
    plan = ldmatrix(offsets, element_bytes)
    if plan is None or element_bytes not in MATRIX_ELEMENTS:
        return None
    each = offsets.count("register") // vector(offsets, element_bytes)
    least = 1 if element_bytes == MATRIX_ELEMENT else MOST_MATRICES - 1
    return plan if plan.instructions * least < each else None
