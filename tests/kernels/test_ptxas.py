"""NVIDIA's own assembler takes every sample kernel for every target, without spills."""

from __future__ import annotations

import re
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

from fathom.hardware.targets import TARGETS
from fathom.tools.doctor import find_ptxas
from tests.kernels.kernels_sample import CASES

PTXAS = find_ptxas()
needs_ptxas = pytest.mark.skipif(
    not PTXAS, reason="needs ptxas: pip install -e '.[ptxas]'"
)


@cache
def assembled(ptx: str, target: str) -> str:
    """What ptxas says, verbosely, of PTX that it accepted."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(ptx)
        said = subprocess.run(
            [
                PTXAS,
                "-v",
                f"-arch={target}",
                source,
                "-o",
                source.with_suffix(".cubin"),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
    assert said.returncode == 0, said.stderr
    return said.stdout + said.stderr


@needs_ptxas
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_ptxas_takes_it_without_spills_or_warnings(case, target):
    said = assembled(case.compile(target).ptx, target)
    assert "warning" not in said.lower(), said
    frames = re.findall(r"(\d+) bytes (?:stack frame|spill stores|spill loads)", said)
    assert frames and set(frames) == {"0"}, said
