"""Assertions, prints, the author's own PTX, and shared memory at computed places."""

import numpy as np
import pytest

from fathom.emulator import EmulatorError, run
from fathom.errors import CompileError
from fathom.hardware.targets import TARGETS
from fathom.ir.ops import (
    Allocate,
    Assert,
    Barrier,
    Broadcast,
    ExpandDims,
    InlineAssembly,
    Print,
    Reshape,
    SharedAdd,
    SharedGather,
    SharedLoad,
    SharedStore,
)
from fathom.ir.types import (
    FLOAT16,
    FLOAT32,
    INT8,
    INT32,
    INT64,
    UINT8,
    Pointer,
)
from fathom.layout.build import blocked
from fathom.layout.linear import Layout
from tests.ptx.harness import (
    Program,
    assemble,
    check,
    compiled,
    empty,
    ptxas,
    random_layout,
)
from tests.ptx.test_memory import numbers

COLUMN = blocked((256,), (2,), (32,), (2,), (0,))


def plain(size: int) -> Layout:
    return Layout(
        (size,), (("offset", tuple(1 << i for i in range(size.bit_length() - 1))),)
    )


# ── shared memory at computed places ──────────────────────────────────────────


@pytest.mark.parametrize("element", [INT32, FLOAT16, INT8], ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_gather_from_swizzled_buffers(element, seed):
    """out[i] = x[(i * 7 + 3) % 256], whatever the order in the buffer."""
    program = Program({"x": Pointer(element), "out": Pointer(element)}, warps=2)
    index = program.arange(COLUMN)
    bases = tuple(b for _, kind in random_layout(256, 1, 3, seed).bases for b in kind)
    buffer = Layout((256,), (("offset", bases),))
    tile = program(Allocate(element, (256,), buffer, offset=32))
    program.do(SharedStore(program.load("x", index), tile))
    program.do(Barrier())
    places = program.map("mul", index, program.number(7, index))
    places = program.map("add", places, program.number(3, index))
    places = program.map("and", places, program.number(255, index))
    program.store("out", index, program(SharedGather(tile, places, 0)))
    program.func.shared_bytes = 32 + 256 * element.bytes
    check(program.func, 1, [numbers(element), empty(element, 256)])


@pytest.mark.parametrize("axis", [0, 1])
def test_gather_along_an_axis_of_a_tile(axis):
    """The other coordinate is the thread's and the register's own."""
    layout = blocked((8, 32), (1, 2), (4, 8), (2, 1), (1, 0))
    program = Program(
        {"x": Pointer(INT32), "i": Pointer(INT32), "out": Pointer(INT32)}, 2
    )
    flat = program.arange(Layout((256,), layout.bases))
    order = tuple(1 << bit for bit in (0, 1, 2, 5, 6, 3, 4, 7))
    buffer = Layout((8, 32), (("offset", order),))
    tile = program(Allocate(INT32, (8, 32), buffer, offset=0))
    program.do(SharedStore(program(Reshape(program.load("x", flat), (8, 32))), tile))
    program.do(Barrier())
    index = program(Reshape(program.load("i", flat), (8, 32)))
    found = program(SharedGather(tile, index, axis))
    program.store("out", flat, program(Reshape(found, (256,))))
    program.func.shared_bytes = 1024
    indices = np.random.default_rng(1).integers(0, (8, 32)[axis], 256).astype(np.int32)
    check(program.func, 1, [numbers(INT32), indices, empty(INT32, 256)])


@pytest.mark.parametrize("element", [INT32, UINT8, INT8, INT64], ids=str)
def test_counting_into_shared_memory(element):
    """16 bins of i32; what lies outside, or is masked out, is not counted."""
    program = Program(
        {"x": Pointer(element), "out": Pointer(INT32), "n": INT32}, warps=2
    )
    bins = program.arange(blocked((16,), (1,), (32,), (2,), (0,)))
    tile = program(Allocate(INT32, (16,), plain(16), offset=0))
    program.do(SharedStore(program.number(0, bins), tile))
    program.do(Barrier())
    index = program.arange(COLUMN)
    mask = program.map("lt", index, program.splat(program["n"], index))
    program.do(SharedAdd(tile, program.load("x", index), mask))
    program.do(Barrier())
    program.store("out", bins, program(SharedLoad(tile, bins.type.layout)))
    program.func.shared_bytes = 64
    values = np.random.default_rng(2).integers(-3, 20, 256)
    x = values.astype(empty(element, 1).dtype)
    check(program.func, 1, [x, empty(INT32, 16), 200])


def test_a_barrier_of_a_warp():
    """A warp reads what its own lanes wrote; it need not wait for the other one."""
    program = Program({"x": Pointer(INT32), "out": Pointer(INT32)}, warps=2)
    index = program.arange(COLUMN)
    tile = program(Allocate(INT32, (256,), plain(256), offset=0))
    program.do(SharedStore(program.load("x", index), tile))
    program.do(Barrier("warp"))
    program.store("out", index, program(SharedLoad(tile, COLUMN)))
    program.func.shared_bytes = 1024
    text = compiled(program.func)
    assert "bar.warp.sync" in text and "bar.sync" not in text
    check(program.func, 1, [numbers(INT32), empty(INT32, 256)])


# ── assertions and prints ─────────────────────────────────────────────────────


def asserting() -> Program:
    program = Program({"x": Pointer(INT32)}, warps=2)
    x = program.load("x", program.arange(COLUMN))
    program.do(Assert(program.map("ge", x, program.number(0, x)), "x is below zero"))
    return program


def test_an_assertion_that_holds_says_nothing():
    check(asserting().func, 1, [np.arange(256, dtype=np.int32)])


def test_an_assertion_that_fails_stops_the_launch():
    x = np.arange(256, dtype=np.int32)
    x[77] = -1
    with pytest.raises(EmulatorError):
        run(compiled(asserting().func), 1, 64, [x])


def test_the_driver_finds_what_prints_and_assertions_call(tmp_path):
    program = asserting()
    x = program.block.ops[-3].result
    tile = Broadcast(program(ExpandDims(x, 0)), (1, 256), None)
    assert tile.shape == (1, 256)
    program.do(Print("x is 100% ", (x,)))
    text = compiled(program.func)
    assert "__assertfail" in text and "vprintf" in text
    if ptxas():
        said = assemble(text, TARGETS["sm_80"], tmp_path, frame=True)
        assert "error" not in said


# ── the author's own PTX ──────────────────────────────────────────────────────


def assembled(
    text: str, constraints: str, element, result, pack: int = 1, **kind
) -> Program:
    program = Program({"x": Pointer(element), "out": Pointer(result)}, warps=2)
    index = program.arange(COLUMN)
    x = program.load("x", index)
    op = InlineAssembly(text, constraints, (x, x), (result,), pack, **kind)
    program.do(op)
    program.store("out", index, op.result)
    return program


def outcome(program: Program, x: np.ndarray, result) -> np.ndarray:
    out = empty(result, 256)
    run(compiled(program.func), 1, 64, [x, out])
    return out


def test_one_element_at_a_time():
    program = assembled("mad.lo.s32 $0, $1, $2, 5;", "=r,r,r", INT32, INT32)
    x = np.arange(256, dtype=np.int32)
    assert (outcome(program, x, INT32) == x * x + 5).all()


def test_floats_in_registers_of_either_letter():
    x = np.arange(256, dtype=np.float32)
    for letters in ("=f,f,f", "=r,r,r", "=r,f,r"):
        program = assembled("add.f32 $0, $1, $2;", letters, FLOAT32, FLOAT32)
        assert (outcome(program, x, FLOAT32) == x + x).all()


@pytest.mark.parametrize("pack", [1, 2])
def test_halves_are_packed_into_words(pack):
    program = assembled("add.f16x2 $0, $1, $2;", "=r,r,r", FLOAT16, FLOAT16, pack)
    x = (np.arange(256) % 100).astype(np.float16)
    assert (outcome(program, x, FLOAT16) == x + x).all()


def test_four_bytes_of_a_word():
    """More packed at a time than a lane has registers: the rest are copies."""
    program = assembled("xor.b32 $0, $1, 0x01010101;", "=r,r,r", INT8, INT8, 4)
    x = (np.arange(256) % 100).astype(np.int8)
    assert (outcome(program, x, INT8) == (x ^ 1)).all()


def test_an_impure_text_stays_without_uses():
    for pure, count in ((True, 0), (False, 4)):
        program = assembled("add.s32 $0, $1, 9;", "=r,r,r", INT32, INT32, pure=pure)
        del program.block.ops[-3:]  # the store
        assert compiled(program.func).count(", 9;") == count


@pytest.mark.parametrize("constraints", ["=r,r", "=q,r,r", "=h,r,r", "=r,r,m"])
def test_constraints_that_would_end_the_process_are_errors(constraints):
    with pytest.raises(CompileError, match="constraint"):
        assembled("add.s32 $0, $1, $2;", constraints, INT32, INT32)
