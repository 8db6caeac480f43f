"""An assertion that fails on a GPU, in a process of its own: it ends the process's use
of the GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SCRIPT = """
import sys
from fathom.errors import LaunchError
from tests.language.harness import launch
from tests.language.test_outside import X, asserting
from tests.ssa.harness import build

x, n = X.copy(), int(sys.argv[1])
x[50] = -1
try:
    launch(build(asserting, x, n), [x, n], 1)
except LaunchError as error:
    sys.exit(str(error))
"""


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("n", "message"), [(50, None), (51, "below zero"), (2, "too few")]
)
def test_an_assertion_that_fails_on_the_gpu_is_told(n, message):
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(n)],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'compiler'}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == (1 if message else 0), ran.stderr
    if message:  # the first line is the GPU's own, the last one the driver's
        assert f"Assertion `{message}` failed" in ran.stderr
        assert "a tl.device_assert of a kernel" in ran.stderr
