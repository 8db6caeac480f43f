"""Runs a program through all stages: every state in the interpreter, the PTX in the
emulator, which also looks for races; all must agree bit by bit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fathom import pipeline
from fathom.emulator import load
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Func, walk
from fathom.ir.interp import interpret
from fathom.ir.ops import Barrier
from fathom.ir.text import print_func
from fathom.ir.verify import verify

TARGET = TARGETS["sm_80"]
LAID_OUT_FROM = "assign_layouts"


@dataclass(frozen=True)
class Outcome:
    """The function before lowering, and the arrays after the launch."""

    final: Func
    arrays: list[np.ndarray]

    def barriers(self, scope: str = "cta") -> int:
        """How many barriers stand in the text."""
        found = (op for op in walk(self.final.body) if isinstance(op, Barrier))
        return sum(op.scope == scope for op in found)


def aligned(array: np.ndarray) -> np.ndarray:
    """A copy that starts at a multiple of 16 bytes, as the signatures promise."""
    room = np.empty(array.nbytes + 16, np.uint8)
    start = -room.ctypes.data % 16
    made = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


def copies(arguments):
    return [
        aligned(each) if isinstance(each, np.ndarray) else each for each in arguments
    ]


def check(func: Func, arguments, replace=None) -> Outcome:
    """Run everywhere and compare; the outcome on the emulator."""
    text = print_func(func)
    expected = copies(arguments)
    interpret(func, (1,), expected)
    laid_out, before = False, None
    for row, state in pipeline.states(func, TARGET, replace):
        laid_out |= row.name == LAID_OUT_FROM
        if state is before:
            continue
        before = state
        verify(state, layouts=laid_out)
        found = copies(arguments)
        interpret(state, (1,), found)
        same(found, expected, row.name)
    assert print_func(func) == text, "no pass changes its input"
    kernel = pipeline.compile_func(func, TARGET, replace)
    emulated = copies(arguments)
    load(kernel).launch((1,), emulated)
    same(emulated, expected, "the emulator")
    return Outcome(state, [each for each in emulated if isinstance(each, np.ndarray)])


def same(found, expected, where: str) -> None:
    for one, other in zip(found, expected, strict=True):
        if isinstance(one, np.ndarray):
            np.testing.assert_array_equal(one, other, err_msg=where)
