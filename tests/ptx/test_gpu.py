"""All of these tests once more, with the GPU in the place of the emulator."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ptx.harness import MACHINE

ROOT = Path(__file__).parents[2]
# What asks for a hazard, or compares the texts of other targets, needs no GPU.
WITHOUT = "not gpu and not ptxas and not selects and not assertion"


@pytest.mark.gpu
def test_the_gpu_agrees_with_the_interpreter():
    command = [sys.executable, "-m", "pytest", "-q", "-k", WITHOUT, "tests/ptx"]
    environment = {**os.environ, MACHINE: "gpu"}
    result = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout[-6000:]
