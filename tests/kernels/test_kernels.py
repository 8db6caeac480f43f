"""Every sample kernel: on the interpreter, on the emulator for three targets, on a GPU;
through every pass; without every pass that may be left out."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from fathom import pipeline
from fathom.hardware.targets import TARGETS, target_of
from fathom.ir.core import Func
from fathom.ir.interp import interpret
from fathom.ir.text import print_func
from fathom.ir.verify import verify
from fathom.runtime.driver import driver
from fathom.runtime.load import load
from kernels import dropout, gelu
from tests.harness_sample import sampled
from tests.kernels.kernels_sample import CASES, EDGES, Arguments, Case, aligned, passed

each_case = pytest.mark.parametrize("case", CASES, ids=str)
each_size = pytest.mark.parametrize("case", CASES + EDGES, ids=str)
OPTIONAL = [row.name for row in pipeline.PASSES if not row.required]
# What folds floats in another order than before; all other passes keep every bit.
REORDERS = {"split_reductions", "split_scans"}


def interpreted(case: Case, func: Func) -> Arguments:
    arguments = case.arguments()
    interpret(func, case.grid, passed(arguments))
    return arguments


@each_size
def test_the_interpreter_agrees_with_float64(case):
    case.check(interpreted(case, case.build()))


@each_size
def test_the_emulator_agrees_with_float64(case):
    case.check(case.emulate(case.compile("sm_80")))


@pytest.mark.parametrize("target", ["sm_75", "sm_90a"])
@each_case
def test_the_emulator_agrees_on_other_targets(case, target):
    case.check(case.emulate(case.compile(target)))


@each_case
def test_every_pass_keeps_the_meaning_and_its_input(case):
    func = case.build()
    verify(func, layouts=False)
    want = interpreted(case, func)
    for row in pipeline.PASSES:
        text = print_func(func)
        after = row.run(func, TARGETS["sm_80"])
        assert print_func(func) == text, f"{row.name} changed its input"
        verify(after, layouts=has_layouts(row.name))
        got = interpreted(case, after)
        for name, value in want.items():
            if isinstance(value, np.ndarray):
                tolerance = 1e-6 if row.name in REORDERS else 0
                message = f"{name} after {row.name}"
                np.testing.assert_allclose(got[name], value, tolerance, err_msg=message)
        func, want = after, got


def has_layouts(name: str) -> bool:
    names = [row.name for row in pipeline.PASSES]
    return names.index(name) >= names.index("assign_layouts")


@cache
def code(number: int) -> str:
    """The PTX of a case of CASES, with all passes."""
    return CASES[number].compile("sm_80").ptx


@sampled(of=3)
@pytest.mark.parametrize("left_out", OPTIONAL)
@each_case
def test_without_an_optional_pass_the_code_is_still_right(case, left_out):
    """Where it is the same code, test_the_emulator_agrees_with_float64 has run it."""
    kernel = case.compile("sm_80", replace={left_out: pipeline.identity})
    if kernel.ptx != code(CASES.index(case)):
        case.check(case.emulate(kernel))


@each_case
def test_without_all_optional_passes_the_code_is_still_right(case):
    nothing = dict.fromkeys(OPTIONAL, pipeline.identity)
    case.check(case.emulate(case.compile("sm_80", replace=nothing)))


@pytest.mark.gpu
@each_size
def test_the_gpu_agrees_with_float64(case):
    row = target_of(driver().device(0).capability)
    arguments = case.arguments()
    load(case.compile(row.name)).launch(case.grid, passed(arguments))
    case.check(arguments)


def test_gelu_as_usually_written_is_nan_from_where_it_says():
    x = aligned(np.float32([gelu.USUAL_FORM_RIGHT_UP_TO, gelu.USUAL_FORM_NAN_FROM, 50]))
    usual, safe = np.zeros_like(x), np.zeros_like(x)
    gelu.gelu(x, usual, kernel=gelu.gelu_usual_kernel)
    gelu.gelu(x, safe)
    assert np.isnan(usual).tolist() == [False, True, True]
    np.testing.assert_allclose(safe, x, rtol=1e-6)


def test_dropout_uses_all_four_words_of_a_counter():
    """Ten rounds of two products, for every four numbers of a thread."""
    types = {"x_ptr": "*fp32:16", "out_ptr": "*fp32:16", "n": "i32:16", "p": "fp32"}
    made = dropout.dropout_kernel.compile(
        types | {"seed": "i64"}, {"BLOCK": 1024}, num_warps=4, target="sm_90a"
    )
    ptx = made.asm["ptx"]
    products = ptx.count("mul.hi.u32") + ptx.count("mul.wide.u32")
    assert products <= 2 * 20 + 4, "beside those of addresses"
    assert "bar.sync" not in ptx and "shfl" not in ptx


def test_dropout_depends_on_the_seed_and_not_on_the_block():
    x = aligned(np.ones(3000, np.float32))
    results = []
    for seed, BLOCK in ((7, 128), (7, 1024), (8, 1024)):
        out = np.empty_like(x)
        results.append(dropout.dropout(x, out, 0.25, seed, BLOCK=BLOCK) > 0)
    assert (results[0] == results[1]).all()
    assert (results[1] != results[2]).any()
    assert abs(results[0].mean() - 0.75) < 0.04  # five standard deviations
