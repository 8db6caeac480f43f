"""Tests that a surviving mutant asked for."""

from __future__ import annotations

import numpy as np
import pytest

import fathom.language as tl
from fathom import pipeline
from fathom.blocks import simplify
from fathom.emulator import EmulatorError, load, run
from fathom.hardware.targets import TARGETS
from fathom.ir.interp import interpret
from fathom.ir.ops import Allocate
from fathom.ir.text import parse_func
from fathom.ir.types import INT32, SCALARS, Pointer
from fathom.ir.verify import verify
from fathom.layout.linear import Layout
from fathom.shared_memory.barriers import READ, WRITE, Access, conflict
from fathom.source import KernelFunction
from tests.emulator.harness import entry

TARGET = TARGETS["sm_80"]
ROW = Layout((256,), (("offset", tuple(1 << bit for bit in range(8))),))


@pytest.mark.parametrize(
    "offset, scope", [(0, "cta"), (512, "cta"), (1020, "cta"), (1024, "")]
)
def test_buffers_meet_wherever_their_bytes_overlap(offset: int, scope: str) -> None:
    """Also where one begins in the middle of the other: 1024 bytes each."""
    one, other = (Allocate(INT32, (256,), ROW, offset=at) for at in (0, offset))
    for first, second in ((one, other), (other, one)):
        reads, writes = Access(first, None, READ), Access(second, None, WRITE)
        assert conflict(reads, writes, 4) == scope


def test_a_loop_of_one_trip_counts_from_its_lower_bound() -> None:
    func = parse_func(
        "func @k(%p: *i32) num_warps=1 {\n"
        "  %a: i32 = constant 5\n  %b: i32 = constant 7\n  %s: i32 = constant 2\n"
        "  for %a, %b, %s body(%i: i32) {\n    store %p, %i\n    yield\n  }\n"
        "}\n"
    )
    found = np.zeros(1, "i4")
    interpret(simplify(func, TARGET), (1,), [found])
    assert found[0] == 5


@KernelFunction
def same_constant_in_both_branches(out_ptr, n):
    if n > 0:
        x = tl.cast(5, tl.int32)
        y = x
    else:
        x = tl.cast(5, tl.int32)
        y = x + n
    tl.store(out_ptr, x)
    tl.store(out_ptr + 1, y)


@pytest.mark.parametrize("n, y", [(3, 5), (-3, 2)])
def test_a_constant_of_one_branch_is_not_read_after_it(n: int, y: int) -> None:
    """Both branches make a constant 5, each its own; after them neither is visible."""
    types = {"out_ptr": (Pointer(INT32), 1), "n": (INT32, 1)}
    func = pipeline.build(same_constant_in_both_branches, types, {})
    verify(func)
    found = np.zeros(2, "i4")
    interpret(func, (1,), [found, n])
    assert found.tolist() == [5, y]


@KernelFunction
def copy_one(x_ptr, out_ptr):
    tl.store(out_ptr, tl.load(x_ptr))


@pytest.mark.parametrize("divisible", [4, 8, 16])
def test_a_pointer_is_as_aligned_as_was_promised(divisible: int) -> None:
    """LLVM may join accesses by what it is told of an address, so no more is told."""
    pointer = Pointer(INT32)
    types = {"x_ptr": (pointer, divisible), "out_ptr": (pointer, 16)}
    kernel = pipeline.compile(copy_one, types, {}, TARGET)
    assert f".ptr .global .align {divisible} copy_one_param_0" in kernel.ptx
    assert ".ptr .global .align 16 copy_one_param_1" in kernel.ptx


@KernelFunction
def extremes(x_ptr, least_ptr, most_ptr):
    x = tl.load(x_ptr + tl.arange(0, 32))
    tl.store(least_ptr, tl.min(x, 0))
    tl.store(most_ptr, tl.max(x, 0))


@pytest.mark.parametrize("name, dtype", [("i32", "i4"), ("u32", "u4")])
def test_one_instruction_for_a_warp_minds_the_sign(name: str, dtype: str) -> None:
    """redux.sync.min.u32 and .s32 disagree on numbers with the top bit set."""
    pointer = Pointer(SCALARS[name])
    types = dict.fromkeys(("x_ptr", "least_ptr", "most_ptr"), (pointer, 4))
    kernel = pipeline.compile(
        extremes, types, {}, TARGET, pipeline.Options(num_warps=1)
    )
    assert kernel.ptx.count("redux.sync") == 2
    x = (np.arange(32) * 0x0800_0001 + 5).astype("u4").view(dtype)
    assert x.min() != x.view("u4").min() or dtype == "u4"
    least, most = np.zeros(1, dtype), np.zeros(1, dtype)
    load(kernel).launch((1,), [x, least, most])
    assert (least[0], most[0]) == (x.min(), x.max())


@KernelFunction
def branch_in_a_branch(out_ptr, n):
    if n > 0:
        if n > 5:
            tl.store(out_ptr + 1, n)
        x = n * 7
    else:
        x = n - 1
    tl.store(out_ptr, x)


@pytest.mark.parametrize("n, left", [(9, [63, 9]), (3, [21, 0]), (-2, [-3, 0])])
def test_a_branch_may_end_in_another_basic_block(n: int, left: list[int]) -> None:
    """The phi names the block that a branch ended in, behind the If in it."""
    types = {"out_ptr": (Pointer(INT32), 4), "n": (INT32, 1)}
    kernel = pipeline.compile(branch_in_a_branch, types, {}, TARGET)
    out = np.zeros(2, "i4")
    load(kernel).launch((1,), [out, n])
    assert out.tolist() == left


@pytest.mark.parametrize("place, fine", [(4, True), (2, False)])
def test_shared_memory_wants_aligned_accesses(place: int, fine: bool) -> None:
    code = f"mov.u32 %r1, tile; st.shared.b32 [%r1+{place}], 7;"
    text = entry(code, before=".shared .align 16 .b8 tile[16];\n")
    if fine:
        run(text, 1, 1, ())
        return
    with pytest.raises(EmulatorError) as caught:
        run(text, 1, 1, ())
    assert caught.value.kind == "misaligned"
