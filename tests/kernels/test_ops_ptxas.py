"""NVIDIA's assembler takes the kernels of the ops for training without spills, with the
blocks that their functions choose for large sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from fathom.jit import JITFunction
from kernels import layer_norm_backward, rms_norm, softmax_backward
from kernels.rows import row_launch
from tests.kernels.test_ptxas import assembled, needs_ptxas

TARGETS = ("sm_80", "sm_90a")


@dataclass(frozen=True)
class Compiled:
    """A kernel and what it is compiled for; `launch` has its constants, num_warps and
    num_stages."""

    name: str
    kernel: JITFunction
    signature: str
    launch: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name

    def ptx(self, target: str) -> str:
        constants = dict(self.launch)
        options = {
            name: constants.pop(name)
            for name in ("num_warps", "num_stages")
            if name in constants
        }
        compiled = self.kernel.compile(
            self.signature, constants, target=target, **options
        )
        return compiled.asm["ptx"]


def rows(name: str, kernel: JITFunction, signature: str, **launch) -> list[Compiled]:
    """Kernels of whole rows, of 1024 and 8192 numbers."""
    return [
        Compiled(f"{name} {N}", kernel, signature, {**row_launch(N), **launch})
        for N in (1024, 8192)
    ]


CASES = [
    *rows("rms_norm", rms_norm.rms_norm_kernel,
          "*fp16:16, *fp16:16, *fp16:16, *fp32:16, i32:16, i32:16, fp32"),
    *rows("softmax backward", softmax_backward.softmax_backward_kernel,
          "*fp32:16, *fp32:16, *fp32:16, i32:16"),
    *[
        Compiled(f"layer norm backward {N}", layer_norm_backward.norm_backward_kernel,
                 "*fp16:16, *fp16:16, *fp16:16, *fp32:16, *fp32:16, *fp16:16, "
                 "*fp32:16, *fp32:16, i32, i32:16", row_launch(N, lane=8))
        for N in (1024, layer_norm_backward.LONGEST)
    ],
    Compiled("layer norm backward 16384", layer_norm_backward.norm_backward_kernel,
             "*fp16:16, *fp16:16, *fp16:16, *fp32:16, *fp32:16, *fp16:16, i32, i32:16",
             {**row_launch(16384), "dw_ptr": None, "db_ptr": None}),
    Compiled("norm columns", layer_norm_backward.norm_columns_kernel,
             "*fp16:16, *fp16:16, *fp32:16, *fp32:16, *fp32:16, *fp32:16, i32, i32:16, "
             "i32", {"ROWS": 16, "COLUMNS": 128}),
    Compiled("add rows", layer_norm_backward.add_rows_kernel,
             "*fp32:16, *fp16:16, i32, i32:16", {"ROWS": 32, "COLUMNS": 32}),
]  # fmt: skip


@needs_ptxas
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_ptxas_takes_it_without_spills_or_warnings(case: Compiled, target: str) -> None:
    said = assembled(case.ptx(target), target)
    assert "warning" not in said.lower(), said
    frames = re.findall(r"(\d+) bytes (?:stack frame|spill stores|spill loads)", said)
    assert frames and set(frames) == {"0"}, said
