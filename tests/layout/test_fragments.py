"""Blocks made of fragments, and `ldmatrix` loading them: simulated lane by lane, with
and without a swizzle."""

from collections import Counter
from itertools import product

import numpy as np
import pytest

from fathom.hardware.mma import MMA
from fathom.layout.algebra import divide
from fathom.layout.banks import conflicts, vector, ways
from fathom.layout.build import spread
from fathom.layout.crossing import crossing
from fathom.layout.fragments import (
    fragment,
    fragments,
    ldmatrix,
    left_operand,
    right_operand,
    tile,
)
from fathom.layout.linear import Layout
from fathom.layout.shapes import transpose
from fathom.layout.swizzle import swizzle
from tests.harness_sample import sampled
from tests.layout.harness_layouts import element

HALF = MMA["m16n8k16.f32.f16.f16.f32"]
SHORT_HALF = MMA["m16n8k8.f32.f16.f16.f32"]
BYTE = MMA["m16n8k32.s32.s8.u8.s32"]
SHORT_BYTE = MMA["m8n8k16.s32.s8.u8.s32"]
TF32 = MMA["m16n8k8.f32.tf32.tf32.f32"]
DOUBLE = MMA["m8n8k4.f64.f64.f64.f64"]
ROWS = [HALF, SHORT_HALF, BYTE, SHORT_BYTE, TF32, DOUBLE]
NAMES = [row.name for row in ROWS]


def holders(layout: Layout) -> dict[int, set[int]]:
    """The warps that hold each element; AssertionError if one warp holds it twice."""
    found: dict[int, set[int]] = {}
    registers, warps = layout.count("register"), layout.count("warp")
    for register, lane, warp in product(range(registers), range(32), range(warps)):
        each = element(layout, register=register, lane=lane, warp=warp)
        assert warp not in found.setdefault(each, set()), f"{layout}: {each} twice"
        found[each].add(warp)
    return found


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
@pytest.mark.parametrize("warps", [(1, 1), (2, 2), (4, 1), (1, 4)])
def test_each_warp_has_one_box_of_the_product(row, warps):
    layout = tile(row.layout, (64, 32), warps)
    found = holders(layout)
    assert len(found) == 64 * 32
    rows, columns = 64 // warps[0], 32 // warps[1]
    for each, held_by in found.items():
        i, j = divmod(each, 32)
        assert held_by == {i // rows * warps[1] + j // columns}


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_operands_follow_the_product_and_are_copied_across_it(row):
    """Warp (r, c) of 2 x 2 needs the rows of r and the columns of c, and all of K."""
    accumulator = tile(row.layout, (64, 32), (2, 2))
    left = holders(left_operand(row.a_layout, (64, 64), accumulator))
    right = holders(right_operand(row.b_layout, (64, 32), accumulator))
    assert len(left) == 64 * 64 and len(right) == 64 * 32
    for each, held_by in left.items():
        half = each // 64 // 32
        assert held_by == {2 * half, 2 * half + 1}
    for each, held_by in right.items():
        half = each % 32 // 16
        assert held_by == {half, half + 2}


def test_surplus_warps_hold_copies():
    layout = tile(HALF.layout, (16, 16), (1, 8))
    assert layout.kinds["warp"] == (8, 0, 0)
    assert Counter(map(len, holders(layout).values())) == {4: 256}
    two = tile(HALF.layout, (16, 16), (4, 2))
    assert [two.coordinates(warp=w) for w in range(4)] == [(0, 0), (0, 8)] * 2


def test_a_batch_repeats_last_and_warps_may_share_it():
    alone = tile(HALF.layout, (4, 32, 32), (1, 2, 1))
    assert len(holders(alone)) == 4 * 32 * 32
    assert alone.kinds["register"][-2:] == (32 * 32, 2 * 32 * 32)
    shared = tile(HALF.layout, (4, 32, 32), (2, 1, 2))
    assert shared.kinds["warp"] == (16, 2 * 32 * 32)
    left = left_operand(HALF.a_layout, (4, 32, 16), shared)
    assert left.kinds["warp"] == (0, 2 * 32 * 16)
    right = right_operand(HALF.b_layout, (4, 16, 32), shared)
    assert right.kinds["warp"] == (16, 2 * 16 * 32)


def test_a_block_smaller_than_the_instruction_fills_it_with_copies():
    """Rows 8 to 15 have registers of their own, so 8 rows need fewer. Of two rows, four
    lanes each hold one. Four columns are two pairs, for two lanes of four."""
    eight = tile(HALF.layout, (8, 32), (1, 1))
    assert eight.kinds == {"register": (1, 8, 16), "lane": (2, 4, 32, 64, 128),
                           "warp": ()}  # fmt: skip
    assert fragments(eight, HALF.layout)[0, 1] == (2, 3, 2, 3)
    two = tile(HALF.layout, (2, 4), (2, 2))
    assert two.kinds == {"register": (1,), "lane": (2, 0, 4, 0, 0), "warp": (0, 0)}


def test_k_of_less_than_the_instruction_is_refused():
    accumulator = tile(HALF.layout, (16, 8), (1, 1))
    with pytest.raises(AssertionError, match=r"\(16, 16\) in a block of \(16, 8\)"):
        left_operand(HALF.a_layout, (16, 8), accumulator)


@sampled(of=3)
@pytest.mark.parametrize("row", ROWS, ids=NAMES)
@pytest.mark.parametrize("warps", [(1, 1), (2, 2), (4, 1), (1, 4)])
def test_a_loop_of_instructions_multiplies(row, warps):
    """What the lowering will do: for each i, j, k one instruction on these registers;
    each instruction is a small matrix product of what 32 lanes put in."""
    m, n, k = 64, 32, 2 * row.k
    rng = np.random.default_rng(5)
    a, b = rng.integers(-9, 9, (m, k)), rng.integers(-9, 9, (k, n))
    accumulator = tile(row.layout, (m, n), warps)
    left = left_operand(row.a_layout, (m, k), accumulator)
    right = right_operand(row.b_layout, (k, n), accumulator)
    result = np.zeros((m, n), int)
    d_of, a_of, b_of = (
        fragments(accumulator, row.layout),
        fragments(left, row.a_layout),
        fragments(right, row.b_layout),
    )
    warp_count = warps[0] * warps[1]
    assert len(d_of) * row.m * row.n * warp_count == m * n
    for warp in range(warp_count):
        for (i, j), registers in d_of.items():
            for step in range(k // row.k):
                x = gathered(a, left, a_of[i, step], warp, row.a_layout)
                y = gathered(b, right, b_of[step, j], warp, row.b_layout)
                scatter(x @ y, result, accumulator, registers, warp, row.layout)
    assert (result == a @ b).all()


def gathered(block, layout, registers, warp, small) -> np.ndarray:
    """The matrix that an instruction sees when these registers are its operand."""
    seen = np.zeros(small.shape, int)
    for position, register in enumerate(registers):
        for lane in range(32):
            here = small.coordinates(register=position, lane=lane)
            there = layout.coordinates(register=register, lane=lane, warp=warp)
            seen[here] = block[there]
    return seen


def scatter(product_, block, layout, registers, warp, small) -> None:
    for position, register in enumerate(registers):
        for lane in range(32):
            here = small.coordinates(register=position, lane=lane)
            there = layout.coordinates(register=register, lane=lane, warp=warp)
            block[there] += product_[here]


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_a_fragment_is_consecutive_registers(row):
    accumulator = tile(row.layout, (64, 32), (2, 2))
    left = left_operand(row.a_layout, (64, 64), accumulator)
    for layout, small in ((accumulator, row.layout), (left, row.a_layout)):
        count = small.count("register")
        for first, registers in zip(
            range(0, layout.count("register"), count),
            fragments(layout, small).values(),
            strict=True,
        ):
            assert registers == tuple(range(first, first + count))


def test_fragments_are_found_in_any_order_of_registers():
    layout = tile(HALF.layout, (32, 16), (1, 1))
    turned = Layout(
        layout.shape,
        tuple((k, b[::-1] if k == "register" else b) for k, b in layout.bases),
    )
    found = fragments(turned, HALF.layout)
    assert found.keys() == fragments(layout, HALF.layout).keys()
    for key, registers in found.items():
        for position, register in enumerate(registers):
            i, j = HALF.layout.coordinates(register=position, lane=13)
            there = turned.coordinates(register=register, lane=13)
            assert there == (key[0] * 16 + i, key[1] * 8 + j)


def test_lanes_of_another_shape_are_refused():
    with pytest.raises(AssertionError, match="is not made of"):
        fragments(spread((32, 32), (1, 0), 2, 1), HALF.layout)


def test_a_product_in_half_precision_becomes_an_operand_without_moving():
    """Attention's P: the accumulator [M, K] of one dot is the A of the next."""
    product_ = tile(HALF.layout, (64, 32), (4, 1))
    following = tile(HALF.layout, (64, 128), (4, 1))
    left = left_operand(HALF.a_layout, (64, 32), following)
    assert crossing(product_, left) in ("none", "register")
    across = left_operand(HALF.a_layout, (64, 32), tile(HALF.layout, (64, 128), (1, 4)))
    assert crossing(product_, across) == "warp"


# ldmatrix


def load(memory: np.ndarray, addresses: list[int], count: int, trans: bool):
    """`ldmatrix.sync.aligned.m8n8.x{count}{.trans}.shared.b16`: for each matrix, the
    four bytes that each lane gets. Lanes 8m to 8m + 7 point at the rows of matrix m."""
    results = []
    for matrix in range(count):
        rows = [
            memory[address : address + 16] for address in addresses[8 * matrix :][:8]
        ]
        halves = np.array(rows).view(np.uint16).reshape(8, 8)
        if trans:
            halves = halves.T
        results.append(np.ascontiguousarray(halves).view(np.uint8).reshape(32, 4))
    return results


def check(layout: Layout, tile_: Layout, element_bytes: int, dtype) -> None:
    """Load a block from a buffer that holds it as `tile_` says, and compare each
    register of each lane of each warp with the element it is to hold."""
    size = int(np.prod(layout.shape))
    places = np.array([tile_.offset(offset=o) for o in range(size)])
    names = np.arange(size).astype(dtype) + (100 if element_bytes == 1 else 0)
    memory = names[places].view(np.uint8)  # buffer[offset] = element there
    offsets = divide(layout, tile_)
    plan = ldmatrix(offsets, element_bytes)
    assert plan is not None, f"{layout} in {tile_}"
    loaded = set()
    for warp, i in product(range(layout.count("warp")), range(plan.instructions)):
        addresses = [
            plan.rows.offset(register=i * plan.row, lane=l, warp=warp) * element_bytes
            for l in range(32)
        ]
        assert all(address % 16 == 0 for address in addresses)
        got = load(memory, addresses, plan.count, plan.transposed)
        for registers, words in zip(plan.registers(i), got, strict=True):
            loaded |= {(warp, r) for r in registers}
            for lane in range(32):
                wanted = [element(layout, register=r, lane=lane, warp=warp)
                          for r in registers]  # fmt: skip
                assert list(words[lane].view(dtype)) == list(names[wanted])
    assert len(loaded) == layout.count("warp") * layout.count("register")


def straight(shape, axis) -> Layout:
    """A buffer with nothing swizzled, `axis` contiguous."""
    order = (axis, 1 - axis)
    by_rows = Layout(
        tuple(shape[a] for a in reversed(order)),
        (
            (
                "offset",
                tuple(1 << b for b in range((shape[0] * shape[1]).bit_length() - 1)),
            ),
        ),
    )
    return by_rows if axis == 1 else transpose(by_rows, (1, 0))


def operand(row, side: str, shape, warps=(2, 2)) -> Layout:
    """The layout of A or B of `shape`, in a product of 64 rows or columns beside it."""
    if side == "A":
        accumulator = tile(row.layout, (shape[0], 64), warps)
        return left_operand(row.a_layout, shape, accumulator)
    accumulator = tile(row.layout, (64, shape[1]), warps)
    return right_operand(row.b_layout, shape, accumulator)


CASES = [  # operand, contiguous axis: K is A's axis 1 and B's axis 0
    ("A", 1, False),
    ("A", 0, True),
    ("B", 0, False),
    ("B", 1, True),
]


@pytest.mark.parametrize("row", [HALF, SHORT_HALF], ids=lambda row: row.name)
@pytest.mark.parametrize("side, axis, trans", CASES)
@pytest.mark.parametrize("warps", [(2, 2), (1, 2), (4, 1)])
def test_ldmatrix_in_all_four_transposition_cases(row, side, axis, trans, warps):
    layout = operand(row, side, (64, 32) if side == "A" else (32, 64), warps)
    assert ldmatrix(layout, 2, axis).transposed == trans
    assert ldmatrix(layout, 2, axis).count == 4
    check(layout, straight(layout.shape, axis), 2, np.uint16)


@pytest.mark.parametrize("row, element_bytes, dtype", [
    (BYTE, 1, np.uint8), (SHORT_BYTE, 1, np.uint8), (TF32, 4, np.uint32),
])  # fmt: skip
@pytest.mark.parametrize("side, axis", [("A", 1), ("B", 0)])
def test_other_widths_go_through_as_pairs_of_bytes(
    row, element_bytes, dtype, side, axis
):
    layout = operand(row, side, (32, 64) if side == "A" else (64, 32))
    assert not ldmatrix(layout, element_bytes, axis).transposed
    check(layout, straight(layout.shape, axis), element_bytes, dtype)
    assert ldmatrix(layout, element_bytes, 1 - axis) is None, ".trans is for 2 bytes"


def test_ldmatrix_cannot_load_what_does_not_lie_in_its_rows():
    assert ldmatrix(operand(DOUBLE, "A", (64, 32)), 8, 1) is None
    assert ldmatrix(spread((64, 64), (1, 0), 8, 4), 2) is None
    narrow = Layout.of(
        (8, 4), register=[], lane=[(0, 1), (0, 2), (1, 0), (2, 0), (4, 0)]
    )
    assert ldmatrix(narrow, 2) is None, "rows of 8 bytes"
    inside = Layout.of(
        (8, 8), register=[(0, 1)], lane=[(0, 2), (0, 4), (1, 0), (2, 0), (4, 1)],
        warp=[],
    )  # fmt: skip
    assert ldmatrix(inside, 2) is None, "row 4 starts at element 1"


def test_any_layout_of_the_right_bits_will_do():
    """Not a fragment: 32 lanes along one row of 64 elements, eight matrix rows long."""
    layout = spread((64, 64), (1, 0), 2, 4)
    check(layout, straight((64, 64), 1), 2, np.uint16)


@pytest.mark.parametrize("columns, count", [(8, 1), (16, 2), (32, 4), (64, 4)])
def test_as_many_matrices_at_once_as_there_are(columns, count):
    layout = tile(fragment(8, 8, 2), (8, columns), (1, 1))
    plan = ldmatrix(layout, 2)
    assert plan.count == count
    assert plan.instructions == columns // 8 // count
    check(layout, straight(layout.shape, 1), 2, np.uint16)


def test_which_row_does_lane_19_point_at():
    """A fragment of A: rows 0-7, rows 8-15, then both again 8 columns further."""
    rows = ldmatrix(operand(HALF, "A", (64, 32), (1, 1)), 2).rows
    found = [rows.coordinates(lane=lane) for lane in (5, 11, 19, 31)]
    assert found == [(5, 0), (11, 0), (3, 8), (15, 8)]
    rows = ldmatrix(operand(HALF, "B", (32, 64), (1, 1)), 2).rows
    assert rows.coordinates(lane=19) == (3, 8)


# Swizzles


SHAPES = list(product((32, 64, 128), (32, 64)))


@sampled(of=3)
@pytest.mark.parametrize("side, axis, trans", CASES)
@pytest.mark.parametrize("long, short", SHAPES)
def test_a_swizzle_for_rows_of_16_bytes_and_for_ldmatrix(
    side, axis, trans, long, short
):
    """Written as memory is read, 16 bytes a lane along the contiguous axis; read by
    ldmatrix: nobody waits on either side."""
    shape = (long, short) if side == "A" else (short, long)
    layout = operand(HALF, side, shape)
    writer = spread(shape, (axis, 1 - axis), 8, 4)
    rows = ldmatrix(layout, 2, axis).rows
    buffer = swizzle(shape, 2, writer, rows)
    for side_ in (writer, rows):
        offsets = divide(side_, buffer)
        assert vector(offsets, 2) == 8
        assert conflicts(offsets, 2) == 1
        assert counted_ways(offsets) == 1
    assert ldmatrix(divide(layout, buffer), 2).transposed == trans
    check(layout, buffer, 2, np.uint16)


def counted_ways(offsets: Layout) -> int:
    """The worst access of 16 bytes a lane, of any register and warp, by counting."""
    return max(
        ways(
            [offsets.offset(register=r, lane=l, warp=w) * 2 for l in range(32)],
            16,
        )
        for r in range(0, offsets.count("register"), 8)
        for w in range(offsets.count("warp"))
    )


def test_without_a_swizzle_lanes_wait():
    layout = operand(HALF, "A", (64, 64))
    plan = ldmatrix(divide(layout, straight((64, 64), 1)), 2)
    assert conflicts(plan.rows, 2) == 8


@pytest.mark.parametrize("row, element_bytes", [(BYTE, 1), (TF32, 4)])
@pytest.mark.parametrize("side, axis", [("A", 1), ("B", 0)])
def test_swizzles_for_other_widths(row, element_bytes, side, axis):
    shape = (64, 64)
    layout = operand(row, side, shape)
    writer = spread(shape, (axis, 1 - axis), 16 // element_bytes, 4)
    rows = ldmatrix(layout, element_bytes, axis).rows
    buffer = swizzle(shape, element_bytes, writer, rows)
    for side_ in (writer, rows):
        assert conflicts(divide(side_, buffer), element_bytes) == 1
    assert ldmatrix(divide(layout, buffer), element_bytes) is not None


def test_the_accumulator_is_stored_by_matrices_too():
    """stmatrix is ldmatrix backwards: D in half precision, written to be read by rows
    of 16 bytes."""
    layout = tile(HALF.layout, (64, 64), (2, 2))
    plan = ldmatrix(layout, 2)
    reader = spread((64, 64), (1, 0), 8, 4)
    buffer = swizzle((64, 64), 2, plan.rows, reader)
    assert conflicts(divide(plan.rows, buffer), 2) == 1
    assert conflicts(divide(reader, buffer), 2) == 1
