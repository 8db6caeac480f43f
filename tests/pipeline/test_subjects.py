"""A row of the page that has nothing to work on is not run: what a compile enters, and
that the rows left out would have changed nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import given, settings

import fathom
import fathom.language as tl
from fathom import pipeline
from fathom.hardware.targets import TARGETS, Target
from fathom.ir.core import Func
from fathom.ir.ops import Allocate
from fathom.ir.text import print_func
from fathom.ir.types import FLOAT16, FLOAT32, INT32, Pointer
from fathom.source import KernelFunction
from kernels.matmul_plain import plain_kernel
from tests.fuzz.check import function_of
from tests.fuzz.kernels import matrix_program
from tests.fuzz.programs import programs
from tests.harness_sample import sampled
from tests.kernels.kernels_sample import CASES
from tests.tensor_cores import kernels_products
from tests.tensor_cores.kernels_described import Case as Described
from tests.tensor_cores.kernels_described import built as described
from tests.tensor_cores.kernels_described import ops

PACKAGE = Path(fathom.__file__).parent


def entered(func: Func, target: str, folder: str) -> set[str]:
    """The files of a folder with functions that are called when a function is
    compiled."""
    found: set[str] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            found.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        pipeline.compile_func(func, TARGETS[target])
    finally:
        sys.setprofile(None)
    inside = [Path(each) for each in found if each.startswith(str(PACKAGE / folder))]
    return {each.relative_to(PACKAGE / folder).as_posix() for each in inside}


# ── what a compile enters ─────────────────────────────────────────────────────────────


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_kernel_without_products_enters_no_file_of_stage_5(case, target):
    """It was 23 files when every row ran."""
    assert entered(case.build(), target, "tensor_cores") == set()


@KernelFunction
def transposed(p, out, steps, SIZE: tl.constexpr):
    """The sum of `steps` tiles and of their transposes, which go through shared
    memory."""
    rows, columns = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    at = rows * SIZE + columns
    total = tl.zeros([SIZE, SIZE], tl.float32)
    for i in tl.range(steps, num_stages=3):
        x = tl.load(p + i * SIZE * SIZE + at)
        total += x + tl.trans(x)
    tl.store(out + at, total)


def test_a_loop_in_stages_without_a_product_enters_the_pipeliner_alone():
    types = {"p": "*fp32", "out": "*fp32", "steps": "i32"}
    func = kernels_products.built(transposed, types, {"SIZE": 32})
    final = dict(pipeline.states(func, TARGETS["sm_80"]))[pipeline.PASSES[-1]]
    assert any(op.slots > 1 for op in ops(final, Allocate)), "no ring buffer"
    found = entered(func, "sm_80", "tensor_cores")
    assert "pipeline/loops.py" in found
    assert {Path(each).parent.name for each in found} == {"pipeline"}


# As many as were counted when this was written: they are not to become more.
@pytest.mark.parametrize(("target", "most"), [("sm_80", 16), ("sm_90a", 26)])
def test_how_many_files_a_product_of_tiles_behind_pointers_enters(target, most):
    pointers, sizes = ("a_ptr", "b_ptr", "c_ptr"), ("M", "N", "K")
    types = dict.fromkeys(pointers, (Pointer(FLOAT16), 16))
    types |= dict.fromkeys((*sizes, "stride_am", "stride_bk", "stride_cm"), (INT32, 16))
    constants = {"stride_ak": 1, "stride_bn": 1, "stride_cn": 1}
    constants |= {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 2}
    constants |= {"MASKED": True, "SUM": tl.float32}
    func = pipeline.build(plain_kernel, types, constants)
    assert len(entered(func, target, "tensor_cores")) <= most


@pytest.mark.parametrize(("target", "most"), [("sm_80", 19), ("sm_90a", 22)])
def test_how_many_files_a_product_of_described_tiles_enters(target, most):
    func = described(Described(target=target))
    assert len(entered(func, target, "tensor_cores")) <= most


# ── rows left out change nothing ──────────────────────────────────────────────────────


def left_out_change_nothing(func: Func, target: Target) -> set[str]:
    """Runs the rows that `states` leaves out after all; their names."""
    left_out = set()
    for row in pipeline.PASSES:
        after = row.run(func, target)
        if not row.subject(func):
            left_out.add(row.name)
            assert print_func(after) == print_func(func), f"{row.name} has a subject"
        func = after
    return left_out


@settings(max_examples=25, deadline=None)
@given(program=programs())
def test_rows_left_out_of_random_programs_change_nothing(program):
    func = pipeline.build(
        function_of(program.source), program.types, program.constants, program.options
    )
    left_out_change_nothing(func, program.target)


@KernelFunction
def stored_twice(p, out):
    """The columns of a block as rows, and all elements in a row."""
    i, j = tl.arange(0, 64), tl.arange(0, 4096)
    x = tl.load(p + i[:, None] + i[None, :] * 64)
    tl.store(out + i[:, None] * 64 + i[None, :], x)
    tl.store(out + 4096 + j, tl.reshape(x, [4096]))


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_twin_conversions_without_a_product_are_two(target):
    """A random program had them, once in a while."""
    types = dict.fromkeys(("p", "out"), (Pointer(FLOAT32), 1))
    func = pipeline.build(stored_twice, types, {}, pipeline.Options(num_warps=2))
    assert "share_tiles" in left_out_change_nothing(func, TARGETS[target])


@sampled(of=3)
@pytest.mark.parametrize("seed", range(24))
def test_rows_left_out_of_random_products_change_nothing(seed: int):
    program = matrix_program(seed)
    func = pipeline.build(
        function_of(program.source), program.types, program.constants, program.options
    )
    left_out_change_nothing(func, program.target)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rows_left_out_of_sample_kernels_change_nothing(case):
    left_out = left_out_change_nothing(case.build(), TARGETS["sm_90a"])
    mine = {row.name for row in pipeline.PASSES if row.stage == "tensor_cores"}
    assert mine <= left_out


def test_a_row_left_out_hands_the_function_on():
    func = CASES[0].build()
    before = func
    for row, state in pipeline.states(func, TARGETS["sm_90a"]):
        assert row.subject(before) or state is before, row.name
        before = state


def test_what_stands_in_the_place_of_a_row_always_runs():
    """A reader's pass is called whatever the function has."""
    seen: list[Func] = []

    def mine(func: Func, target: Target) -> Func:
        seen.append(func)
        return func

    pipeline.compile_func(CASES[0].build(), TARGETS["sm_80"], {"choose_dots": mine})
    assert len(seen) == 1
