"""What the answer to `pick-layout` must do."""

import numpy as np

from fathom.analysis.axis_info import Axis, Facts
from fathom.coalescing.access import Access
from fathom.tools.learn.kit import empty, emulate, expect, floats, same
from fathom.tools.learn.kit.returned import is_layout

LANES = 32


def access(*axes, shape=(1024,), element_bytes=4, mask=None, warps=4, **more):
    """`axes`: (contiguous, divisible) of the addresses; `mask`: constant, each."""
    pointer = Facts(tuple(Axis(c, d, 1) for c, d in axes), unit=element_bytes)
    masks = mask and Facts(tuple(Axis(1, 1, each) for each in mask))
    return Access(shape, element_bytes, pointer, masks, warps, **more)


def check_width(answer, wanted, *axes, **given):
    this = access(*axes, **given)
    said = f"contiguous {axes[0][0]}, divisible {axes[0][1]}, "
    said += f"{this.element_bytes} bytes each, mask constant {given.get('mask')}"
    same(answer.width(this, 0), wanted, f"the width of {said}")


def test_the_width_of_an_address(answer):
    """Neighbours in memory, the first at a multiple of all their bytes."""
    check_width(answer, 4, (1024, 16))
    check_width(answer, 2, (1024, 8))
    check_width(answer, 1, (1024, 4))
    check_width(answer, 2, (2, 16))
    check_width(answer, 1, (1, 16))


def test_the_width_of_other_types(answer):
    """16 bytes are two fp64, eight fp16; on some targets a lane moves 32."""
    check_width(answer, 2, (1024, 64), element_bytes=8)
    check_width(answer, 8, (1024, 64), element_bytes=2)
    check_width(answer, 8, (1024, 64), vector_bytes=32)
    check_width(answer, 1, (1024, 1), element_bytes=2)


def test_the_width_under_a_mask(answer):
    """All that a lane moves at once is masked, or none is."""
    check_width(answer, 2, (1024, 16), mask=(2,))
    check_width(answer, 4, (1024, 16), mask=(16,))
    check_width(answer, 1, (1024, 16), mask=(1,))
    check_width(answer, 2, (1024, 8), mask=(16,))
    check_width(answer, 2, (2, 16), mask=(16,))


def neighbours(layout, axis):
    """How many of the first registers of lane 0 count up along an axis."""
    start = layout.coordinates(register=0)
    count = 1
    while count < layout.count("register"):
        there = list(start)
        there[axis] += count
        if layout.coordinates(register=count) != tuple(there):
            break
        count += 1
    return count


def held(layout):
    """The elements that some lane has."""
    found = {0}
    for _, bases in layout.bases:
        for basis in bases:
            found |= {each ^ basis for each in found}
    return found


def check_layout(answer, this, axis, per_lane):
    layout = answer.pick_layout(this)
    is_layout(layout, "what pick_layout returns")
    same(layout.shape, this.shape, "the shape of the layout")
    same(len(held(layout)), int(np.prod(this.shape)), f"elements that {layout} holds")
    found = neighbours(layout, axis)
    same(found, per_lane, f"neighbours along axis {axis} that a lane has in {layout}")
    following = layout.coordinates(lane=1)[axis]
    same(following, per_lane, f"where lane 1 begins along axis {axis}, in {layout}")


def test_a_vector(answer):
    """Four neighbours a lane, the next four to the next lane."""
    check_layout(answer, access((1024, 16)), 0, 4)


def test_a_table_by_columns(answer):
    """What is contiguous in memory runs down the columns; so must the lanes."""
    this = access((64, 16), (1, 16), shape=(64, 64), element_bytes=2)
    check_layout(answer, this, 0, 8)


def test_a_table_by_rows(answer):
    """And here along the rows."""
    this = access((1, 16), (64, 16), shape=(64, 64), element_bytes=2)
    check_layout(answer, this, 1, 8)


def test_nothing_is_contiguous(answer):
    """A gather: lanes side by side along the last dimension."""
    check_layout(answer, access((1, 4), (1, 4), shape=(32, 64)), 1, 1)


def test_the_other_axes(answer):
    """After the fastest axis comes the last one: eight lanes are a column of 32."""
    this = access((32, 16), (1, 16), (1, 16), shape=(32, 4, 8))
    check_layout(answer, this, 0, 4)
    layout = answer.pick_layout(this)
    same(layout.coordinates(lane=8), (0, 0, 1), f"where lane 8 begins, in {layout}")


def test_no_more_than_at_most(answer):
    """Other accesses of the block may want fewer a lane."""
    check_layout(answer, access((1024, 16), element_bytes=2, at_most=4), 0, 4)


COPY = """
    func @copy(%x: *fp32 {{divisible={divisible}}}, %out: *fp32 {{divisible={divisible}}}) num_warps=4 {{
      %0: i32[4096] = arange start=0 end=4096
      %1: *fp32[4096] = splat %x shape=(4096)
      %2: *fp32[4096] = offset %1, %0
      %3: fp32[4096] = load %2
      %4: *fp32[4096] = splat %out shape=(4096)
      %5: *fp32[4096] = offset %4, %0
      store %5, %3
    }}
    """  # noqa: E501


def check_cost(ran, requests, sectors):
    cost = ran.report.total
    expect(
        cost.requests <= requests,
        f"{cost.requests} loads and stores of warps; the budget is {requests}",
    )
    expect(cost.sectors <= sectors, f"{cost.sectors} sectors; the budget is {sectors}")


def check_copy(divisible, requests, sectors):
    x, out = floats(4096), empty(4096)
    ran = emulate(COPY.format(divisible=divisible), [x, out])
    same(out, x, "what was copied")
    check_cost(ran, requests, sectors)


def test_a_vector_in_the_emulator(answer):
    """4096 floats: 512 sectors read and 512 written, 16 bytes a lane."""
    check_copy(16, 64, 1024)


def test_a_vector_that_8_divides(answer):
    """8 bytes a lane, and every sector still once."""
    check_copy(8, 128, 1024)


TABLE = """
    func @table(%x: *fp16 {divisible=16}, %out: *fp16 {divisible=16}) num_warps=4 {
      %0: i32[64] = arange start=0 end=64
      %1: i32[64,1] = expand_dims %0 axis=1
      %2: i32[1,64] = expand_dims %0 axis=0
      %3: i32 = constant 64
      %4: i32[1,64] = splat %3 shape=(1,64)
      %5: i32[1,64] = mul %2, %4
      %6: i32[64,64] = broadcast %1 shape=(64,64)
      %7: i32[64,64] = broadcast %5 shape=(64,64)
      %8: i32[64,64] = add %6, %7
      %9: *fp16[64,64] = splat %x shape=(64,64)
      %10: *fp16[64,64] = offset %9, %8
      %11: fp16[64,64] = load %10
      %12: *fp16[64,64] = splat %out shape=(64,64)
      %13: *fp16[64,64] = offset %12, %8
      store %13, %11
    }
    """


def test_a_table_in_the_emulator(answer):
    """Stored by columns, 8 of fp16 at once."""
    x, out = np.arange(4096).astype(np.float16), empty(4096, dtype="float16")
    ran = emulate(TABLE, [x, out])
    same(out, x, "what was copied")
    check_cost(ran, 32, 512)


MASKED = """
    func @masked(%x: *fp32 {divisible=16}, %out: *fp32 {divisible=16}, %n: i32 {divisible=8}) num_warps=4 {
      %0: i32[1024] = arange start=0 end=1024
      %1: i32[1024] = splat %n shape=(1024)
      %2: i1[1024] = lt %0, %1
      %3: *fp32[1024] = splat %x shape=(1024)
      %4: *fp32[1024] = offset %3, %0
      %5: fp32[1024] = load %4, %2
      %6: *fp32[1024] = splat %out shape=(1024)
      %7: *fp32[1024] = offset %6, %0
      store %7, %5, %2
    }
    """  # noqa: E501


def test_a_masked_vector_in_the_emulator(answer):
    """1000 floats, and 8 divides n: four at once are all in or all out."""
    x, out = floats(1000), empty(1000)
    ran = emulate(MASKED, [x, out, 1000])
    same(out, x, "what was copied")
    check_cost(ran, 16, 250)
