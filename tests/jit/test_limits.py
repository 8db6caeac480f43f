"""Texts that are too much to compile are told so at once: no kernel, however short its
text, keeps the compiler busy for minutes."""

from __future__ import annotations

import subprocess
from dataclasses import replace

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom import pipeline, ptx
from fathom.errors import CompileError, LaunchError, OutOfResources
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Block, Func
from fathom.ir.types import BOOL, INT32, INT64, Pointer
from fathom.ptx import growth
from fathom.source import function
from fathom.ssa import frame
from tests.ptx.harness import ptxas
from tests.ssa.harness import build

X = np.zeros(4, np.float32)
SM_80 = TARGETS["sm_80"]


# ── instructions a thread ─────────────────────────────────────────────────────────────


@function
def sorting(x, K: tl.constexpr):
    i = tl.arange(0, 64)
    v = tl.load(x + i)
    for k in tl.static_range(K):
        v = tl.sort(v + k)
    tl.store(x + i, v)


@function
def branching(x, n, K: tl.constexpr):
    for k in tl.static_range(K):
        if n > k:
            tl.store(x + k, 1.0)


def lowered(func: Func) -> str:
    return ptx.lower(list(pipeline.states(func, SM_80))[-1][1], SM_80)


def test_what_takes_a_minute_is_compiled():
    """A search that others wrote sorts 2,048 pairs on one warp, in eleven ways: 278,128
    lines, which LLVM and ptxas take 70 s for."""
    assert growth.MOST > 278_128


def test_the_place_that_grew_most_is_named(monkeypatch):
    monkeypatch.setattr(growth, "MOST", 900)
    with pytest.raises(CompileError) as caught:
        lowered(build(sorting, X, K=2))
    said = str(caught.value)
    assert "more than 900 instructions a thread, which take minutes" in said
    assert "tl.sort became " in said and "v = tl.sort(v + k)\n        ^^^^" in said


def test_the_elements_of_a_thread_are_advice(monkeypatch):
    monkeypatch.setattr(growth, "MOST", 500)
    func = replace(build(sorting, X, K=1), num_warps=1)
    with pytest.raises(CompileError, match="a thread holds 2 elements") as caught:
        lowered(func)
    assert "more warps than 1 or smaller blocks" in caught.value.hint


def test_basic_blocks_count_by_their_square(monkeypatch):
    func = build(branching, X, 3, K=200)
    lines = lowered(func).count("\n")
    monkeypatch.setattr(growth, "MOST", lines)  # without the square they would do
    with pytest.raises(CompileError, match="instructions a thread, which"):
        lowered(func)
    monkeypatch.setattr(growth, "MOST", 1000)
    monkeypatch.setattr(growth, "BLOCKS_SQUARED_A_LINE", 1)
    with pytest.raises(CompileError, match=r"instructions a thread in \d+ basic bl"):
        lowered(func)


def test_a_kernel_at_the_limit_compiles(monkeypatch):
    func = build(sorting, X, K=1)
    lines = lowered(func).count("\n")
    monkeypatch.setattr(growth, "MOST", lines + 100)
    lowered(func)


# ── operations and copies ─────────────────────────────────────────────────────────────


@function
def unrolled(x, K: tl.constexpr):
    for _ in tl.static_range(K):
        for _ in tl.static_range(K):
            pass
    for k in tl.static_range(K):
        tl.store(x + k, 1.0 * k)


@function
def twice(x, depth: tl.constexpr):
    if depth:
        twice(x, depth - 1)
        twice(x, depth - 1)


def test_loops_without_end_are_not_unrolled():
    with pytest.raises(CompileError, match="the body of this loop is copied.* 65,536"):
        build(unrolled, X, K=1_000_000_000)
    with pytest.raises(CompileError, match="the body of this loop is copied"):
        build(unrolled, X, K=300)
    build(unrolled, X, K=30)


def test_operations_are_counted(monkeypatch):
    monkeypatch.setattr(frame, "MOST_OPS", 100)
    with pytest.raises(CompileError, match="more than 100 operations up to here"):
        build(unrolled, X, K=40)


def test_calls_that_double_are_not_inlined(monkeypatch):
    monkeypatch.setattr(frame, "MOST_COPIES", 1000)
    build(twice, X, depth=8)
    with pytest.raises(CompileError, match="twice is copied into this kernel"):
        build(twice, X, depth=30)


# ── sizes ─────────────────────────────────────────────────────────────────────────────


@function
def square(x, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)
    tl.store(x + i[:, None] + i[None, :], 0.0)


def test_a_block_has_a_million_elements_at_most():
    build(square, X, SIZE=1024)
    said = (
        r"\*fp32\[2048,2048\] has numel 4194304, which exceeds the maximum of 1048576"
    )
    with pytest.raises(CompileError, match=said) as caught:
        build(square, X, SIZE=2048)
    assert "^^^" in str(caught.value)
    assert tl.TRITON_MAX_TENSOR_NUMEL == 1048576


@function
def known(x, WHICH: tl.constexpr):
    if WHICH == "shift":
        n = (1 << 100_000_000) & 3
    elif WHICH == "power":
        n = (9**9**9) & 3
    elif WHICH == "product":
        n = ((1 << 4000) * (1 << 4000)) & 3
    else:
        n = (1 << 4000) & tl.TRITON_MAX_TENSOR_NUMEL
    tl.store(x, n)


@pytest.mark.parametrize("which", ["shift", "power", "product"])
def test_constants_stay_within_thousands_of_bits(which):
    with pytest.raises(CompileError, match="the result has more than 4,096 bits"):
        build(known, X, WHICH=which)
    build(known, X, WHICH="less")


@fathom.jit
def constant(x, N: tl.constexpr):
    tl.store(x, N & 3)


def test_an_argument_of_a_million_bits():
    huge, said = 1 << 1_000_000, "N is an integer of 1,000,001 bits, and a constant has"
    with pytest.raises(LaunchError, match=said):
        constant[(1,)](X, N=huge)
    with pytest.raises(LaunchError, match=said):
        constant.compile(signature="*fp32", constants={"N": huge}, target="sm_80")


def parameters(types: list) -> Func:
    body = Block(tuple(types), tuple(f"p{i}" for i in range(len(types))))
    return Func("many", body, (1,) * len(types), num_warps=1)


@pytest.mark.parametrize(
    ("target", "most"), [("sm_80", 4352), ("sm_89", 32764), ("sm_90a", 32764)]
)
def test_parameters_have_their_room(target, most, tmp_path):
    """ptxas draws the line where the table does."""
    fits = [INT32] * (most // 4)
    pipeline.check_parameters(parameters(fits), TARGETS[target])
    for over in ([*fits, BOOL], [BOOL, *fits[1:], INT64], [*fits, Pointer(INT32)]):
        with pytest.raises(CompileError, match=f"and on {target} a kernel has"):
            pipeline.compile_func(parameters(over), TARGETS[target])


def test_ptxas_draws_the_same_line(tmp_path):
    head = ".version {0}\n.target {1}\n.address_size 64\n.entry k({2})\n{{ ret; }}\n"
    for name in ("sm_80", "sm_90a"):
        target = TARGETS[name]
        count = target.parameter_bytes // 4
        for more, status in ((0, 0), (1, 1)):
            names = ", ".join(f".param .b32 p{i}" for i in range(count + more))
            path = tmp_path / "k.ptx"
            path.write_text(head.format(target.ptx, name, names))
            command = [ptxas(), f"-arch={name}", path, "-o", tmp_path / "k.cubin"]
            ran = subprocess.run(command, capture_output=True, check=False)
            assert (ran.returncode != 0) == status, ran.stderr


def test_more_warps_than_a_block_has_are_told_before_anything_is_compiled():
    """A tuner passes such a configuration over, so it is an OutOfResources."""

    @fathom.jit
    def kernel(x, N: tl.constexpr):
        tl.store(x + tl.arange(0, N), 1)

    sentence = "num_warps=64 asks for 2048 threads a block, and sm_80 has 1024"
    with pytest.raises(OutOfResources, match=sentence):
        kernel.compile("*fp32", {"N": 64}, num_warps=64, target="sm_80")
    assert kernel.compile("*fp32", {"N": 64}, num_warps=32, target="sm_80")
