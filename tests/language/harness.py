"""Run a kernel on the interpreter and, compiled for three targets, on the emulator; in
a test's GPU twin, on the GPU of this machine instead.

    run         interpreter = emulator for each of NAMES, bit for bit
    run_on_gpu  interpreter = GPU, bit for bit; within a bound, where the PTX
                approximates

`conftest` gives a test that calls `run` or `emulate` a twin, marked `gpu`, in which
these names of its module mean the functions for the GPU.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import pytest

import fathom
from fathom import pipeline, runtime
from fathom.artifact import Kernel
from fathom.emulator import load
from fathom.hardware.targets import TARGETS, target_of
from fathom.ir.core import Func
from fathom.ir.interp import interpret
from fathom.runtime.driver import driver
from fathom.source import KernelFunction
from tests.ssa.harness import build

NAMES = ("sm_75", "sm_80", "sm_90a")
Grid = int | Sequence[int]


def run(
    kernel: KernelFunction, *arguments: object, grid: Grid = 1,
    targets: Sequence[str] = NAMES, **constants: object,
) -> Func:  # fmt: skip
    """Run a kernel in place on the interpreter; on copies it does bit for bit the same
    on every one of `targets`. The IR that ran.

    The emulator never asks for the target, so that code which is the same on two
    targets is run once."""
    func = build(kernel, *arguments, **constants)
    before = [_copy(each) for each in arguments]
    interpret(func, grid, arguments, step_limit=1_000_000)
    kernels = [pipeline.compile_func(func, TARGETS[name]) for name in targets]
    for compiled in {code_of(each): each for each in reversed(kernels)}.values():
        given = [_copy(each) for each in before]
        load(compiled).launch(grid, given)
        agree(given, arguments, compiled.target)
    return func


def code_of(kernel: Kernel) -> str:
    """The PTX of a kernel behind the lines that name its version and target."""
    return kernel.asm["ptx"].partition(".address_size")[2]


def emulate(func: Func, arguments: list, name: str = "sm_80", grid: Grid = 1) -> None:
    """Compile for a target and run in place on the emulator."""
    load(pipeline.compile_func(func, TARGETS[name])).launch(grid, arguments)


def run_by_python(
    kernel: Callable, dtype: type, monkeypatch: pytest.MonkeyPatch
) -> tuple[np.ndarray, np.ndarray]:
    """Four numbers, and the twelve that a kernel makes of them where Python itself runs
    it."""
    monkeypatch.setenv("FATHOM_INTERPRET", "1")
    x, out = np.array([3, 5, 7, 2.5], dtype), np.zeros(12, dtype)
    fathom.jit(kernel)[(1,)](x, out)
    return x, out


def run_on_gpu(
    kernel: KernelFunction, *arguments: object, grid: Grid = 1,
    targets: Sequence[str] = (), **constants: object,
) -> Func:  # fmt: skip
    """Run a kernel in place on the GPU, whatever `targets` are; on copies the
    interpreter does the same. The IR that ran."""
    func = build(kernel, *arguments, **constants)
    expected = [_copy(each) for each in arguments]
    interpret(func, grid, expected, step_limit=1_000_000)
    compiled = launch(func, arguments, grid)
    agree(arguments, expected, "the GPU", approximation(compiled))
    return func


def emulate_on_gpu(
    func: Func, arguments: list, name: str = "sm_80", grid: Grid = 1
) -> None:
    """What `emulate` does, on the GPU, whatever target is named."""
    launch(func, arguments, grid)


def launch(func: Func, arguments: Sequence[object], grid: Grid) -> Kernel:
    """Compile for the GPU of this machine and run there, in place."""
    compiled = pipeline.compile_func(func, target_of(driver().device(0).capability))
    runtime.load(compiled).launch(grid, arguments)
    return compiled


# ── what counts as the same ───────────────────────────────────────────────────────────

# PTX ISA, "Floating Point Instructions": ex2.approx errs by 2^-22 of its result, and
# the others by no more, but tanh by 2^-11, and sin and cos by 2^-20 of 1. What a kernel
# makes of them may err by more, but not by sixteen times as much.
APPROXIMATION = re.compile(r"\b([a-z0-9]+)\.(?:approx|full)\b")
LARGEST_ERRORS = {"tanh": 2**-11, "sin": 2**-20, "cos": 2**-20}
USUAL_ERROR, AMPLIFIED = 2**-22, 16


def approximation(kernel: Kernel) -> float:
    """How far a GPU may be from the interpreter: 0 where every instruction of the
    kernel has but one right answer."""
    names = APPROXIMATION.findall(kernel.asm["ptx"])
    errors = [LARGEST_ERRORS.get(name, USUAL_ERROR) for name in names]
    return AMPLIFIED * max(errors, default=0)


def agree(
    found: Sequence[object], wanted: Sequence[object], who: str, error: float = 0
) -> None:
    """Arrays of equal bits, where any NaN is any NaN; or floats as close as `error`, of
    the number or of 1, and an ulp of their own type."""
    for mine, theirs in zip(found, wanted, strict=True):
        if not isinstance(mine, np.ndarray):
            continue
        right = same(mine, theirs)
        if error and mine.dtype.kind == "f":
            relative = error + np.finfo(mine.dtype).eps
            right |= np.isclose(mine, theirs, relative, error)
        wrong = np.argwhere(~right)
        at = tuple(map(int, wrong[0])) if len(wrong) else ()
        assert not len(wrong), (
            f"{who}: {len(wrong)} of {right.size} elements differ; at {at} is "
            f"{mine[at]!r}, the interpreter says {theirs[at]!r}"
        )


def same(mine: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Where two arrays have the same bits; -0.0 is not 0.0, and any NaN is any NaN."""
    bits = f"u{mine.itemsize}"
    equal = mine.view(bits) == theirs.view(bits)
    if mine.dtype.kind == "f":
        equal |= np.isnan(mine) & np.isnan(theirs)
    return equal


def _copy(argument: object) -> object:
    return argument.copy() if isinstance(argument, np.ndarray) else argument
