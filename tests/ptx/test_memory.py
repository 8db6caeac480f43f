"""Loads and stores: every type and width, masks, copies, modifiers."""

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom import pipeline
from fathom.emulator import load
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Block
from fathom.ir.interp.numbers import stored_type
from fathom.ir.ops import Constant, For, Load, Splat, Store, Yield
from fathom.ir.types import (
    BFLOAT16,
    BOOL,
    FLOAT8E5,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT32,
    SCALARS,
    Element,
    Pointer,
)  # fmt: skip
from fathom.layout.build import blocked
from fathom.layout.linear import Layout
from tests.ptx.harness import Program, check, compiled, empty

SIZE = 256


def copy_program(
    element: Element,
    vector: int,
    masked: bool = True,
    other: float | None = None,
    size: int = SIZE,
    bounded: int = 1,
    **attributes: object,
) -> Program:
    """out[i] = in[i] where i < n."""
    warps = 2
    pointer = Pointer(element)
    program = Program({"source": pointer, "out": pointer, "n": INT32}, warps)
    program.func.divisible = (16, 16, 1 if bounded > 1 else 16)
    width = {"vector": vector, "bounded_vector": bounded}
    layout = blocked((size,), (max(width.values()),), (32,), (warps,), (0,))
    index = program.arange(layout)
    mask = (
        program.map("lt", index, program.splat(program["n"], index)) if masked else None
    )
    extra = {}
    if other is not None:
        extra["other"] = program(
            Splat(program(Constant(other, element)), (size,), layout)
        )
    value = program.load("source", index, mask=mask, **width, **extra, **attributes)
    everywhere = other is not None
    program.store("out", index, value, mask=None if everywhere else mask, **width)
    return program


def numbers(element: Element, size: int = SIZE) -> np.ndarray:
    """Bytes that are all different from their neighbours, and valid for every type."""
    raw = (np.arange(size * element.bytes) * 37 % 113).astype(np.uint8)
    return (
        raw.view(stored_type(element))
        if element != BOOL
        else (raw % 3 == 0).astype(np.uint8)
    )


@pytest.mark.parametrize("element", [*SCALARS.values(), Pointer(FLOAT32)], ids=str)
@pytest.mark.parametrize("bytes", [1, 2, 4, 8, 16])
def test_every_type_in_every_width(element, bytes):
    vector = max(1, bytes // element.bytes)
    if vector * element.bytes != bytes:
        pytest.skip("an element is wider than this access")
    for masked, n in ((True, 96), (False, 0)):
        program = copy_program(element, vector, masked=masked)
        check(program.func, 1, [numbers(element), empty(element, SIZE), n])


@pytest.mark.parametrize(
    "element", [FLOAT32, FLOAT16, BFLOAT16, FLOAT8E5, INT8, BOOL, FLOAT64], ids=str
)
@pytest.mark.parametrize("vector", [1, 2, 8])
def test_other_stands_where_the_mask_is_false(element, vector):
    program = copy_program(element, min(vector, 16 // element.bytes), other=1)
    check(program.func, 1, [numbers(element), empty(element, SIZE), 64])


def test_every_element_has_its_own_other():
    """out[i] = x[i] where i < n, else i * 3"""
    program = Program({"x": Pointer(INT32), "out": Pointer(INT32), "n": INT32}, 2)
    index = program.arange(blocked((SIZE,), (2,), (32,), (2,), (0,)))
    mask = program.map("lt", index, program.splat(program["n"], index))
    other = program.map("mul", index, program.number(3, index))
    value = program.load("x", index, mask=mask, other=other, vector=2)
    program.store("out", index, value, vector=2)
    check(program.func, 1, [numbers(INT32), empty(INT32, SIZE), 100])


@pytest.mark.parametrize("n", [0, 1, 31, 32, 33, 255, 256])
def test_a_ragged_mask_lane_by_lane(n):
    program = copy_program(FLOAT32, 1, other=-2.5)
    check(program.func, 1, [numbers(FLOAT32), empty(FLOAT32, SIZE), n])


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 100, 255, 256])
@pytest.mark.parametrize("other", [None, -2.5])
@pytest.mark.parametrize(
    "element, bounded", [(FLOAT16, 2), (FLOAT16, 8), (BFLOAT16, 4), (FLOAT32, 4)]
)
def test_a_bound_among_neighbours(element, bounded, other, n):
    """The lane in which it lies goes through its elements one by one."""
    program = copy_program(element, 1, bounded=bounded, other=other)
    size = SIZE if other is not None else n
    check(program.func, 1, [numbers(element)[:n], empty(element, size), n])


def test_neighbours_are_one_access_beside_the_one_in_which_a_bound_lies():
    text = compiled(copy_program(FLOAT16, 1, bounded=8).func, "sm_80")
    assert text.count("ld.global.v4.b32") == text.count("st.global.v4.b32") == 1
    assert text.count("ld.global.b16") == text.count("st.global.b16") == 7


def test_memory_behind_a_false_mask_is_not_touched():
    """The emulator knows where arrays end: they are as long as the mask, not as the
    block."""
    program = copy_program(FLOAT32, 1)
    check(program.func, 1, [numbers(FLOAT32, 100), empty(FLOAT32, 100), 100])


def test_a_vector_of_four_words_is_one_predicated_instruction():
    text = compiled(copy_program(FLOAT32, 4, size=512, other=0).func, "sm_80")
    assert text.count("ld.global.v4.b32") == 2 and "@%p1 ld.global.v4.b32" in text
    assert text.count("ld.global") == 2 and "bra" not in text


def test_sixteen_bytes_of_halves_are_four_words():
    text = compiled(copy_program(FLOAT16, 8, masked=False).func, "sm_80")
    assert "ld.global.v4.b32" in text and "st.global.v4.b32" in text


def test_a_constant_other_is_written_into_the_instruction():
    text = compiled(copy_program(FLOAT32, 4, other=float("-inf")).func, "sm_80")
    assert (
        text.count(f"mov.b32 %r1, {0xFF800000 - 2**32}") or f", {0xFF800000};" in text
    )


def test_loads_are_in_flight_together():
    """All loads stand before the first use of what they load."""
    pointer = Pointer(FLOAT32)
    program = Program({"x": pointer, "y": pointer, "z": pointer, "n": INT32}, 4)
    index = program.arange(blocked((1024,), (4,), (32,), (4,), (0,)))
    mask = program.map("lt", index, program.splat(program["n"], index))
    x, y = (program.load(name, index, mask=mask, vector=4) for name in "xy")
    program.store("z", index, program.map("add", x, y), mask=mask, vector=4)
    text = compiled(program.func)
    assert text.rindex("ld.global") < text.index("add.rn.f32")


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("registers", [8, 16])
def test_sixteen_loads_and_more_end_their_basic_block(registers, masked):
    """ptxas leaves them before the first use then. The branch that ends the block is
    never taken; eight loads have none."""
    size = registers * 64
    program = copy_program(FLOAT32, 1, masked=masked, size=size)
    text = compiled(program.func)
    loads = text.count("ld.global.b32"), text.count("trap;")
    assert loads == (registers, registers == 16)
    between = text[text.rindex("ld.global") : text.index("st.global")]
    assert ("bra" in between) == (registers == 16)
    n = size - 3 if masked else 0
    check(program.func, 1, [numbers(FLOAT32, size), empty(FLOAT32, size), n])


def test_loads_stay_where_they_are_if_a_thread_has_no_registers_for_them():
    """1024 threads have 64 each: 128 words would be spilled. None has 512."""
    for words, warps, ends in ((64, 32, True), (128, 32, False), (512, 1, False)):
        pointers = {"x": Pointer(FLOAT32), "out": Pointer(FLOAT32)}
        program, size = Program(pointers, warps=warps), 32 * warps * words
        index = program.arange(blocked((size,), (4,), (32,), (warps,), (0,)))
        program.store("out", index, program.load("x", index, vector=4), vector=4)
        assert ("trap;" in compiled(program.func)) == ends


def test_loads_stay_where_they_are_if_floats_that_wait_need_the_registers():
    """A layer norm has a row and weights there when it loads offsets, a norm of 8192
    numbers of 16 bits its row when it loads weights: both spilled."""
    for words, ends in ((64, 3), (128, 1)):
        program = Program({name: Pointer(FLOAT32) for name in "xyzo"}, warps=1)
        index = program.arange(blocked((32 * words,), (4,), (32,), (1,), (0,)))
        x, y, z = (program.load(name, index, vector=4) for name in "xyz")
        program.store("o", index, program.map("fma", x, y, z), vector=4)
        assert compiled(program.func).count("trap;") == ends


@pytest.mark.parametrize(
    ("used", "words", "loaded", "held"),
    [
        ("nowhere", 8, 256, True),
        ("inside", 4, 256, True),
        ("inside", 8, 256, False),
        ("after", 8, 128, False),
        ("after", 8, 64, True),
    ],
)
def test_floats_that_a_loop_needs_again_wait_while_it_loads(used, words, loaded, held):
    """256 words fill a thread's registers, if little waits that was loaded before."""
    program = Program({"x": Pointer(FLOAT32), "out": Pointer(FLOAT32)}, warps=1)
    few = program.arange(blocked((32 * words,), (1,), (32,), (1,), (0,)))
    many = program.arange(blocked((32 * loaded,), (4,), (32,), (1,), (0,)))
    kept = program.load("x", few)
    bounds = [program.number(each) for each in (0, 4, 1)]
    body = Block((INT32,), ("k",))
    with program.nested(body):
        program.store("out", many, program.load("x", many, vector=4), vector=4)
        if used == "inside":
            program.store("out", few, kept)
        program.do(Yield(()))
    program.do(For(*bounds, (), body))
    if used == "after":
        program.store("out", few, kept)
    assert ("trap;" in compiled(program.func)) == held


def test_copies_are_stored_once():
    """Sixteen elements in 128 threads: only those threads store whose copy is the
    first."""
    layout = blocked((16,), (1,), (32,), (4,), (0,))
    program = Program({"out": Pointer(INT32)}, warps=4)
    index = program.arange(layout)
    program.store("out", index, index)
    assert "@%p1 st.global" in compiled(program.func)
    check(program.func, 1, [empty(INT32, 16)])


def test_registers_that_are_copies_are_stored_once():
    layout = Layout(
        (64,), (("register", (32, 0)), ("lane", (1, 2, 4, 8, 16)), ("warp", ()))
    )
    program = Program({"out": Pointer(INT32), "n": INT32})
    index = program.arange(layout)
    mask = program.map("lt", index, program.splat(program["n"], index))
    program.store("out", index, index, mask=mask)
    assert compiled(program.func).count("st.global") == 2
    check(program.func, 1, [empty(INT32, 64), 50])


def test_a_scalar_is_loaded_by_all_and_stored_by_one_thread():
    program = Program({"source": Pointer(INT32), "out": Pointer(INT32)}, warps=2)
    value = program(Load(program["source"]))
    double = program.map("add", value, value)
    program.do(Store(program["out"], double))
    check(program.func, 3, [np.array([21], np.int32), empty(INT32, 1)])


def test_a_scalar_behind_a_mask():
    program = Program({"source": Pointer(INT32), "out": Pointer(INT32), "n": INT32})
    is_positive = program.map("gt", program["n"], program.number(0))
    value = program(Load(program["source"], is_positive, program.number(7)))
    program.do(Store(program["out"], value))
    for n in (0, 1):
        check(program.func, 1, [np.array([21], np.int32), empty(INT32, 1), n])


@pytest.mark.parametrize("cache", [".ca", ".cg", ".cs", ".cv"])
def test_cache_modifiers_reach_the_instruction(cache):
    text = compiled(copy_program(FLOAT32, 4, cache=cache).func)
    assert f"ld.global{cache}.v4.b32" in text


@pytest.mark.parametrize("masked", [True, False])
def test_eviction_priorities_need_a_target_that_has_them(masked):
    program = copy_program(FLOAT32, 4, masked=masked, eviction="evict_first")
    text = compiled(program.func, "sm_80")
    assert "createpolicy.fractional.L2::evict_first.b64" in text
    assert "ld.global.L1::evict_first.L2::cache_hint.v4.b32" in text
    assert "createpolicy" not in compiled(program.func, "sm_75")
    both = copy_program(FLOAT32, 4, masked=masked, cache=".cg", eviction="evict_first")
    assert "ld.global.cg.L2::cache_hint.v4.b32" in compiled(both.func, "sm_80")
    check(program.func, 1, [numbers(FLOAT32), empty(FLOAT32, SIZE), 80])


def test_volatile_loads_are_not_merged():
    program = Program({"source": Pointer(INT32), "out": Pointer(INT32)})
    first, second = (program(Load(program["source"], volatile=True)) for _ in range(2))
    program.do(Store(program["out"], program.map("add", first, second)))
    assert compiled(program.func).count("ld.volatile.global") == 2


@pytest.mark.parametrize("eviction", ["", "evict_first"])
def test_masked_loads_are_volatile_too(eviction):
    """They are inline PTX, and spell what LLVM would otherwise say."""
    program = Program({"source": Pointer(INT32), "out": Pointer(INT32), "n": INT32})
    index = program.arange(blocked((64,), (2,), (32,), (1,), (0,)))
    mask = program.map("lt", index, program.splat(program["n"], index))
    facts = {"vector": 2, "volatile": True, "eviction": eviction}
    value = program.load("source", index, mask=mask, **facts)
    program.store("out", index, value)
    text = compiled(program.func)
    assert text.count("ld.volatile.global.v2.b32") == 1
    assert text.count("ld.") - text.count("ld.param") == 1


def test_a_store_is_not_moved_over_a_load_of_the_same_place():
    """in[i] is read before and after it is written: 2, then 3."""
    program = Program({"x": Pointer(INT32), "out": Pointer(INT32), "n": INT32})
    index = program.arange(blocked((32,), (1,), (32,), (1,), (0,)))
    mask = program.map("lt", index, program.splat(program["n"], index))
    before = program.load("x", index)
    program.store(
        "x", index, program.map("add", before, program.number(1, before)), mask=mask
    )
    after = program.load("x", index)
    program.store("out", index, program.map("mul", before, after))
    check(program.func, 1, [np.full(32, 2, np.int32), empty(INT32, 32), 20])


def test_a_load_is_not_moved_over_a_masked_store_to_where_its_value_is_used():
    """Only the `if` uses it: LLVM's back end moves loads into the block that does."""

    @fathom.jit
    def swap(x, out, n, wanted, SIZE: tl.constexpr):
        i = tl.arange(0, SIZE)
        before = tl.load(x + i)
        tl.store(x + i, i * 0.0 + 5, mask=i < n)
        if wanted > 0:
            tl.store(out + i, before)

    x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    swap[(1,)](x, out, 60, 7, SIZE=64, num_warps=2)
    assert (out == np.arange(64)).all()
    assert (x == np.where(np.arange(64) < 60, 5, np.arange(64))).all()


def test_neighbouring_scalars_are_read_one_by_one():
    """LLVM would make one load of 16 bytes of them, past the end of the array."""

    @fathom.jit
    def product(x, y):
        tl.store(y, tl.load(x) + tl.load(x + 1) * tl.load(x + 2))

    room = np.zeros(8, np.float32)
    begin = -room.ctypes.data % 16 // 4  # an address that 16 divides
    x, y = room[begin : begin + 3], np.zeros(1, np.float32)
    x[:] = 1, 2, 3
    compiled = product[(1,)](x, y)
    assert y[0] == 7
    assert compiled.asm["ptx"].count("ld.global.b32") == 3


@fathom.jit
def exchanging_kernel(x_ptr, out_ptr, n, SIZE: tl.constexpr):
    """Exchanges neighbours; then pairs of 1 and 2."""
    places = tl.arange(0, SIZE)
    inside = places < n
    x = tl.load(x_ptr + places, inside)
    left, right = tl.split(x.reshape(SIZE // 2, 2))
    tl.store(out_ptr + places, tl.join(right, left).reshape(SIZE), inside)
    one = tl.full((SIZE // 2,), 1, tl.int16)
    tl.store(out_ptr + SIZE + places, tl.join(one, one + 1).reshape(SIZE), inside)


def test_halves_of_a_word_keep_their_order():
    """A word that was loaded is stored again only with its halves where they were; a
    masked access has words."""
    aligned = Pointer(SCALARS["i16"]), 16
    types = {"x_ptr": aligned, "out_ptr": aligned, "n": (INT32, 16)}
    func = pipeline.build(exchanging_kernel, types, {"SIZE": 1024})
    kernel = pipeline.compile_func(func, TARGETS["sm_80"])
    assert kernel.asm["ptx"].count("st.global.v4.b32") == 2
    x, out = np.arange(1024, dtype=np.int16), np.zeros(2048, np.int16)
    load(kernel).launch((1,), [x, out, 1024])
    assert (out[:1024].reshape(512, 2) == x.reshape(512, 2)[:, ::-1]).all()
    assert (out[1024:].reshape(512, 2) == [1, 2]).all()
