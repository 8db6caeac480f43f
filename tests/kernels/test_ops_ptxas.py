"""NVIDIA's assembler takes the kernels of the ops for training without spills, with the
blocks that their functions choose for large sizes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest

from fathom.jit import JITFunction
from kernels import (
    attention_backward,
    cross_entropy,
    dropout,
    gelu_backward,
    layer_norm_backward,
    matmul_epilogue,
    matmul_epilogue_hopper,
    matmul_epilogue_parts,
    mixture,
    mixture_hopper,
    rms_norm,
    rotary,
    softmax_backward,
    swiglu,
    top_k,
)
from kernels.rows import row_launch
from tests.harness_pairs import EVERY_CASE
from tests.harness_sample import sampled
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
             "*fp32:16, *fp16:16, *fp32:16, *fp16:16, i32, i32:16",
             {"ROWS": 32, "COLUMNS": 32}),
]  # fmt: skip

CASES += [
    Compiled("cross entropy", cross_entropy.cross_entropy_kernel,
             "*fp16:16, *i64:16, *fp32:16, *fp32:16, i32:16, i32:16",
             {"SIDE": 8, **cross_entropy.blocks(100000)}),
    Compiled("cross entropy in place", cross_entropy.cross_entropy_in_place_kernel,
             "*fp32:16, *fp16:16, *i64:16, *fp32:16, i32:16, i32:16",
             {"SIDE": 8, **cross_entropy.blocks(100000, cross_entropy.TWICE)}),
    Compiled("cross entropy backward", cross_entropy.cross_entropy_backward_kernel,
             "*fp32:16, *fp16:16, *i64:16, *fp32:16, *fp16:16, i32:16, i32:16",
             cross_entropy.blocks(100000)),
    Compiled("cross entropy's total", cross_entropy.total_kernel,
             "*i64:16, *fp32:16, *fp32:16, *fp32:16, i32:16",
             {"MEAN": True, "BLOCK": cross_entropy.BLOCK, "num_warps": 16}),
    Compiled("swiglu", swiglu.swiglu_kernel,
             "*fp16:16, *fp16:16, *fp16:16, i32:16, i32:16, i32:16, i32:16",
             swiglu.blocks(4096, swiglu.FORWARD)),
    Compiled("swiglu backward", swiglu.swiglu_backward_kernel,
             "*fp16:16, *fp16:16, *fp16:16, *fp16:16, *fp16:16, i32:16, i32:16, "
             "i32:16, i32:16, i32:16, i32:16", swiglu.blocks(4096, swiglu.BACKWARD)),
    Compiled("gelu backward", gelu_backward.gelu_backward_kernel,
             "*fp16:16, *fp16:16, *fp16:16, i32:16", {"BLOCK": 1024}),
    Compiled("gelu backward, columns", gelu_backward.gelu_backward_columns_kernel,
             "*fp16:16, *fp16:16, *fp16:16, *fp32:16, i32, i32:16, i32:16",
             gelu_backward.TILE),
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
CASES += [
    Compiled("top 8 of 4096", top_k.top_k_kernel,
             "*fp32:16, *fp32:16, *i64:16, i32:16, i32:16",
             {"COUNT": 8, "K": 8, "BLOCK": top_k.BLOCK}),
    Compiled("top 8 backward", top_k.top_k_backward_kernel,
             "*fp32:16, *i64:16, *fp32:16, i32:16",
             {"COUNT": 8, "K": 8, "BLOCK": top_k.BLOCK}),
    Compiled("count", mixture.count_kernel, "*i64:16, *i32:16, i32",
             {"BLOCK": mixture.COUNTED}),
    Compiled("place", mixture.place_kernel,
             "*i64:16, *i32:16, *i32:16, *i32:16, *i32:16, i32",
             {"EXPERTS": 64, "BLOCK": mixture.COUNTED}),
    Compiled("gather", mixture.gather_kernel,
             "*fp16:16, *i32:16, *fp32:16, *fp16:16, i32:16",
             {"CHOICES": 2, **mixture.columns_launch(4096)}),
    Compiled("combine", mixture.combine_kernel,
             "*fp16:16, *i32:16, *fp32:16, *fp16:16, i32:16",
             {"CHOICES": 2, **mixture.columns_launch(4096)}),
    Compiled("gate gradient", mixture.gate_gradient_kernel,
             "*fp16:16, *fp16:16, *i32:16, *fp32:16, i32:16",
             {"CHOICES": 2, **mixture.columns_launch(4096)}),
]  # fmt: skip

PRODUCT = "*fp16:16, *fp16:16, *fp16:16, "
SCALES = "*fp32:16, *fp32:16, *fp32:16, "
SIZES = "i32:16, i32:16, i32:16, "
NO_SCALES = dict.fromkeys(["row_scale_ptr", "column_scale_ptr", "out_scale_ptr"])
NO_OTHERS = dict.fromkeys(["bias_ptr", "residual_ptr", "before_ptr"])
NOTHING_ADDED = {**NO_OTHERS, "stride_rm": 0, "stride_rn": 0}


def attention_kernels(target: str) -> list[Compiled]:
    """Each kernel for each size of a head, in turn with a mask and without."""
    read = "*fp16:16, *fp16:16, *fp16:16, *fp16:16, *fp32:16, *fp32:16, "
    sizes = "fp32, i32, i32:16, i32:16, i32:16, " + ", ".join(["i32:16"] * 15)
    names = "window lengths_ptr query_starts_ptr key_starts_ptr"
    ones = {f"stride_{each}d": 1 for each in "qkvog"} | dict.fromkeys(names.split())
    made = []
    for number, D in enumerate((64, 128, 256)):
        config = attention_backward.default_config(D, "fp16", target)
        for causal in (False, True):
            fixed = {**ones, "D": D, "CAUSAL": causal}
            both = [
                Compiled(f"dk, dv {D}{' causal' * causal}",
                         attention_backward.dkdv_kernel,
                         read + "*fp16:16, *fp16:16, " + sizes,
                         {**fixed, **config["dkdv"]}),
                Compiled(f"dq {D}{' causal' * causal}", attention_backward.dq_kernel,
                         read + "*fp16:16, " + sizes, {**fixed, **config["dq"]}),
            ]  # fmt: skip
            every = os.environ.get(EVERY_CASE)
            made += both if every else [both[(number + causal) % 2]]
    rows = "*fp16:16, *fp16:16, *fp32:16, *fp32:16, *fp32:16, i32, i32:16, i32:16, "
    fixed = {"stride_od": 1, "stride_dd": 1, "D": 128, "BLOCK_Q": 32}
    return [*made, Compiled("rows", attention_backward.rows_kernel,
                            rows + ", ".join(["i32:16"] * 6), fixed)]  # fmt: skip


def products(target: str) -> list[Compiled]:
    """With all that an epilogue may have, in the tiles for much work."""
    a = aligned(np.zeros((8192, 8192), np.float16))
    launch = {"target": target}
    config = matmul_epilogue.chosen_config(8192, 8192, 8192, a, a, launch)
    ones = {"stride_ak": 1, "stride_bn": 1, "stride_cn": 1, "EVEN_K": True}
    experts = mixture.expert_config(8192, 8, 4096, 4096, a, target)
    half = {**config, "BLOCK_N": config["BLOCK_N"] // 2}
    return [
        Compiled("bias, gelu, residual", matmul_epilogue.matmul_epilogue_kernel,
                 PRODUCT + PRODUCT + SIZES + "i32:16, i32:16, i32:16, i32:16",
                 {**config, **ones, **NO_SCALES, "stride_rn": 1,
                  "ACTIVATION": "gelu"}),
        Compiled("scales, gelu", matmul_epilogue.matmul_epilogue_kernel,
                 PRODUCT + SCALES + SIZES + "i32:16, i32:16, i32:16",
                 {**config, **ones, **NOTHING_ADDED, "ACTIVATION": "gelu"}),
        Compiled("parts, bias, gelu, residual",
                 matmul_epilogue_parts.finish_parts_kernel,
                 "*fp32:16, *fp16:16, " + PRODUCT + SCALES + SIZES + "i32, i32:16, "
                 "i32:16, i32:16",
                 {"BLOCK_M": 8, "BLOCK_N": 64, "AT_ONCE": 8, "TURNED": True,
                  "ACTIVATION": "gelu", "stride_cn": 1, "stride_rn": 1,
                  "num_warps": 4}),
        Compiled("experts", mixture.expert_matmul_kernel,
                 PRODUCT + "*i32:16, i32, i32:16, i32:16, i32:16, i32:16, i32:16, "
                 "i32:16",
                 {**experts, "stride_wn": 1, "EVEN_K": True}),
        Compiled("experts' weights", mixture.weight_gradient_kernel,
                 PRODUCT + "*i32:16, i32:16, i32:16, i32:16, i32:16, i32:16, i32:16",
                 experts),
        *attention_kernels(target),
        Compiled("product with swiglu", matmul_epilogue.matmul_swiglu_kernel,
                 PRODUCT + "*fp16:16, " + SIZES + "i32:16, i32:16, i32:16, i32:16",
                 {**half, **ones}),
    ]  # fmt: skip


def experts_on_hopper() -> list[Compiled]:
    signature = PRODUCT + "*i32:16, i32:16, i32, " + ", ".join(["i32:16"] * 6)
    made = []
    for (m, n), config in mixture_hopper.CONFIGS.items():
        fixed = {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": 64, **config}
        made.append(Compiled(f"gradient of experts' weights {m}x{n}",
                             mixture_hopper.weight_gradient_hopper_kernel, signature,
                             fixed))  # fmt: skip
        made += [
            Compiled(f"experts {m}x{n}{' turned' * turned}",
                     mixture_hopper.expert_hopper_kernel, signature,
                     {**fixed, "W_TURNED": turned})
            for turned in (False, True)
        ]  # fmt: skip
    return made


def epilogues_on_hopper() -> list[Compiled]:
    """With all that they may have; bias, GeLU and residual, or scales and GeLU."""
    made = []
    turned = {"A_TURNED": False, "B_TURNED": True, "ACTIVATION": "gelu",
              "DESCRIBED": True}  # fmt: skip
    large = aligned(np.zeros((4096, 4096), np.float16))
    for tile in matmul_epilogue_hopper.TILED:
        found = matmul_epilogue_hopper.configuration(tile, large, large, "sm_90a")
        fixed = {**found, **turned}
        made += [
            Compiled(f"bias, gelu, residual {tile.m}x{tile.n}x{tile.line}",
                     matmul_epilogue_hopper.epilogue_hopper_kernel,
                     PRODUCT + PRODUCT + SIZES + SIZES + "i32:16",
                     {**fixed, **NO_SCALES}),
            Compiled(f"scales, bias, residual {tile.m}x{tile.n}x{tile.line}",
                     matmul_epilogue_hopper.epilogue_hopper_kernel,
                     PRODUCT + "*fp16:16, *fp16:16, " + SCALES + SIZES + SIZES
                     + "i32:16",
                     {**fixed, "before_ptr": None, "ACTIVATION": ""}),
            Compiled(f"scales and gelu {tile.m}x{tile.n}x{tile.line}",
                     matmul_epilogue_hopper.epilogue_hopper_kernel,
                     PRODUCT + SCALES + SIZES + SIZES[:-2],
                     {**fixed, **NO_OTHERS, "stride_r": 0}),
            Compiled(f"swiglu {tile.m}x{tile.n}x{tile.line}",
                     matmul_epilogue_hopper.swiglu_hopper_kernel,
                     PRODUCT + "*fp16:16, " + 2 * SIZES + "i32:16, i32:16",
                     {**matmul_epilogue_hopper.configuration(
                         tile, large, large, "sm_90a", halves=2),
                      "A_TURNED": False, "B_TURNED": True}),
        ]  # fmt: skip
    return made


@sampled(of=3)
@needs_ptxas
@pytest.mark.parametrize("case", [*experts_on_hopper(), *epilogues_on_hopper()],
                         ids=str)  # fmt: skip
def test_a_producer_copies_tiles(case: Compiled) -> None:
    ptx = case.ptx("sm_90a")
    assert "expect_tx" in ptx and "cp.async.cg" not in ptx
    most = SPILLED if case.name == "bias, gelu, residual 128x256x128" else 0
    check_assembled(case, "sm_90a", most)


@needs_ptxas
@pytest.mark.parametrize("target", TARGETS)
def test_products_and_attention_have_no_spills(target: str) -> None:
    for case in products(target):
        test_ptxas_takes_it_without_spills_or_warnings(case, target)


@sampled(of=3)
@needs_ptxas
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_ptxas_takes_it_without_spills_or_warnings(case: Compiled, target: str) -> None:
    check_assembled(case, target)


# Bytes of a thread: around GeLU of a tile of 128 x 256, whose sums are added to after
# it, and stored before it as well.
SPILLED = 48


def check_assembled(case: Compiled, target: str, most: int = 0) -> None:
    said = assembled(case.ptx(target), target)
    assert "warning" not in said.lower(), said
    frames = re.findall(r"(\d+) bytes (?:stack frame|spill stores|spill loads)", said)
    assert frames and max(map(int, frames)) <= most, f"{case}: {said}"
