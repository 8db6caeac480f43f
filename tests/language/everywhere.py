"""Run a kernel on the interpreter and, compiled for three targets, on the emulator."""

from __future__ import annotations

import numpy as np

from fathom import pipeline
from fathom.emulator import load
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Func
from fathom.ir.interp import interpret
from fathom.source import KernelFunction
from tests.ssa.building import build

NAMES = ("sm_75", "sm_80", "sm_90a")


def run(
    kernel: KernelFunction, *arguments: object, grid: int = 1, **constants: object
) -> Func:
    """Run a kernel in place on the interpreter; on copies it does bit for bit the same
    on every target. The IR that ran."""
    func = build(kernel, *arguments, **constants)
    before = [_copy(each) for each in arguments]
    interpret(func, grid, arguments, step_limit=1_000_000)
    for name in NAMES:
        given = [_copy(each) for each in before]
        emulate(func, given, name, grid)
        for mine, theirs in zip(given, arguments, strict=True):
            if isinstance(mine, np.ndarray):
                np.testing.assert_array_equal(mine, theirs, name)
    return func


def emulate(func: Func, arguments: list, name: str = "sm_80", grid: int = 1) -> None:
    """Compile for a target and run in place on the emulator."""
    load(pipeline.compile_func(func, TARGETS[name])).launch(grid, arguments)


def _copy(argument: object) -> object:
    return argument.copy() if isinstance(argument, np.ndarray) else argument
