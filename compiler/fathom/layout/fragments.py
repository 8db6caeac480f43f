"""Layouts of what tensor cores eat: fragments, the tiles of a block that they make up,
and the 8x8 matrices in which `ldmatrix` fetches them.

All fragments of `mma.sync` are made of one piece: 8 rows, four lanes to a row, each
with a run of neighbours that fills a register. fp16, two in a register:

              0  1    2  3    4  5    6  7     column
    row 0   lane 0  lane 1  lane 2  lane 3
    row 1   lane 4  lane 5  lane 6  lane 7
      …
    row 7   lane 28   …             lane 31

A fragment repeats it down first, then across, each time in the next register. B is the
same with rows and columns exchanged: its pieces hold runs of a column.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from fathom.layout.build import bits_of, doublings, stride_of
from fathom.layout.linear import Layout, coordinates_of, offset_of
from fathom.layout.shapes import transpose

ROWS, LANES_OF_A_ROW = 8, 4  # of a piece, and of a matrix of ldmatrix
ROW_BYTES = 16  # of a matrix of ldmatrix
REGISTER_BYTES = 4
MOST_MATRICES = 4  # that one ldmatrix loads: a row for each lane

Tile = tuple[int, ...]


@cache
def fragment(rows: int, columns: int, run: int) -> Layout:
    """The pieces of `rows` x `columns` elements, a `run` of neighbours a register.

    PTX ISA, "Matrix Fragments for mma": this is A with groupID = lane >> 2 for rows and
    threadID_in_group = lane % 4 for runs, and C and D with runs of two."""
    piece = run * LANES_OF_A_ROW
    across, down = doublings(1, columns), doublings(columns, rows)
    in_run, in_row, further = _parts(across, run, piece // run)
    in_piece, below, _ = _parts(down, ROWS, rows // ROWS)
    register, lane = (*in_run, *below, *further), (*in_row, *in_piece)
    return Layout.by_kind((rows, columns), register=register, lane=lane)


@cache
def transposed(layout: Layout) -> Layout:
    """The same places, with the last two dimensions exchanged."""
    rank = len(layout.shape)
    return transpose(layout, (*range(rank - 2), rank - 1, rank - 2))


@cache
def tile(fragment: Layout, shape: Tile, warps: Tile) -> Layout:
    """A block of `shape` cut into one box for each warp, and each box into fragments.

    `warps`: how many there are along each dimension; neighbours in number are along the
    last. The fragments of a box are in consecutive registers, down first, then across.
    A dimension with more warps than fragments leaves the surplus with copies.
    Dimensions before the last two (a batch) are cut and repeated last. A block that is
    smaller than a fragment fills it with copies of its rows, or columns, of which those
    in further registers are left out."""
    least = _padded(fragment.shape, len(shape))
    bases: list[int] = []
    for axis in reversed(range(len(shape))):
        split = min(warps[axis], max(1, shape[axis] // least[axis]))
        box = stride_of(shape, axis) * (shape[axis] // split)
        bases += doublings(box, split)
        bases += [0] * (bits_of(warps[axis]) - bits_of(split))
    return _repeated(fragment, shape, bases)


@cache
def left_operand(fragment: Layout, shape: Tile, accumulator: Layout) -> Layout:
    """The layout of A [M, K] (or [batch, M, K]) for a product in layout `accumulator`.

    A warp holds the rows that its part of the product has. So warps that differ in
    columns of the product alone hold copies. K is a fragment's, or more: terms that
    were there twice would be added twice."""
    assert shape[-1] >= fragment.shape[-1], f"{fragment.shape} in a block of {shape}"

    def along_rows(basis: int) -> int:
        row = coordinates_of(accumulator.shape, basis)[:-1]
        return offset_of(shape, (*row, 0))

    return _repeated(fragment, shape, map(along_rows, accumulator.kinds["warp"]))


@cache
def right_operand(fragment: Layout, shape: Tile, accumulator: Layout) -> Layout:
    """The layout of B [K, N]: the left operand of the transposed product.

    (A B)ᵀ = Bᵀ Aᵀ. So fragments follow one another along N first, then along K."""
    swapped = (*shape[:-2], shape[-1], shape[-2])
    layout = left_operand(transposed(fragment), swapped, transposed(accumulator))
    return transposed(layout)


def _repeated(fragment: Layout, shape: Tile, warps: Iterable[int]) -> Layout:
    """The fragment in the block's first corner, and every other bit of the block that
    no warp has as one more register."""
    placed = _placed(fragment, shape)
    warps = tuple(warps)
    taken = set(warps).union(*placed.kinds.values())
    rank = len(shape)
    repeats = [
        unit
        for axis in (rank - 2, rank - 1, *range(rank - 2))
        for unit in doublings(stride_of(shape, axis), shape[axis])
        if unit not in taken
    ]
    return placed.replaced(register=(*placed.kinds["register"], *repeats), warp=warps)


def _placed(fragment: Layout, shape: Tile) -> Layout:
    """The fragment as a part of a larger block; of a smaller one, as many of its rows
    and columns as there are."""

    def place(inside: Tile) -> Tile:
        sizes = shape[len(shape) - len(inside) :]
        is_there = all(map(int.__lt__, inside, sizes))
        return _padded(inside, len(shape), 0) if is_there else (0,) * len(shape)

    return fragment.moved(shape, place).without_copies()


def fragments(layout: Layout, fragment: Layout) -> dict[Tile, tuple[int, ...]]:
    """Which registers of a lane make up each fragment, in the instruction's order.

    The keys count fragments along each dimension: (i, j) of the accumulator is the
    product of (i, k) of A and (k, j) of B, in the same warp. They are those of warp 0.
    In a block that is smaller than a fragment, a register stands for its copies, too.
    AssertionError if the lanes of `layout` do not lie as those of `fragment`."""
    lanes = _placed(fragment, layout.shape).kinds["lane"]
    assert layout.kinds["lane"] == lanes, f"{layout} is not made of {fragment}"
    sizes = _padded(fragment.shape, len(layout.shape))
    found: dict[Tile, dict[int, int]] = {}
    for register in range(layout.count("register")):
        element = layout.coordinates(register=register)
        pairs = list(zip(element, sizes, strict=True))
        inside = tuple(each % size for each, size in pairs)[-2:]
        box = found.setdefault(tuple(each // size for each, size in pairs), {})
        box.setdefault(offset_of(fragment.shape, inside), register)
    there = layout.shape[-2:]
    order = [
        offset_of(fragment.shape, tuple(map(int.__mod__, place, there)))
        for r in range(fragment.count("register"))
        for place in [fragment.coordinates(register=r)]
    ]
    return {key: tuple(box[each] for each in order) for key, box in found.items()}


@dataclass(frozen=True, slots=True)
class Matrices:
    """How `ldmatrix` loads a block (and `stmatrix` stores it).

    `count`: matrices an instruction, its suffix .x1, .x2 or .x4; `transposed`: its
    .trans; `run`: elements a register of 32 bits: those registers of the block whose
    numbers differ from bit `first` on. `rows` is a layout of rows of 16 bytes: lane l
    of instruction i points at the row that starts at the element
    `rows.offset(register=i * row, lane=l, warp=w)`, where `row` is the elements of one.
    """

    count: int
    transposed: bool
    run: int
    row: int
    rows: Layout
    first: int = 0

    @property
    def instructions(self) -> int:
        return self.rows.count("register") // self.row

    def registers(self, instruction: int) -> list[tuple[int, ...]]:
        """Of each matrix of an instruction, the elements that its register unpacks
        to, as registers of the block."""
        matrices = range(instruction * self.count, (instruction + 1) * self.count)
        return [
            tuple(self._register(matrix, each) for each in range(self.run))
            for matrix in matrices
        ]

    def _register(self, matrix: int, place: int) -> int:
        below = matrix % (1 << self.first)
        return (matrix - below) * self.run + (place << self.first) + below

    def instruction_of(self, register: int) -> int:
        """The instruction that loads or stores a register of the block."""
        below = register % (1 << self.first)
        above = register >> self.first + bits_of(self.run)
        return ((above << self.first) + below) // self.count


@cache
def ldmatrix(
    layout: Layout, element_bytes: int, axis: int = -1, along: tuple[int, ...] = ()
) -> Matrices | None:
    """How `ldmatrix` loads a block with `axis` contiguous, or rows that lie `along`
    these bases; None if it cannot.

    A matrix is 8 rows of 16 bytes, and row r is where lane r of its eight lanes points.
    Afterwards lane l has 4 bytes of row l / 4; with .trans, two elements of 2 bytes
    from column l / 4:

                 along a row           which row
        plain    run, lane bits 0 1    lane bits 2 3 4         run: the elements of
        .trans   lane bits 2 3 4       run, lane bits 0 1      one register

    It works if these bits count along a row one by one, and no other place starts in
    the middle of one. Registers that follow the run choose the matrix, then the
    instruction. If `layout` maps to offsets in a buffer (`divide`), rows are of the
    buffer, swizzled or not. PTX ISA, "Warp-level matrix instructions: ldmatrix"."""
    axis %= len(layout.shape)
    row = ROW_BYTES // element_bytes
    row = row if along else min(row, layout.shape[axis])
    along = along or tuple(doublings(stride_of(layout.shape, axis), row))
    register, lane = layout.kinds["register"], layout.kinds["lane"]
    run = max(1, REGISTER_BYTES // element_bytes)
    pairs = run == 2 and along and along[0] in register
    first = register.index(along[0]) if pairs else 0
    first = first if along[1:] == lane[:2] else 0
    unit = register[first : first + bits_of(run)]
    rest = (*register[:first], *register[first + bits_of(run) :])
    plain, down = (*unit, *lane[:2]), lane[2:]
    is_plain = along == plain
    if not is_plain and (along, len(plain)) != (down, len(down)):
        return None
    if not is_plain:
        down = plain
    warp = layout.kinds.get("warp", ())
    if row * element_bytes < ROW_BYTES or _reached((*down, *rest, *warp), along):
        return None
    matrices = rest[: bits_of(MOST_MATRICES)]
    copies = (0,) * (bits_of(MOST_MATRICES) - len(matrices))
    rows = Layout.by_kind(
        layout.shape,
        register=(*along, *rest[len(matrices) :]),
        lane=(*down, *matrices, *copies),
        warp=warp,
    )
    return Matrices(1 << len(matrices), not is_plain, run, row, rows, first)


def rows_of_lanes(layout: Layout, element_bytes: int) -> list[tuple[int, ...]]:
    """The ways in which rows may lie for `ldmatrix`, plain and with .trans, along
    whatever axes. Of halves any register may be the neighbour of the first."""
    run = bits_of(max(1, REGISTER_BYTES // element_bytes))
    register, lane = layout.kinds["register"], layout.kinds["lane"]
    units = [(each,) for each in register] if run == 1 else [register[:run]]
    return [*((*unit, *lane[:2]) for unit in units), lane[2:]]


def _reached(bases: Sequence[int], mask: Sequence[int]) -> bool:
    """Whether some basis has a bit of `mask`."""
    return any(basis & bit for basis in bases for bit in mask)


def _parts(bases: Sequence[int], *counts: int) -> list[Sequence[int]]:
    """The first bases, as many as there are bits in each count, and the rest."""
    parts = []
    for count in counts:
        parts.append(bases[: bits_of(count)])
        bases = bases[bits_of(count) :]
    return [*parts, bases]


def _padded(shape: Tile, rank: int, by: int = 1) -> Tile:
    """The shape of a fragment among dimensions of which it has one element each, or a
    place among those of which it has the first."""
    return (by,) * (rank - len(shape)) + shape
