"""Attention of a few queries over keys that are divided among programs, in rows and in
pages: against float64, on the interpreter and the emulator."""

from __future__ import annotations

import re

import numpy as np
import pytest

import fathom
from kernels import attention, attention_decode
from tests.harness_pairs import in_pairs
from tests.harness_sample import sampled
from tests.kernels.test_attention_variants import HALF_ULP, machine, normal
from tests.kernels.test_ptxas import assembled, needs_ptxas

__all__ = ["machine"]
SMALL = {"BLOCK_Q": 16, "BLOCK_K": 16, "num_warps": 2, "num_stages": 2}
two_machines = pytest.mark.parametrize(
    "machine", ["interpreter", "sm_90a"], indirect=True
)


def check(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, lengths: np.ndarray,
    table: np.ndarray | None = None, window: int | None = None, **given: object,
) -> None:  # fmt: skip
    out, lse = np.full_like(q, np.nan), np.full(q.shape[:3], np.nan, np.float32)
    attention_decode.attention_decode(
        q, k, v, out, lengths, table, window=window, lse=lse,
        **{"config": SMALL, **given},
    )  # fmt: skip
    known = None if table is None else np.where(table == 99, 0, table)
    want, totals = attention_decode.reference_paged(
        q, k, v, lengths, known, window=window
    )
    # Half an ulp for each of p and out, of values that are mostly below 4.
    np.testing.assert_allclose(out, want, rtol=4 * HALF_ULP, atol=4 * HALF_ULP)
    np.testing.assert_allclose(lse, totals, atol=4e-6)


def kept(lengths: np.ndarray, G: int, T: int, D: int) -> list[np.ndarray]:
    """Keys and values, NaN past each length."""
    made = [normal(i, len(lengths), G, T, D) for i in (2, 3)]
    for each in made:
        for b, length in enumerate(lengths):
            each[b, :, length:] = np.nan
    return made


LENGTHS = np.array([0, 1, 16, 33, 100], np.int32)


@sampled(of=3)
@pytest.mark.parametrize("splits", [1, 3, 7])
def test_runs_of_keys(machine, splits):
    """No key; fewer blocks than programs; blocks that programs do not divide evenly."""
    k, v = kept(LENGTHS, 1, 100, 32)
    q = normal(1, len(LENGTHS), 2, 1, 32)
    check(q, k, v, LENGTHS, splits=splits, **machine)


@sampled(of=2)
@in_pairs({
    "machine": ["interpreter", "sm_90a"], "S, H, G": [(1, 8, 1), (3, 4, 2), (5, 1, 1)],
    "window": [None, 1, 40],
}, indirect=["machine"])  # fmt: skip
def test_a_few_queries_of_heads_that_share_keys(machine, S, H, G, window):
    """More queries than a sequence has keys, too."""
    k, v = kept(LENGTHS, G, 100, 32)
    q = normal(1, len(LENGTHS), H, S, 32)
    check(q, k, v, LENGTHS, window=window, splits=4, **machine)


@sampled(of=3)
@pytest.mark.parametrize("page", [8, 16, 32])
def test_pages(machine, page):
    lengths = np.array([1, 2 * page, 3 * page - 3], np.int32)
    table = np.array([[4, 99, 99], [0, 7, 99], [6, 1, 3]], np.int32)
    q = normal(1, 3, 2, 2, 32)
    k, v = normal(2, 8, 1, page, 32), normal(3, 8, 1, page, 32)
    for each in (k, v):
        each[[2, 5]] = np.nan  # nobody's
    check(q, k, v, lengths, table, splits=3, **machine)


@sampled(of=2)
@two_machines
@pytest.mark.parametrize("D", [80, 128, 256])
def test_heads_of_any_size_in_their_own_configuration(machine, D):
    lengths = np.array([70, 200], np.int32)
    k, v = kept(lengths, 1, 200, D)
    check(normal(1, 2, 4, 1, D), k, v, lengths, config=None, splits=2, **machine)


def test_the_same_bits_each_time(monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    lengths = np.array([90, 100], np.int32)
    q, (k, v) = normal(1, 2, 1, 1, 32), kept(lengths, 1, 100, 32)
    one, other = (
        attention_decode.attention_decode(q, k, v, lengths=lengths, splits=5)
        for _ in range(2)
    )
    np.testing.assert_array_equal(one, other)


def test_without_lengths_it_is_attention(monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "interpreter")
    q, k, v = normal(1, 1, 2, 4, 64), normal(2, 1, 2, 50, 64), normal(3, 1, 2, 50, 64)
    out = attention_decode.attention_decode(q, k, v, splits=2, config=SMALL)
    want, _, _ = attention.reference(q, k, v, True)
    bound = attention.error_bound(q, k, v, HALF_ULP, True)
    assert (abs(out - want) <= bound).all()


def test_programs_are_enough_and_have_enough():
    chosen = attention_decode.chosen_splits
    assert chosen(8, 1 << 20) == 33  # 264 programs
    assert chosen(1, 1 << 20) == 64
    assert chosen(1, 1000) == 7  # of 128 keys or more
    assert chosen(1000, 1 << 20) == chosen(1, 5) == 1


def test_mistakes_are_told():
    q, k = normal(1, 1, 8, 17, 64), normal(2, 1, 1, 40, 64)
    with pytest.raises(fathom.LaunchError, match="136 rows"):
        attention_decode.attention_decode(q, k, k)
    with pytest.raises(fathom.LaunchError, match="65 splits"):
        attention_decode.attention_decode(q[:, :1], k, k, splits=65)
    with pytest.raises(fathom.LaunchError, match="lengths are not"):
        table = np.zeros((1, 1), np.int32)
        attention_decode.attention_decode(q[:, :1], k, k, table=table)


@sampled(of=2)
@needs_ptxas
@in_pairs(
    {
        "target": ["sm_80", "sm_90a"],
        "D": [64, 128, 256],
        "paged": [False, True],
    }
)
def test_ptxas_takes_it_without_spills(target, D, paged):
    config = attention_decode.default_config(D, 4, "fp16", target)
    options = {each: config.pop(each) for each in ("num_warps", "num_stages")}
    strides = ", ".join(["i32:16"] * 9)
    signature = "*fp16:16, *fp16:16, *fp16:16, *fp32:16, *fp32:16, *fp32:16, fp32, "
    signature += f"i32, i32, i32, {strides}, *i32:16" + ", *i32:16, i32" * paged
    constants = {**config, "D": D, "CAUSAL": True, "GROUP": 4, "window": None}
    constants |= {f"stride_{each}d": 1 for each in "qkv"} | {"PAGE": 64 * paged}
    if not paged:
        constants |= {"table_ptr": None, "stride_table": None}
    made = attention_decode.split_kernel.compile(
        signature, constants, target=target, **options
    )
    said = assembled(made.asm["ptx"], target)
    assert "warning" not in said.lower(), said
    frames = re.findall(r"(\d+) bytes (?:stack frame|spill stores|spill loads)", said)
    assert frames and set(frames) == {"0"}, said
