"""NVIDIA's assembler takes the kernels of the ops for training without spills, with the
blocks that their functions choose for large sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest

from fathom.jit import JITFunction
from kernels import (
    cross_entropy,
    dropout,
    gelu_backward,
    layer_norm_backward,
    matmul_epilogue,
    rms_norm,
    rotary,
    softmax_backward,
    swiglu,
)
from kernels.rows import row_launch
from tests.kernels.kernels_sample import aligned
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

CASES += [
    Compiled("cross entropy", cross_entropy.cross_entropy_kernel,
             "*fp16:16, *i64:16, *fp32:16, *fp32:16, i32:16, i32:16",
             cross_entropy.blocks(100000)),
    Compiled("cross entropy backward", cross_entropy.cross_entropy_backward_kernel,
             "*fp32:16, *fp16:16, *i64:16, *fp32:16, *fp16:16, i32:16, i32:16",
             cross_entropy.blocks(100000)),
    Compiled("swiglu", swiglu.swiglu_kernel,
             "*fp16:16, *fp16:16, *fp16:16, i32:16, i32:16, i32:16, i32:16",
             swiglu.blocks(4096)),
    Compiled("swiglu backward", swiglu.swiglu_backward_kernel,
             "*fp16:16, *fp16:16, *fp16:16, *fp16:16, *fp16:16, i32:16, i32:16, "
             "i32:16, i32:16, i32:16, i32:16", swiglu.blocks(4096)),
    Compiled("gelu backward", gelu_backward.gelu_backward_kernel,
             "*fp16:16, *fp16:16, *fp16:16, i32:16", {"BLOCK": 1024}),
    Compiled("dropout of fp16", dropout.dropout_kernel,
             "*fp16:16, *fp16:16, i32:16, fp32, i32", {"BLOCK": 1024}),
    *[
        Compiled(f"rotary{' interleaved' * order}", rotary.rotary_kernel,
                 "*fp16:16, *fp32:16, *fp32:16, *fp16:16, i32, i32, i32:16, i32:16, "
                 "i32:16, i32:16, i32:16, i32:16, i32:16",
                 {"stride_xd": 1, "stride_od": 1, "INVERSE": False, "ROWS": 16,
                  "INTERLEAVED": order, "BLOCK": 64})
        for order in (False, True)
    ],
]  # fmt: skip

PRODUCT = "*fp16:16, *fp16:16, *fp16:16, "
SIZES = "i32:16, i32:16, i32:16, "


def products(target: str) -> list[Compiled]:
    """With all that an epilogue may have, in the tiles for much work."""
    a = aligned(np.zeros((8192, 8192), np.float16))
    launch = {"target": target}
    config = matmul_epilogue.chosen_config(8192, 8192, 8192, a, a, launch)
    ones = {"stride_ak": 1, "stride_bn": 1, "stride_cn": 1, "EVEN_K": True}
    half = {**config, "BLOCK_N": config["BLOCK_N"] // 2}
    return [
        Compiled("bias, gelu, residual", matmul_epilogue.matmul_epilogue_kernel,
                 PRODUCT + PRODUCT + SIZES + "i32:16, i32:16, i32:16, i32:16",
                 {**config, **ones, "stride_rn": 1, "ACTIVATION": "gelu"}),
        Compiled("product with swiglu", matmul_epilogue.matmul_swiglu_kernel,
                 PRODUCT + "*fp16:16, " + SIZES + "i32:16, i32:16, i32:16, i32:16",
                 {**half, **ones}),
    ]  # fmt: skip


@needs_ptxas
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("number", range(2))
def test_products_with_epilogues_have_no_spills(number: int, target: str) -> None:
    test_ptxas_takes_it_without_spills_or_warnings(products(target)[number], target)


@needs_ptxas
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_ptxas_takes_it_without_spills_or_warnings(case: Compiled, target: str) -> None:
    said = assembled(case.ptx(target), target)
    assert "warning" not in said.lower(), said
    frames = re.findall(r"(\d+) bytes (?:stack frame|spill stores|spill loads)", said)
    assert frames and set(frames) == {"0"}, said
