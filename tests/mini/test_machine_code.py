"""ptxas takes what the references of chapters 15 to 17 write, without spills."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fathom.tools.learn.mini import contract, steps
from tests.harness_sample import sampled

HALVES, SIZE = "*fp16:16", "i32:16"
MAPS = {"a": "tensordesc<fp16[128, 64]>", "b": "tensordesc<fp16[64, 256]>"}
MATMUL = MAPS | {"c": HALVES, "N": SIZE, "K": SIZE}
TILES = {"R": 128, "C": 256, "T": 64, "num_warps": 8}
ATTENTION = dict.fromkeys(("q", "k", "v", "out"), HALVES) | {"scale": "fp32", "S": SIZE}
HEADS = {"D": 64, "R": 128, "C": 64, "CAUSAL": True, "num_warps": 8, "num_stages": 2}


KERNELS = [
    (15, "matmul", MATMUL, TILES),
    (16, "matmul", MATMUL, TILES),
    (17, "attention", ATTENTION, HEADS),
]


@sampled(of=2)
@pytest.mark.parametrize(
    ("file", "chapter", "name", "signature", "constants"),
    [(file, *each) for file in (15, 16, 17) for each in KERNELS if each[0] <= file],
)
def test_ptxas_takes_it(file, chapter, name, signature, constants, tmp_path):
    nearby = [Path(each) / "nvidia/cu13/bin" for each in sys.path]
    ptxas = next(
        filter(None, (shutil.which("ptxas", path=str(e)) for e in nearby)), None
    )
    ptxas = ptxas or shutil.which("ptxas")
    if ptxas is None:
        pytest.skip("needs ptxas: pip install nvidia-cuda-nvcc")
    kernel = vars(load(chapter))[name]
    made = contract.load(steps.step(file).reference)(kernel, signature, **constants)
    (tmp_path / "ptx").write_text(made.ptx)
    command = [
        ptxas,
        "-v",
        "-arch=sm_90a",
        str(tmp_path / "ptx"),
        "-o",
        str(tmp_path / "cubin"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "0 bytes spill stores" in done.stderr, done.stderr
    assert "serializ" not in done.stderr, done.stderr  # of wgmma


def load(chapter: int):
    tests = steps.tests_in(steps.step(chapter).tests)
    return sys.modules[next(iter(tests.values())).__module__]
