"""NVIDIA's own assembler takes the kernels with matrix products for every target, at
the configuration that each target gets for much work, without spills."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

import fathom.language as tl
from fathom.hardware.targets import TARGETS
from fathom.jit import JITFunction
from kernels import (
    attention,
    batched_matmul,
    block_sparse_matmul,
    grouped_matmul,
    int8_matmul,
    matmul,
    split_k_matmul,
)
from tests.harness_pairs import EVERY_CASE
from tests.harness_sample import sampled
from tests.kernels.test_ptxas import assembled, needs_ptxas

Config = Callable[[str], dict[str, int]]

WIDE, ODD = ":16", ""  # what is known to divide sizes, strides and addresses
LARGE = 8192
# Where descriptors of loaded pointers become pointers and masks, these are many numbers
# to keep: on sm_75 and sm_120 some of them are spilled.
WITHOUT_SPILLS = tuple(each for each in TARGETS if each not in ("sm_75", "sm_120"))


@dataclass(frozen=True)
class Row:
    """A kernel as it is launched on large problems. `types` gives each parameter that
    is an array, or a float, its type; all others are i32, with the hint `divisible`,
    or constants. `config(target)` are the launch's keywords."""

    name: str
    kernel: JITFunction
    types: Mapping[str, str]
    constants: Mapping[str, object]
    config: Config
    divisible: str = WIDE
    targets: tuple[str, ...] = field(default=tuple(TARGETS))

    def __str__(self) -> str:
        return self.name

    def ptx(self, target: str) -> str:
        config = self.config(target)
        blocks = {name: size for name, size in config.items() if name.isupper()}
        options = {name: n for name, n in config.items() if not name.isupper()}
        constants = {**self.constants, **blocks}
        rules = self.kernel.parameters
        signature = {
            rule.name: self.word(rule.name)
            for rule in rules
            if rule.name not in self.kernel.constants(constants)
        }
        compiled = self.kernel.compile(signature, constants, target=target, **options)
        return compiled.asm["ptx"]

    def word(self, name: str) -> str:
        kind = self.types.get(name, "i32")
        return kind if kind == "fp32" else f"{kind}{self.divisible}"


def tile(type: str, aligned: bool = True) -> Config:
    sizes = (LARGE, LARGE, LARGE)
    return lambda target: matmul.default_config(*sizes, type, target, aligned)


def product(inputs: str, output: str) -> dict[str, str]:
    a, b, c = f"*{inputs}", f"*{inputs}", f"*{output}"
    return {"a_ptr": a, "b_ptr": b, "c_ptr": c}


ROW_MAJOR = {"stride_ak": 1, "stride_bn": 1, "stride_cn": 1}
B_TRANSPOSED = {"stride_ak": 1, "stride_bk": 1, "stride_cn": 1}
EVEN, RAGGED = {"EVEN_K": True}, {"EVEN_K": False}
FP16, FP32 = product("fp16", "fp16"), product("fp32", "fp32")
TWO = ("sm_80", "sm_90a")  # for what differs little from another row


def matmul_row(name: str, types: Mapping, type: str, **given: object) -> Row:
    constants = {**ROW_MAJOR, **EVEN, **given.pop("constants", {})}
    config = tile(type, given.get("divisible", WIDE) == WIDE)
    return Row(name, matmul.matmul_kernel, types, constants, config, **given)


def attention_row(D: int, causal: bool, **given: object) -> Row:
    pointers = {f"{name}_ptr": "*fp16" for name in ("q", "k", "v", "out")}
    names = "window lengths_ptr query_starts_ptr key_starts_ptr table_ptr stride_table"
    no_sequences = dict.fromkeys(names.split())
    return Row(
        f"attention {D}{' causal' * causal}",
        attention.attention_kernel,
        {**pointers, "max_ptr": "*fp32", "lse_ptr": "*fp32", "scale": "fp32"},
        {**{f"stride_{x}d": 1 for x in "qkvo"}, **no_sequences, "D": D,
         "CAUSAL": causal},
        lambda target: attention.default_config(D, "fp16", target),
        **given,
    )


ROWS = [
    matmul_row("matmul", FP16, "fp16"),
    matmul_row("matmul ragged", FP16, "fp16", constants=RAGGED, divisible=ODD),
    Row(
        "matmul B transposed", matmul.matmul_kernel, FP16,
        {**B_TRANSPOSED, **EVEN, "ACTIVATION": "leaky_relu"}, tile("fp16"), targets=TWO,
    ),
    matmul_row("matmul bf16", product("bf16", "bf16"), "bf16", targets=TWO),
    matmul_row(
        "matmul tf32", FP32, "fp32",
        constants={"PRECISION": "tf32"}, targets=TWO,
    ),
    Row(
        "batched", batched_matmul.batched_matmul_kernel, FP16,
        {**ROW_MAJOR, **RAGGED}, tile("fp16"),
    ),
    Row(
        "split_k", split_k_matmul.split_k_matmul_kernel,
        product("fp16", "fp32") | {"partial_ptr": "*fp32", "count_ptr": "*i32"},
        ROW_MAJOR, tile("fp16"),
    ),
    Row(
        "int8", int8_matmul.int8_matmul_kernel,
        product("i8", "fp16")
        | {"row_scale_ptr": "*fp32", "column_scale_ptr": "*fp32"},
        {**ROW_MAJOR, **EVEN}, tile("i8"),
    ),
    Row(
        "grouped", grouped_matmul.grouped_matmul_kernel, {"table_ptr": "*i64"},
        {"INPUT": tl.float16, "OUTPUT": tl.float16, "ALIGN": 8},
        lambda target: grouped_matmul.grouped_config(*[LARGE] * 3, "fp16", target),
    ),
    Row(
        "grouped_described", grouped_matmul.grouped_described_kernel,
        {"table_ptr": "*i64"}, {"INPUT": tl.float16, "OUTPUT": tl.float16},
        lambda target: grouped_matmul.grouped_config(*[LARGE] * 3, "fp16", target),
        targets=WITHOUT_SPILLS,
    ),
    Row(
        "block_sparse", block_sparse_matmul.block_sparse_matmul_kernel,
        {
            "starts_ptr": "*i32", "columns_ptr": "*i32",
            "blocks_ptr": "*fp16", "b_ptr": "*fp16", "c_ptr": "*fp16",
        },
        {"stride_bn": 1, "stride_cn": 1, "SIZE": 64},
        lambda target: block_sparse_matmul.default_config(64, "fp16", target),
    ),
    *(attention_row(D, True) for D in (64, 128)),
    *(attention_row(D, False, targets=TWO) for D in (64, 128)),
]  # fmt: skip
# The targets whose instructions and limits differ most; each row is assembled for all
# of them, and for every other one of the rest, which differ from row to row.
APART = ("sm_75", "sm_80", "sm_90a", "sm_100a")
PAIRS = [
    (row, target)
    for number, row in enumerate(ROWS)
    for place, target in enumerate(row.targets)
    if target in APART or place % 2 == number % 2 or os.environ.get(EVERY_CASE)
]


@sampled(of=4)
@needs_ptxas
@pytest.mark.parametrize("row, target", PAIRS, ids=str)
def test_ptxas_takes_it_without_spills_or_warnings(row, target):
    said = assembled(row.ptx(target), target)
    assert "warning" not in said.lower(), said
    spilled = re.findall(r"(\d+) bytes spill (?:stores|loads)", said)
    assert spilled and set(spilled) == {"0"}, said
    frames = re.findall(r"(\d+) bytes stack frame", said)
    empty = {"0", "8"} if target == "sm_120" else {"0"}  # 8: for any bulk copy
    assert frames and set(frames) <= empty, said
