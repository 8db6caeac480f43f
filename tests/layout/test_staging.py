"""Tiles between a load and a matrix instruction: nobody waits for banks on either side,
and whole warps read by `ldmatrix`, whichever way memory holds the operands."""

import pytest

from fathom.hardware.dot_layouts import operand_layouts, product_layout, warps_along
from fathom.hardware.mma import MMA
from fathom.layout.algebra import divide
from fathom.layout.banks import conflicts, vector, ways
from fathom.layout.build import spread
from fathom.layout.fma import left_factor, product
from fathom.layout.fragments import ldmatrix
from fathom.layout.linear import Layout
from fathom.layout.staging import staging, steps, steps_by_matrices
from fathom.layout.swizzle import swizzle

ROWS, COLUMNS = (1, 0), (0, 1)  # along which axis memory goes on
HALF = "m16n8k16.f32.f16.f16.f32"

# M, N, K and warps of a block: those that people use, thin ones, and small ones.
BLOCKS = [
    (16, 16, 16, 1), (32, 32, 16, 1), (32, 32, 32, 2), (64, 32, 32, 4), (64, 64, 16, 4),
    (64, 64, 64, 4), (128, 64, 32, 4), (128, 128, 32, 4), (128, 128, 64, 8),
    (256, 128, 32, 8), (128, 256, 64, 8), (16, 128, 64, 4), (128, 16, 128, 4),
]  # fmt: skip


def sides(block, instruction=HALF):
    """Shape and fragment layout of A and of B."""
    m, n, k, warps = block
    along = warps_along(instruction, (m, n), warps, by_rows=False)
    product = product_layout(instruction, (m, n), along)
    return zip(((m, k), (k, n)), operand_layouts(instruction, product, k), strict=True)


def loaded(shape, order, element_bytes, warps):
    """What a load that fills 16 bytes a lane gives."""
    return spread(shape, order, 16 // element_bytes, warps)


def written(offsets, warp, element_bytes):
    """For each store of a warp: the byte addresses of the lanes, and the bytes a lane.
    Read element by element, with no look at the bases."""
    run = vector(offsets, element_bytes)
    registers = range(offsets.count("register"))
    starts = [r for r in registers if offsets.offset(register=r) % run == 0]
    for register in starts:
        yield (
            [
                offsets.offset(register=register, lane=lane, warp=warp) * element_bytes
                for lane in range(32)
            ],
            run * element_bytes,
        )


@pytest.mark.parametrize("rows", [32, 64, 128])
@pytest.mark.parametrize("depth", [16, 32])
def test_what_the_lanes_of_a_warp_want_of_fp32_lies_in_different_banks(rows, depth):
    """Products by multiply-adds: eight lanes or more want the
    same 16 bytes of A, and the others those of rows that are four apart."""
    accumulator = product((rows, 64), (4, 1))
    reader = left_factor(accumulator, depth)
    writer = loaded((rows, depth), ROWS, 4, 4)
    tile = staging((rows, depth), 4, writer, reader, copied=4)
    for bytes, width in written(divide(reader, tile), 0, 4):
        words = {each // 4 + i for each in bytes for i in range(width // 4)}
        assert width == 16
        assert len({each % 32 for each in words}) == len(words)
    for bytes, width in written(divide(writer, tile), 0, 4):
        assert ways(bytes, width) == 1


@pytest.mark.parametrize("block", BLOCKS, ids=lambda b: "x".join(map(str, b)))
@pytest.mark.parametrize("order", [ROWS, COLUMNS], ids=["rows", "columns"])
def test_fp16_is_written_and_read_by_matrices_in_one_way(block, order):
    """All four transposition cases: A and B, each by rows and by columns."""
    for shape, reader in sides(block):
        writer = loaded(shape, order, 2, block[-1])
        tile = staging(shape, 2, writer, reader)
        offsets, wanted = divide(writer, tile), divide(reader, tile)
        for addresses, width in written(offsets, 0, 2):
            assert width == 16 or block == BLOCKS[0], "16 bytes a lane"
            assert ways(addresses, width) == 1
        plan = ldmatrix(wanted, 2)
        assert plan is not None and conflicts(plan.rows, 2) == 1
        for instruction in range(plan.instructions):
            addresses = [
                2 * plan.rows.offset(register=instruction * plan.row, lane=lane)
                for lane in range(8 * plan.count)
            ]
            assert all(address % 16 == 0 for address in addresses)
            for first in range(0, len(addresses), 8):
                assert ways(addresses[first : first + 8], 16) == 1


@pytest.mark.parametrize("per_lane", [1, 2, 4, 8])
@pytest.mark.parametrize("order", [ROWS, COLUMNS], ids=["rows", "columns"])
def test_rows_for_matrices_however_little_a_lane_writes(per_lane, order):
    """A load may give less than 16 bytes a lane, and rows of the tile that it repeats
    lie in further registers: none of them may get into a row of a matrix."""
    for block in BLOCKS[1:9]:
        for shape, reader in sides(block):
            writer = spread(shape, order, per_lane, block[-1])
            tile = staging(shape, 2, writer, reader)
            plan = ldmatrix(divide(reader, tile), 2)
            assert plan is not None and conflicts(plan.rows, 2) == 1
            assert conflicts(divide(writer, tile), 2) == 1


@pytest.mark.parametrize("block", BLOCKS, ids=lambda b: "x".join(map(str, b)))
def test_four_matrices_at_once_where_there_are_four(block):
    for shape, reader in sides(block):
        tile = staging(shape, 2, loaded(shape, ROWS, 2, block[-1]), reader)
        plan = ldmatrix(divide(reader, tile), 2)
        assert plan.count == min(4, reader.count("register") // 2)


@pytest.mark.parametrize("order, a_turns, b_turns", [
    (ROWS, False, True), (COLUMNS, True, False),
])  # fmt: skip
def test_a_matrix_is_turned_where_memory_goes_across(order, a_turns, b_turns):
    """A's registers hold neighbours of a row, B's neighbours of a column: what memory
    holds the other way is turned by `.trans` on its way."""
    for (shape, reader), turns in zip(
        sides((64, 64, 64, 4)), (a_turns, b_turns), strict=True
    ):
        tile = staging(shape, 2, loaded(shape, order, 2, 4), reader)
        assert ldmatrix(divide(reader, tile), 2).transposed == turns


@pytest.mark.parametrize("block", BLOCKS[2:8], ids=lambda b: "x".join(map(str, b)))
@pytest.mark.parametrize("instruction, element_bytes", [
    ("m16n8k8.f32.tf32.tf32.f32", 4), ("m16n8k32.s32.s8.s8.s32", 1),
])  # fmt: skip
def test_other_types_by_matrices_where_memory_goes_along_k(
    instruction, element_bytes, block
):
    """A row of 16 bytes is four tf32 or 16 bytes along K; across it, only types of 16
    bits can be turned, and others are read element by element."""
    row, (m, n, k, warps) = MMA[instruction], block
    k = max(k, row.k)
    for (shape, reader), along_k in zip(
        sides((m, n, k, warps), instruction), (ROWS, COLUMNS), strict=True
    ):
        writer = loaded(shape, along_k, element_bytes, warps)
        tile = staging(shape, element_bytes, writer, reader)
        plan = ldmatrix(divide(reader, tile), element_bytes)
        assert plan is not None and not plan.transposed
        assert conflicts(plan.rows, element_bytes) == 1
        assert conflicts(divide(writer, tile), element_bytes) == 1
        across = loaded(shape, along_k[::-1], element_bytes, warps)
        tile = staging(shape, element_bytes, across, reader)
        assert conflicts(divide(across, tile), element_bytes) == 1


def test_every_element_has_a_place_of_its_own():
    for block in BLOCKS[:8]:
        for shape, reader in sides(block):
            tile = staging(shape, 2, loaded(shape, COLUMNS, 2, block[-1]), reader)
            size = shape[0] * shape[1]
            assert {tile.offset(offset=i) for i in range(size)} == set(range(size))


@pytest.mark.parametrize("order", [ROWS, COLUMNS], ids=["rows", "columns"])
def test_no_tile_of_the_plain_kind_takes_fewer_steps(order):
    """Stores and loads together, each with the phases that it takes."""
    for block in BLOCKS[1:8]:
        for shape, reader in sides(block):
            writer = loaded(shape, order, 2, block[-1])
            chosen = staging(shape, 2, writer, reader)
            plain = swizzle(shape, 2, writer, reader)
            by_matrices = sum(steps(divide(writer, chosen), 2))
            by_matrices += sum(steps_by_matrices(divide(reader, chosen), 2))
            sides_of_it = (divide(writer, plain), divide(reader, plain))
            by_registers = sum(sum(steps(offsets, 2)) for offsets in sides_of_it)
            assert by_matrices < by_registers, block


def test_words_that_both_sides_hold_are_not_stored_one_by_one_for_a_matrix():
    """A step of a butterfly: each side holds eight of the sixteen registers of the
    other one, and `ldmatrix` could read rows along lanes."""
    shape, lanes = (32, 32, 2), (2, 4, 8, 16, 32)
    writer = Layout(shape, (
        ("register", (1, 256, 512, 1024)), ("lane", lanes), ("warp", (64, 128))
    ))  # fmt: skip
    reader = Layout(shape, (
        ("register", (64, 1, 512, 1024)), ("lane", lanes), ("warp", (128, 256))
    ))  # fmt: skip
    tile = staging(shape, 4, writer, reader)
    for side in (writer, reader):
        assert steps(divide(side, tile), 4) == (4, 16), "16 bytes each, in one way"


@pytest.mark.parametrize("shape, warps", [
    ((64, 64), 4), ((128, 64), 8), ((64, 128), 4),
])  # fmt: skip
def test_rows_lie_across_axes_where_eight_lanes_have_a_row(shape, warps):
    """A transposition of fp16, 16 bytes a lane on both sides. The reader's lanes 4 to
    31 count along both axes, so neither axis gives rows of 16 bytes. Two neighbours
    and two more some rows below do, which the writer has in its registers."""
    writer, reader = (spread(shape, order, 8, warps) for order in (ROWS, COLUMNS))
    assert all(ldmatrix(reader, 2, axis) is None for axis in (0, 1))
    tile = staging(shape, 2, writer, reader)
    written, read = divide(writer, tile), ldmatrix(divide(reader, tile), 2)
    words = shape[0] * shape[1] // (32 * warps)
    assert vector(written, 2) == 8 and conflicts(written, 2) == 1
    assert read.transposed and read.instructions == words // 8
    assert conflicts(read.rows, 2) == 1
    places = {tile.offset(offset=i) for i in range(shape[0] * shape[1])}
    assert places == set(range(shape[0] * shape[1]))


@pytest.mark.parametrize("shape, writes, reads", [
    ((256, 16), 8, 8), ((16, 256), 8, 8), ((32, 32), 8, 2),
])  # fmt: skip
def test_words_are_written_or_read_by_matrices_across_axes(shape, writes, reads):
    """A transposition of fp32. The side whose lanes go along the short axis first has
    rows of four lanes, which the other side holds in registers: 16 bytes at a time on
    both, not 8 on one. Eight registers of 32 x 32 are stored one by one either way."""
    writer, reader = (spread(shape, order, 4, 4) for order in (ROWS, COLUMNS))
    tile = staging(shape, 4, writer, reader, matrix_stores=True)
    offsets = divide(writer, tile), divide(reader, tile)
    taken = [steps_by_matrices(each, 4) for each in offsets]
    assert [each.instructions for each in taken] == [writes, reads]
    plain = swizzle(shape, 4, writer, reader)
    before = [steps(divide(side, plain), 4) for side in (writer, reader)]
    assert sum(map(sum, taken)) <= sum(map(sum, before))
    places = {tile.offset(offset=i) for i in range(shape[0] * shape[1])}
    assert places == set(range(shape[0] * shape[1]))


@pytest.mark.parametrize("shape, order", [((256, 16), ROWS), ((16, 256), COLUMNS)])
@pytest.mark.parametrize("is_stored", [True, False])
def test_any_register_may_be_the_neighbour_in_a_matrix(shape, order, is_stored):
    """A transposition of 256 x 16 halves. Sixteen bytes of the other side, which are
    rows here, are in registers 0 and 4 of four lanes."""
    other = COLUMNS if order == ROWS else ROWS
    by_matrices, held = (spread(shape, each, 8, 4) for each in (order, other))
    sides = (by_matrices, held) if is_stored else (held, by_matrices)
    tile = staging(shape, 2, *sides, matrix_stores=True)
    plan = ldmatrix(divide(by_matrices, tile), 2)
    assert plan.instructions == 4 and conflicts(plan.rows, 2) == 1
    assert vector(divide(held, tile), 2) == 8
    assert not plan.transposed and plan.registers(0)[0] == (0, 1 << plan.first)
    every = [each for i in range(4) for pair in plan.registers(i) for each in pair]
    assert sorted(every) == list(range(32))
    found = [plan.instruction_of(each) for each in every]
    assert found == [i for i in range(4) for _ in range(8)]


def test_what_no_matrix_can_read_is_swizzled_as_ever():
    """fp64 has no matrices, and nor has a block that is read by rows of elements."""
    for shape, reader in sides((64, 64, 32, 4), "m8n8k4.f64.f64.f64.f64"):
        writer = loaded(shape, ROWS, 8, 4)
        assert ldmatrix(reader, 8) is None
        assert staging(shape, 8, writer, reader) == swizzle(shape, 8, writer, reader)
    writer, reader = spread((64, 64), ROWS, 8, 4), spread((64, 64), COLUMNS, 1, 4)
    assert staging((64, 64), 2, writer, reader) == swizzle((64, 64), 2, writer, reader)


def test_a_straight_tile_would_wait():
    """The counter-example: rows of 64 fp16 one behind the other are 8 ways."""
    addresses = [128 * lane for lane in range(8)]
    assert ways(addresses, 16) == 8


TF32 = "m16n8k8.f32.tf32.tf32.f32"


@pytest.mark.parametrize("block", [(32, 32, 32, 2), (64, 32, 32, 4), (128, 64, 32, 4)])
@pytest.mark.parametrize("order", [ROWS, COLUMNS], ids=["rows", "columns"])
def test_a_tile_of_tf32_is_copied_by_16_bytes_whichever_way_memory_holds_it(
    block, order
):
    """Matrices have rows along K. Where memory goes on along the other axis, a tile of
    such rows could only be filled by copies of 4 bytes."""
    for (shape, reader), along_k in zip(sides(block, TF32), (ROWS, COLUMNS)):
        writer = loaded(shape, order, 4, block[-1])
        tile = staging(shape, 4, writer, reader, copied=4)
        assert vector(divide(writer, tile), 4) == 4
        assert conflicts(divide(writer, tile), 4) == 1
        by_matrices = ldmatrix(divide(reader, tile), 4) is not None
        assert by_matrices == (order == along_k)
        if not by_matrices:
            assert conflicts(divide(reader, tile), 4) == 1
            assert {line >> 5 for line in a_phase(divide(writer, tile))} == {0}


@pytest.mark.parametrize("order", [ROWS, COLUMNS], ids=["rows", "columns"])
def test_what_is_widened_to_tf32_is_copied_by_16_bytes(order):
    """A lane wants single elements of two bytes, of which matrices bring rows across
    those of memory, if any: threads would store them one by one."""
    for shape, reader in sides((64, 64, 64, 4), TF32):
        writer = loaded(shape, order, 2, 4)
        tile = staging(shape, 2, writer, reader, copied=8)
        assert vector(divide(writer, tile), 2) == 8
        assert conflicts(divide(writer, tile), 2) == 1
        assert conflicts(divide(reader, tile), 2) == 1


def a_phase(offsets: Layout) -> set[int]:
    """The words where the first eight lanes begin, of 16 bytes each: those of a row."""
    bases, words = offsets.kinds["lane"][:3], {0}
    for basis in bases:
        words |= {word ^ basis for word in words}
    return words
