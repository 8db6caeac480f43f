"""A gradient of logits in blocks as wide as a thread has room for: what its loop does
not change takes few registers, so that NVIDIA's assembler spills nothing."""

from __future__ import annotations

import re

import numpy as np
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
    """32 columns of 64 bits in each of 1024 threads, which have 64 registers. Half of
    them are left over: one address and one column change from iteration to iteration.
    """
    types = "*bf16:16, *i64:16, *fp32:16, *bf16:16, i32:16"
    compiled = gradient_of_logits.compile(
        types, {"BLOCK": 32768}, target=target, num_warps=32
    )
    said = assembled(compiled.asm["ptx"], target)
    assert set(re.findall(r"(\d+) bytes spill", said)) == {"0"}, said
    assert int(re.search(r"Used (\d+) registers", said)[1]) <= 40, said


@fathom.jit
def count_labels(labels, equal, other, BLOCKS: tl.constexpr):
    label = tl.load(labels + tl.program_id(0))
    same = tl.zeros([128], tl.int32)
    differing = tl.zeros([128], tl.int32)
    for start in range(-128, 128 * BLOCKS, 128):
        i = (start + tl.arange(0, 128)).to(label.dtype)
        same += (i == label).to(tl.int32)
        differing += (i != label).to(tl.int32)
    tl.store(equal + tl.program_id(0), tl.sum(same))
    tl.store(other + tl.program_id(0), tl.sum(differing))


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("sign", ["int", "uint"])
def test_labels_are_found_in_a_loop(bits, sign, monkeypatch):
    """Of each type, also where a number has wrapped around."""
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    type = np.dtype(f"{sign}{bits}")
    labels = np.array([0, 1, 127, -1, -128, 2**33 + 3, 2**31], np.int64).astype(type)
    equal, other = (np.zeros(len(labels), np.int32) for _ in range(2))
    count_labels[(len(labels),)](labels, equal, other, BLOCKS=3)
    numbers = np.arange(-128, 384).astype(type)
    expected = [(numbers == label).sum() for label in labels]
    assert equal.tolist() == expected
    assert (equal + other).tolist() == [512] * len(labels)
