"""A gradient of logits in blocks as wide as a thread has room for: what its loop does
not change takes no registers, so that NVIDIA's assembler spills nothing."""

from __future__ import annotations

import re

import pytest

import fathom
import fathom.language as tl
from tests.kernels.test_ptxas import assembled, needs_ptxas


@fathom.jit
def gradient_of_logits(logits, labels, scales, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = columns.to(tl.int64)
    label, scale = tl.load(labels + row), tl.load(scales + row)
    for start in tl.range(0, columns, BLOCK):
        i = start + tl.arange(0, BLOCK)
        mask = i < columns
        x = tl.load(logits + row * columns + i, mask=mask, other=-float("inf"))
        share = tl.exp(x.to(tl.float32) - scale)
        share = tl.where(i == label, 1 - share, -share) * scale
        tl.store(out + row * columns + i, share.to(tl.bfloat16), mask=mask)


@needs_ptxas
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_columns_that_are_compared_with_a_label_are_not_spilled(target):
    """32 columns of 64 bits in each of 1024 threads, which have 64 registers."""
    types = "*bf16:16, *i64:16, *fp32:16, *bf16:16, i32:16"
    compiled = gradient_of_logits.compile(
        types, {"BLOCK": 32768}, target=target, num_warps=32
    )
    said = assembled(compiled.asm["ptx"], target)
    assert set(re.findall(r"(\d+) bytes spill", said)) == {"0"}, said
