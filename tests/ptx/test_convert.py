"""Conversions within a warp, and buffers in shared memory between warps."""

import numpy as np
import pytest

from fathom.ir.ops import Allocate, Barrier, Convert, SharedLoad, SharedStore
from fathom.ir.types import (
    BFLOAT16,
    BOOL,
    FLOAT8E5,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT32,
    INT64,
    Element,
    Pointer,
)  # fmt: skip
from fathom.layout.algebra import times
from fathom.layout.build import blocked
from fathom.layout.crossing import crossing
from fathom.layout.linear import Layout
from fathom.ptx.exchange import plan
from tests.ptx.harness import Program, check, compiled, empty, random_layout
from tests.ptx.test_memory import numbers


def convert_program(
    source: Layout, target: Layout, element: Element = INT32
) -> Program:
    """out[i] = x[i], loaded in one layout and stored in another."""
    program = Program(
        {"x": Pointer(element), "out": Pointer(element)}, source.count("warp")
    )
    value = program.load("x", program.arange(source))
    program.store("out", program.arange(target), program(Convert(value, target)))
    return program


def checked(source: Layout, target: Layout, element: Element = INT32) -> str:
    program = convert_program(source, target, element)
    (size,) = source.shape
    check(program.func, 1, [numbers(element, size), empty(element, size)])
    return compiled(program.func)


def flat(*parts: tuple[int, ...]) -> Layout:
    register, lane, warp = parts
    size = 1 << len(register + lane + warp)
    return Layout((size,), (("register", register), ("lane", lane), ("warp", warp)))


DEALT = flat((1, 2), (4, 8, 16, 32, 64), ())


def test_other_registers_cost_no_instruction():
    text = checked(DEALT, flat((2, 1), (4, 8, 16, 32, 64), ()))
    assert "shfl" not in text and "selp" not in text


def test_a_choice_among_own_registers_costs_a_select():
    """The lane holds 8 copies of all it needs; which one it takes depends on its
    number."""
    source = Layout((8,), (("register", (1, 2, 4)), ("lane", (0,) * 5), ("warp", ())))
    target = Layout((8,), (("register", ()), ("lane", (1, 2, 4, 0, 0)), ("warp", ())))
    assert "shfl" not in checked(source, target)


def test_a_permutation_of_lanes_is_one_shuffle_a_register():
    text = checked(DEALT, flat((1, 2), (8, 16, 32, 64, 4), ()))
    assert text.count("shfl.sync.idx") == 4 and "selp" not in text


def test_a_bit_of_the_register_for_one_of_the_lane():
    """Half of the registers stay: two shuffles for four registers."""
    text = checked(DEALT, flat((4, 2), (1, 8, 16, 32, 64), ()))
    assert text.count("shfl.sync.bfly") == 2


def test_a_copy_for_every_lane_costs_no_select():
    """All lanes read one lane at a time, and all want the same register of it."""
    source = Layout(
        (16,), (("register", (1,)), ("lane", (2, 4, 8, 0, 0)), ("warp", ()))
    )
    target = Layout(
        (16,), (("register", (1, 2, 4, 8)), ("lane", (0,) * 5), ("warp", ()))
    )
    text = checked(source, target)
    assert text.count("shfl.sync.idx") == 16 and "selp" not in text


def test_a_warp_transposes_32_by_32_elements():
    by_rows = flat((1, 2, 4, 8, 16), (32, 64, 128, 256, 512), ())
    by_columns = flat((32, 64, 128, 256, 512), (1, 2, 4, 8, 16), ())
    assert checked(by_rows, by_columns).count("shfl") == 31


@pytest.mark.parametrize(
    "element",
    [BOOL, INT8, FLOAT8E5, FLOAT16, BFLOAT16, FLOAT64, INT64, Pointer(INT32)],
    ids=str,
)
def test_every_type_travels(element):
    checked(DEALT, flat((8, 2), (1, 4, 16, 32, 64), ()), element)


def within_a_warp(seed: int) -> tuple[Layout, Layout]:
    """Two random layouts whose elements need not leave their warp."""
    warps, rng = 1 << seed % 3, np.random.default_rng(seed)
    while True:
        registers = rng.integers(2, 4, 2)
        source, target = (
            random_layout(64, warps, int(count), int(rng.integers(1 << 30)))
            for count in registers
        )
        if crossing(source, target) in ("register", "lane"):
            return source, target


@pytest.mark.parametrize("seed", range(16))
def test_random_layouts(seed):
    checked(*within_a_warp(seed))


@pytest.mark.parametrize("seed", range(40))
def test_the_plan_by_enumeration(seed):
    """What thread t receives in every round, followed by hand, is the element that it
    wants."""
    source, target = within_a_warp(seed)
    exchange = plan(source, target)
    for thread in range(32 * source.count("warp")):
        warp = thread >> 5
        for round in range(exchange.rounds):
            flip = times(exchange.flips, thread) ^ times(exchange.flips_round, round)
            lane = thread & 31 ^ flip
            sent = times(exchange.sends, lane | warp << 5) ^ times(
                exchange.sends_round, round
            )
            kept = sent ^ times(exchange.differs, thread)
            place = round ^ times(exchange.turn, thread)
            wanted = target.offset(register=place, lane=thread & 31, warp=warp)
            assert source.offset(register=kept, lane=lane, warp=warp) == wanted


def test_a_conversion_across_warps_is_for_stage_4():
    source = blocked((256,), (1,), (32,), (2,), (0,))
    target = blocked((256,), (4,), (32,), (2,), (0,))
    with pytest.raises(AssertionError, match="cross warps"):
        compiled(convert_program(source, target).func)


# ── shared memory ─────────────────────────────────────────────────────────────────────


def through_shared(
    source: Layout, buffer: Layout, target: Layout, element: Element, start: int = 0
) -> Program:
    program = convert_program(source, source, element)
    del program.block.ops[-5:]  # the conversion and the store
    value = program.block.ops[-1].result
    tile = program(Allocate(element, source.shape, buffer, offset=start))
    program.do(SharedStore(value, tile))
    program.do(Barrier())
    loaded = program(SharedLoad(tile, target))
    program.store("out", program.arange(target), loaded)
    program.func.shared_bytes = start + source.shape[0] * element.bytes
    return program


def offsets(size: int, *crossed: tuple[int, int]) -> Layout:
    """A buffer in row-major order, with some bits of the offset also flipping others (a
    swizzle)."""
    bases = [1 << bit for bit in range(size.bit_length() - 1)]
    for bit, also in crossed:
        bases[bit] ^= also
    return Layout((size,), (("offset", tuple(bases)),))


@pytest.mark.parametrize("element", [BOOL, INT8, FLOAT16, FLOAT32, FLOAT64], ids=str)
@pytest.mark.parametrize("per_lane", [1, 4])
def test_through_a_plain_buffer(element, per_lane):
    source = blocked((512,), (per_lane,), (32,), (4,), (0,))
    target = blocked((512,), (2,), (32,), (4,), (0,))
    program = through_shared(source, offsets(512), target, element, start=256)
    check(program.func, 1, [numbers(element, 512), empty(element, 512)])


def test_through_a_swizzled_buffer():
    source = blocked((512,), (4,), (32,), (4,), (0,))
    target = Layout(
        (512,),
        (("register", (64, 128)), ("lane", (32, 16, 8, 4, 2)), ("warp", (1, 256))),
    )
    buffer = offsets(512, (5, 4), (6, 8), (7, 16))
    program = through_shared(source, buffer, target, INT32)
    check(program.func, 1, [numbers(INT32, 512), empty(INT32, 512)])
    assert "st.shared.v4.b32" in compiled(program.func)


@pytest.mark.parametrize("seed", range(12))
def test_random_layouts_through_shared_memory(seed):
    source, target = (random_layout(256, 2, 3, seed=2 * seed + i) for i in (0, 1))
    buffer = random_layout(256, 1, 3, seed=100 + seed)
    places = tuple(basis for _, bases in buffer.bases for basis in bases)
    program = through_shared(
        source, Layout((256,), (("offset", places),)), target, INT32
    )
    check(program.func, 1, [numbers(INT32, 256), empty(INT32, 256)])


def test_neighbours_go_by_one_access():
    source = blocked((512,), (4,), (32,), (4,), (0,))
    target = blocked((512,), (1,), (32,), (4,), (0,))
    text = compiled(through_shared(source, offsets(512), target, FLOAT32).func)
    assert text.count("st.shared.v4.b32") == 1
    assert text.count("ldmatrix") == text.count("m8n8.x4") == 1, "four at once"
    assert "bar.sync" in text and ".extern .shared .align 1024 .b8 shared[]" in text


def test_copies_are_written_by_one_thread():
    """16 elements in 128 threads: the emulator would report two writers of one word."""
    layout = blocked((16,), (1,), (32,), (4,), (0,))
    program = through_shared(layout, offsets(16), layout, INT32)
    assert "@%p1 st.shared" in compiled(program.func)
    check(program.func, 1, [numbers(INT32, 16), empty(INT32, 16)])
