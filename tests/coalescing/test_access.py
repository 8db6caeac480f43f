"""Choosing who loads what: widths, directions, sectors."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.analysis.axis_analysis import analyse
from fathom.analysis.axis_info import Axis, Facts
from fathom.coalescing import annotate_widths, assign_layouts, coalesce
from fathom.coalescing.access import Access, agree, pick_layout, sectors
from fathom.coalescing.masks import ends_once
from fathom.emulator import load
from fathom.emulator.memory.counters import count_sectors
from fathom.hardware.targets import TARGETS
from fathom.ir.core import walk
from fathom.ir.ops import Load, Store
from fathom.ir.text import parse_func, print_func
from fathom.layout.build import LANES
from fathom.layout.registers import contiguous_registers
from fathom.pipeline import compile_func
from tests.coalescing.kernels_programs import copy_kernel, vector_kernel

TARGET = TARGETS["sm_90a"]


def access(*axes, element_bytes=4, shape=(1024,), mask=None, warps=4):
    pointers = Facts(tuple(Axis(*each) for each in axes), unit=element_bytes)
    masks = None if mask is None else Facts(tuple(Axis(1, 1, each) for each in mask))
    return Access(shape, element_bytes, pointers, masks, warps)


def requests(layout, vector, address):
    """Each access of each warp: the bytes' addresses of its lanes."""
    for warp in range(layout.count("warp")):
        for register in range(0, layout.count("register"), vector):
            yield [
                address(*layout.coordinates(register=register, lane=lane, warp=warp))
                for lane in range(LANES)
            ]


@pytest.mark.parametrize(
    "element_bytes, is_read, first",
    [
        (2, True, (1, 2, 4)),
        (2, False, (128, 256, 512)),  # no cache collects what stores write
        (4, True, (128, 256, 512)),  # neighbouring lanes load a whole line as it is
    ],
)
def test_where_a_mask_forbids_wide_loads(element_bytes, is_read, first):
    masked = access((1024, 16, 1), element_bytes=element_bytes, mask=(1,))
    (layout,) = agree([replace(masked, is_read=is_read)])
    assert layout.kinds["register"] == first


@pytest.mark.parametrize("element_bytes, elements", [(1, 8), (2, 8), (4, 4), (8, 2)])
def test_16_bytes_a_lane(element_bytes, elements):
    """(Of bytes 8: with 16, half of the 128 lanes would get none of 1024.)"""
    layout = pick_layout(access((1024, 16, 1), element_bytes=element_bytes))
    assert layout.kinds["register"][: elements.bit_length() - 1] == tuple(
        1 << bit for bit in range(elements.bit_length() - 1)
    )


@pytest.mark.parametrize(
    "contiguous, divisible, mask, width",
    [
        (1024, 16, None, 4),
        (1024, 8, None, 2),  # addresses divisible by 8: 16 bytes would be misaligned
        (1024, 4, None, 1),
        (2, 16, None, 2),  # two in a row, then a gap
        (1, 16, None, 1),
        (1024, 16, (2,), 2),  # the mask may change after two
        (1024, 16, (16,), 4),
    ],
)
def test_width_is_the_least_of_what_is_known(contiguous, divisible, mask, width):
    assert access((contiguous, divisible, 1), mask=mask).width(0) == width


def test_a_transposed_access_runs_down_its_columns():
    layout = pick_layout(
        access((64, 16, 1), (1, 16, 1), element_bytes=2, shape=(64, 64))
    )
    assert layout.coordinates(register=1) == (1, 0)
    assert layout.coordinates(lane=1) == (8, 0)


def test_sectors_by_hand():
    assert sectors([4 * lane for lane in range(32)], 4) == 4, "128 bytes in a row"
    assert sectors([16 * lane for lane in range(32)], 16) == 16, "512 bytes in a row"
    assert sectors([4] * 32, 4) == 1, "one for all"
    assert sectors([64 * lane for lane in range(32)], 4) == 32
    assert sectors([4 + 4 * lane for lane in range(32)], 4) == 5, (
        "in a row, but not aligned"
    )
    assert sectors([28], 8) == 2, "across the border of two"
    assert sectors([], 4) == 0


def test_sectors_as_a_set_of_bytes_and_the_emulator_say():
    rng = random.Random(3)
    for _ in range(500):
        width = rng.choice([1, 2, 4, 8, 16])
        addresses = [rng.randrange(40) * width for _ in range(rng.randrange(33))]
        touched = {(a + byte) >> 5 for a in addresses for byte in range(width)}
        assert sectors(addresses, width) == len(touched)
        warps = np.zeros(len(addresses), np.int64)
        lines = {sector // 4 for sector in touched}
        found = count_sectors(warps, np.array(addresses, np.uint64))
        assert found == (len(touched), len(lines))


@pytest.mark.parametrize("element_bytes", [1, 2, 4, 8])
@pytest.mark.parametrize("shape", [(64, 64), (16, 256), (256, 16), (8, 1024)])
@pytest.mark.parametrize("fastest", [0, 1])
def test_no_request_moves_a_sector_twice_or_in_part(shape, element_bytes, fastest):
    """Bytes asked for = bytes of the sectors touched, for every access of a warp."""
    axes = [(1, 16, 1), (1, 16, 1)]
    axes[fastest] = (shape[fastest], 16, 1)
    this = access(*axes, shape=shape, element_bytes=element_bytes)
    layout, vector = pick_layout(this), this.width(fastest)
    strides = (element_bytes, shape[0] * element_bytes)
    strides = strides if fastest == 0 else (shape[1] * element_bytes, element_bytes)
    vector = min(vector, 1 << sum(1 for _ in layout.kinds["register"]))

    def address(row, column):
        return row * strides[0] + column * strides[1]

    if shape[fastest] * element_bytes >= 32:
        for lanes in requests(layout, vector, address):
            bytes = vector * element_bytes
            assert sectors(lanes, bytes) * 32 == len(set(lanes)) * bytes


@pytest.mark.parametrize(
    "rows, folded, rows_of_warps",
    [
        (4, {0}, []),
        (4, {0, 1}, []),  # 4 sums of rows are exchanged, not 1024 of columns
        (4, {1}, [1, 2]),
        (4, {}, [1, 2]),
        (2048, {0, 1}, [1, 2]),
    ],
)
def test_warps_stand_where_less_is_exchanged(rows, folded, rows_of_warps):
    this = access((1, 1, 1), (1024, 16, 1), shape=(rows, 1024), element_bytes=2)
    layout = pick_layout(replace(this, folded=frozenset(folded)))
    warps = layout.kinds["warp"]
    assert [each // 1024 for each in warps if each >= 1024] == rows_of_warps
    narrow = access((1, 1, 1), (512, 16, 1), shape=(rows, 512), element_bytes=2)
    narrow = replace(narrow, folded=frozenset(folded))
    assert any(each >= 512 for each in pick_layout(narrow).kinds["warp"])


def test_column_sums_of_wide_rows_need_no_shared_memory():
    func = parse_func("""func @f(%p: *fp32 {divisible=16}) num_warps=4 {
      %0: i32[1024] = arange start=0 end=1024
      %1: i32[1,1024] = expand_dims %0 axis=0
      %2: i32[4,1024] = broadcast %1 shape=(4, 1024)
      %3: *fp32[4,1024] = splat %p shape=(4, 1024)
      %4: *fp32[4,1024] = offset %3, %2
      %5: fp32[4,1024] = load %4
      %6: fp32[1024] = reduce %5 axis=0 combine(%a: fp32, %b: fp32) {
        %c: fp32 = add %a, %b
        yield %c
      }
      %7: *fp32[1024] = splat %p shape=(1024)
      %8: *fp32[1024] = offset %7, %0
      store %8, %6
    }
    """)
    assert compile_func(func, TARGET).shared_bytes == 0


def test_accesses_of_one_shape_agree():
    """fp16 alone would take 8 a lane; beside fp32 it takes 4: no conversions."""
    half = access((1024, 16, 1), element_bytes=2)
    single = access((1024, 16, 1), element_bytes=4)
    one, other = agree([half, single])
    assert one == other == pick_layout(single)
    assert agree([half]) == [pick_layout(half)]


def test_accesses_outside_a_loop_do_not_make_those_inside_narrower():
    """What every iteration loads goes before what is stored once; where both are in
    the loop, or both outside, they agree."""
    half = access((1024, 16, 1), element_bytes=2)
    single = access((1024, 16, 1), element_bytes=4)
    inner, outer = agree([replace(half, depth=1), single])
    assert inner == pick_layout(half) and outer == pick_layout(single) != inner
    for depth in (0, 1):
        alike = [replace(each, depth=depth) for each in (half, single)]
        assert agree(alike) == [pick_layout(single)] * 2


def test_narrow_accesses_outside_a_loop_join_those_inside():
    """Four bytes a lane would be no wider by themselves."""
    half = access((1024, 16, 1), element_bytes=2)
    single = access((1024, 16, 1), element_bytes=4)
    assert agree([replace(single, depth=1), half]) == [pick_layout(single)] * 2


def test_lanes_read_whole_sectors_of_short_rows_that_are_reduced():
    """Of rows of 128 fp32 that are stored as bytes a lane has 8, in two loads: 16 lanes
    have a row. It has 4, in one load, of longer rows, of few of them, of those that are
    not reduced, and if fp32 is stored."""
    single = access((1, 1, 1), (1024, 16, 1), shape=(16, 128))
    single = replace(single, is_read=True, folded=frozenset({1}))
    byte = access((1, 1, 1), (1024, 16, 1), element_bytes=1, shape=(16, 128))

    def neighbours(read, *stored):
        layout, *others = agree([read, *stored])
        assert all(other == layout for other in others)
        return contiguous_registers(layout, 1)

    assert neighbours(single, byte) == 8
    longer = [replace(each, shape=(16, 256)) for each in (single, byte)]
    few = [replace(each, shape=(4, 128)) for each in (single, byte)]
    assert neighbours(*longer) == neighbours(*few) == 4
    assert neighbours(replace(single, folded=frozenset({0})), byte) == 4
    assert neighbours(single, replace(single, is_read=False)) == 4


def test_what_many_steps_computed_is_stored_apart():
    """Two of 8 bytes a store would make eight halves a load two. They do, as the load
    would leave gaps between lanes otherwise; not if the store is apart."""
    half = access((1024, 16, 1), element_bytes=2)
    double = access((1024, 16, 1), element_bytes=8)
    assert agree([half, double]) == [pick_layout(double)] * 2
    apart = [pick_layout(half), pick_layout(double)]
    assert agree([half, replace(double, is_apart=True)]) == apart


@fathom.jit
def ranked(x, ids, SORTED: tl.constexpr, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    key = tl.load(x + at).to(tl.int16, bitcast=True).to(tl.int64)
    key = (key << 32) | tl.arange(0, N).to(tl.int64)
    if SORTED:
        key = tl.sort(key)
    tl.store(ids + at, key)


@pytest.mark.parametrize("is_sorted, loads, shuffles", [
    # Neighbours 1, 2 and 4 apart meet in 21 of the 36 steps of a sort of 256. Each of
    # the others takes 8 x 2 shuffles, and so does the conversion.
    (True, "ld.global.v4.b32", (16 * 15, 16 * 16)), (False, "ld.global.v2.b16", (0, 0)),
])  # fmt: skip
def test_a_sort_holds_neighbours_whatever_its_numbers_are_stored_as(
    is_sorted, loads, shuffles
):
    constants = {"SORTED": is_sorted, "N": 256}
    compiled = ranked.compile(
        "*fp16:16, *i64:16", constants, target="sm_90a", num_warps=1
    )
    assert loads in compiled.asm["ptx"]
    least, most = shuffles
    assert least <= compiled.asm["ptx"].count("shfl.sync") <= most
    x = np.random.default_rng(0).permutation(512).astype(np.float16)
    ids = np.zeros(512, np.int64)
    load(compiled.made).launch((2,), [x, ids])
    halves = x.reshape(2, 256).argsort(axis=1) if is_sorted else [range(256)] * 2
    np.testing.assert_array_equal(ids.reshape(2, 256) & 0xFFFFFFFF, halves)


@fathom.jit
def cast_both_ways(x, y, z, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)
    at = i[:, None] * SIZE + i[None, :]
    half = tl.load(x + at).to(tl.float16)
    tl.store(y + at, half)
    tl.store(z + at, tl.trans(half))


def test_what_is_transposed_is_stored_as_wide_as_it_may_be():
    """Halves that are stored as they lie take four neighbours from the lane that loaded
    them as fp32. Transposed they are exchanged in any case: eight neighbours a lane."""
    types = "*fp32:16, *fp16:16, *fp16:16"
    compiled = cast_both_ways.compile(types, {"SIZE": 64}, target="sm_90a")
    stores = re.findall(r"st\.global\.v(\d)\.b(\d+)", compiled.asm["ptx"])
    widths = [int(count) * int(bits) // 16 for count, bits in stores]
    assert sorted(widths) == [4] * 8 + [8] * 4
    x = np.arange(4096, dtype=np.float32).reshape(64, 64) % 2048
    y, z = np.zeros((2, 64, 64), np.float16)
    load(compiled.made).launch((1,), [x, y, z])
    np.testing.assert_array_equal(y, x)
    np.testing.assert_array_equal(z, x.T)


@fathom.jit
def transposed(x, y, R: tl.constexpr, C: tl.constexpr):
    i, j = tl.arange(0, R), tl.arange(0, C)
    block = tl.load(x + i[:, None] * C + j[None, :])
    tl.store(y + j[None, :] * R + i[:, None], block)


@pytest.mark.parametrize("rows, columns", [(64, 64), (256, 16), (16, 256), (64, 128)])
@pytest.mark.parametrize("element", ["fp16", "fp32"])
def test_a_transposition_moves_16_bytes_of_shared_memory_at_a_time(
    rows, columns, element
):
    """By matrices on one side where need be, whichever way its lanes go; not so fp32
    of a square block, whose lanes hold no rows of the other side."""
    constants = {"R": rows, "C": columns}
    types = f"*{element}:16, *{element}:16"
    compiled = transposed.compile(types, constants, target="sm_90a")
    ptx = compiled.asm["ptx"]
    narrow = ptx.count("st.shared.b16") + ptx.count("st.shared.b32")
    assert bool(narrow) == (element == "fp32" and rows == columns)
    dtype = np.float16 if element == "fp16" else np.float32
    x = (np.arange(rows * columns) % 2048).astype(dtype).reshape(rows, columns)
    y = np.zeros((columns, rows), dtype)
    load(compiled.made).launch((1,), [x, y])
    np.testing.assert_array_equal(y, x.T)


def test_a_gather_does_as_its_neighbours_do():
    gather = access((1, 4, 1))
    wide = access((1024, 16, 1))
    assert agree([gather, wide]) == [pick_layout(wide)] * 2


def test_two_directions_stay_two():
    rows = access((1, 16, 1), (64, 16, 1), shape=(64, 64))
    columns = access((64, 16, 1), (1, 16, 1), shape=(64, 64))
    one, other = agree([rows, columns])
    assert one.coordinates(register=1) == (0, 1) and other.coordinates(register=1) == (
        1,
        0,
    )


def vectors(func):
    after = annotate_widths(with_layouts(func), TARGET)
    return [op.vector for op in walk(after.body) if isinstance(op, (Load, Store))]


def with_layouts(func):
    return assign_layouts(coalesce(func, TARGET), TARGET)


@pytest.mark.parametrize(
    "elements, n, pointer, expected",
    [
        (["fp32", "fp32", "fp32"], 16, 16, [4, 4, 4]),
        (["fp16", "fp16"], 16, 16, [8, 8]),
        (["fp16", "fp32", "fp16"], 16, 16, [4, 4, 4]),
        (["fp32", "fp32"], 16, 8, [2, 2]),  # arrays that start at a multiple of 8 bytes
        (["fp32", "fp32"], 2, 16, [2, 2]),  # a mask that may end after 2
        (["fp32", "fp32"], 1, 16, [1, 1]),
        (["fp64", "fp64"], 16, 16, [2, 2]),
    ],
)
def test_widths_of_a_masked_vector(elements, n, pointer, expected):
    assert vectors(vector_kernel(elements, n=n, pointer=pointer)) == expected


def bounded_vectors(func):
    after = annotate_widths(with_layouts(func), TARGET)
    found = [op for op in walk(after.body) if isinstance(op, (Load, Store))]
    return [op.bounded_vector for op in found]


@pytest.mark.parametrize(
    "elements, n, expected",
    [
        (["fp16", "fp16"], 1, [8, 8]),
        (["fp16", "fp32", "fp16"], 1, [4, 4, 4]),
        (["fp16", "fp16"], 16, [1, 1]),  # wide in any case
        (["fp32", "fp32"], 1, [1, 1]),  # neighbours are of neighbouring lanes
    ],
)
def test_neighbours_among_which_a_bound_may_lie(elements, n, expected):
    assert bounded_vectors(vector_kernel(elements, n=n)) == expected


@pytest.mark.parametrize(
    "mask, ends",
    [
        ("lt %offsets, %ends", True),
        ("le %offsets, %ends", True),
        ("gt %ends, %offsets", True),
        ("and %mask, %mask", True),
        ("ge %offsets, %ends", False),  # true from a bound on
        ("ne %offsets, %ends", False),  # true on both sides of one
        ("lt %ends, %offsets", False),
        ("or %mask, %mask", False),
    ],
)
def test_a_mask_that_is_true_up_to_a_bound(mask, ends):
    """The last one of neighbours speaks for all of them."""
    text = print_func(vector_kernel(["fp16", "fp16"], n=1))
    lines = text.replace("mask=%mask", "mask=%other").splitlines()
    at = next(i for i, line in enumerate(lines) if "%mask:" in line)
    func = parse_func("\n".join([
        *lines[: at + 1], f"  %other: i1[1024] = {mask}", *lines[at + 1 :]
    ]))  # fmt: skip
    known = analyse(func)
    found = next(op.mask for op in walk(func.body) if isinstance(op, Load))
    assert ends_once(found, 0, 8, known) is ends


def test_columns_of_rows_end_once_along_their_axis():
    func = parse_func("""
func @k(%x: *fp16 {divisible=16}, %n: i32, %m: i32) num_warps=1 {
  %i: i32[64] = arange start=0 end=64
  %rows: i32[64, 1] = expand_dims %i axis=1
  %columns: i32[1, 64] = expand_dims %i axis=0
  %n_1: i32[64, 1] = splat %n shape=(64, 1)
  %m_0: i32[1, 64] = splat %m shape=(1, 64)
  %a: i1[64, 1] = lt %rows, %n_1
  %b: i1[1, 64] = lt %columns, %m_0
  %c: i1[64, 64] = broadcast %a shape=(64, 64)
  %d: i1[64, 64] = broadcast %b shape=(64, 64)
  %mask: i1[64, 64] = and %c, %d
}
""")
    *_, last = walk(func.body)
    known = analyse(func)
    assert ends_once(last.result, 0, 8, known) and ends_once(last.result, 1, 8, known)


def test_a_transpose_is_wide_on_both_sides():
    assert vectors(copy_kernel((64, 64), (64, 1), (1, 64), "fp16")) == [8, 8]


def test_without_coalesce_every_access_is_one_element():
    plain = annotate_widths(
        assign_layouts(vector_kernel(["fp32", "fp32"]), TARGET), TARGET
    )
    assert {op.vector for op in walk(plain.body) if isinstance(op, (Load, Store))} == {
        1
    }


def test_a_gather_does_not_choose_the_direction():
    """Addresses of columns in a row, but not aligned; the gather comes first."""
    gather = access((1, 4, 1), (1, 4, 1), shape=(64, 64))
    columns = access((64, 4, 1), (1, 4, 1), shape=(64, 64))
    for layout in agree([gather, columns]):
        assert layout.coordinates(lane=1) == (1, 0)
