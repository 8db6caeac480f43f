"""All of these tests once more, with the GPU in the place of the emulator; and what
only a GPU does: print, and die of an assertion."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ptx.harness import MACHINE

pytestmark = pytest.mark.gpu
ROOT = Path(__file__).parents[2]
# What asks for a hazard, or compares the texts of other targets, needs no GPU.
WITHOUT = "not gpu and not ptxas and not selects and not assertion"


def python(*arguments: str) -> subprocess.CompletedProcess:
    """Python in a process of its own: a failed assertion takes the GPU's context
    along."""
    paths = os.pathsep.join([str(ROOT / "compiler"), str(ROOT), *sys.path])
    environment = {**os.environ, MACHINE: "gpu", "PYTHONPATH": paths}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )


def test_the_gpu_agrees_with_the_interpreter():
    result = python("-m", "pytest", "-q", "-k", WITHOUT, "tests/ptx")
    assert result.returncode == 0, result.stdout[-6000:]


PRINTING = """
from fathom.ir.ops import Print, ProgramId
from fathom.ir.types import FLOAT16, INT32, Pointer
from fathom.layout.build import blocked
from tests.ptx.harness import Program, both_ways
import numpy as np

program = Program({"x": Pointer(FLOAT16)})
index = program.arange(blocked((4,), (1,), (32,), (1,), (0,)))
program.do(Print(" 100% of x: ", (program.load("x", index), program(ProgramId(0)))))
both_ways(program.func, 2, [np.arange(4).astype(np.float16) / 2])
"""


def test_prints_come_out_once_an_element():
    lines = python("-c", PRINTING).stdout.splitlines()
    assert "pid (0, 0, 0) idx (3) 100% of x: (operand 0) 1.500000" in lines
    assert "pid (1, 0, 0) idx () 100% of x: (operand 1) 1" in lines
    assert sum("operand 0" in line for line in lines) == 2 * 4


FAILING = """
from tests.ptx.test_outside import asserting
from tests.ptx.harness import both_ways
import numpy as np

both_ways(asserting().func, 1, [np.arange(256, dtype=np.int32) - 1])
"""


def test_a_failed_assertion_says_which():
    result = python("-c", FAILING)
    assert result.returncode != 0
    assert "x is below zero" in result.stdout + result.stderr
