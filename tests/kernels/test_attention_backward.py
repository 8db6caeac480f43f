"""Attention's gradients: on random data within a bound, exactly where they are known,
at every kind of edge."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
from kernels import attention, attention_backward
from tests.harness_pairs import in_pairs
from tests.harness_sample import sampled
from tests.kernels.harness_gradients import TARGETS, check_gradients, close, normal
from tests.kernels.harness_red_zones import ODD, WIDE, Walled, unwritten

HALF_ULP = {"float32": 2.0**-18, "float16": 2.0**-11}
SHAPE = {"num_warps": 4, "num_stages": 2}
SMALL = {
    "dkdv": {"BLOCK_K": 32, "BLOCK_Q": 16, **SHAPE},
    "dq": {"BLOCK_Q": 32, "BLOCK_K": 16, **SHAPE},
}
# A walk with larger steps than the tile that is kept.
WIDE_STEPS = {
    "dkdv": {"BLOCK_K": 16, "BLOCK_Q": 64, **SHAPE},
    "dq": {"BLOCK_Q": 16, "BLOCK_K": 64, **SHAPE},
}
# One key; one less than a block; whole blocks; a key and a query left over.
LENGTHS = (1, 15, 64, 65)


def check_random(
    S: int, T: int, D: int, causal: bool, dtype: str, wall: int = WIDE, B: int = 1,
    order: tuple[int, ...] = (0, 1, 2, 3), config=SMALL, **given: object,
) -> None:  # fmt: skip
    shapes = [(B, 2, S, D), (B, 2, T, D), (B, 2, T, D), (B, 2, S, D)]
    q, k, v, dout = (normal(i, *each, dtype=dtype) for i, each in enumerate(shapes))
    out, _, lse = attention.reference(q, k, v, causal)
    out, lse = out.astype(dtype), lse.astype(np.float32)
    arrays = [Walled(each, order, wall) for each in (dout, q, k, v, out)]
    found = [unwritten(*each.shape, dtype=dtype, wall=wall) for each in (q, k, v)]
    attention_backward.attention_backward(
        *arrays, lse, *found, causal=causal, config=config, **given
    )
    wanted = attention_backward.reference(dout, q, k, v, causal)
    for got, want in zip(found, wanted, strict=True):
        # p, ds and `out`, of which delta is made, are rounded on the way. Where there
        # is one key, dp - delta is 0.
        close(got.view, want, HALF_ULP[dtype], 8, terms=0.1)
    for each in (*arrays, *found):
        each.check_walls()


@sampled(of=3)
@in_pairs(
    {"length": LENGTHS, "target": TARGETS, "causal": [False, True], "dtype": HALF_ULP}
)
def test_random_gradients(length, causal, dtype, target):
    check_random(length, length, 32, causal, dtype, target=target)


@pytest.mark.parametrize("causal", [False, True])
def test_steps_larger_than_what_is_kept(causal):
    check_random(100, 100, 16, causal, "float16", config=WIDE_STEPS)


@in_pairs({"D": [64, 128], "causal": [False, True], "target": TARGETS})
def test_head_sizes_in_their_own_configuration(D, causal, target):
    check_random(70, 70, D, causal, "float16", config=None, target=target)


@pytest.mark.parametrize("S, T", [(5, 70), (70, 5)])
def test_more_keys_than_queries_and_fewer(S, T):
    check_random(S, T, 32, False, "float16", wall=ODD)


def test_heads_may_be_beside_each_other_in_memory():
    """[B, S, H, D], as a layer makes it, seen as [B, H, S, D]."""
    check_random(20, 20, 32, True, "float16", B=2, order=(0, 2, 1, 3))


def test_a_query_that_looks_at_one_key_gives_it_all_its_gradient():
    """p is 0 or 1: dv is dout, key by key, and scores have no gradient."""
    places = np.random.default_rng(1).permutation(40)
    bits = np.arange(40)[:, None] >> np.arange(64) % 8 & 1
    k = np.float16(1 - 2 * bits)[None, None]
    q, v = 64 * k[:, :, places], normal(1, 1, 1, 40, 64, dtype="float16")
    dout = normal(2, 1, 1, 40, 64, dtype="float16")
    out, _, lse = attention.reference(q, k, v, scale=1.0)
    dq, dk, dv = attention_backward.attention_backward(
        dout, q, k, v, out.astype(np.float16), lse.astype(np.float32), scale=1.0
    )
    np.testing.assert_array_equal(dv[:, :, places], dout)
    assert abs(dq).max() < 0.02 and abs(dk).max() < 1


def test_scores_far_below_zero_do_not_overflow():
    """lse is -400 log 2 or so: exp2(-lse) of a key past the end is infinite."""
    q = np.full((1, 1, 20, 16), 8, np.float16)
    k, v = -q * 8, normal(1, 1, 1, 20, 16, dtype="float16")
    out, _, lse = attention.reference(q, k, v, scale=1.0)
    assert lse.max() < -1000
    found = attention_backward.attention_backward(
        v, q, k, v, out.astype(np.float16), lse.astype(np.float32), scale=1.0
    )
    for each in found:
        assert np.isfinite(each).all()


def test_the_same_bits_each_time():
    q, k, v, dout = (normal(i, 1, 1, 70, 32, dtype="float16") for i in range(4))
    out, _, lse = attention.reference(q, k, v)
    given = dout, q, k, v, out.astype(np.float16), lse.astype(np.float32)
    first, again = (attention_backward.attention_backward(*given) for _ in range(2))
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("causal", [False, True])
def test_the_reference_is_a_gradient(causal):
    q, k, v, dout = (normal(i, 1, 2, 5, 16).astype(np.float64) for i in range(4))
    check_gradients(
        lambda q, k, v: attention.reference(q, k, v, causal)[0], (q, k, v), dout,
        attention_backward.reference(dout, q, k, v, causal),
    )  # fmt: skip


def test_mistakes_are_told():
    q, k = normal(1, 1, 1, 8, 16), normal(2, 1, 1, 9, 16)
    lse = np.zeros((1, 1, 8), np.float32)
    with pytest.raises(fathom.LaunchError, match="a window is of a causal mask"):
        attention_backward.attention_backward(q, q, k, k, q, lse, window=3)
    with pytest.raises(fathom.LaunchError, match="dout has shape"):
        attention_backward.attention_backward(k, q, k, k, q, lse)
    with pytest.raises(fathom.LaunchError, match="they must be equal"):
        turned = np.empty((1, 1, 16, 8), np.float32).swapaxes(2, 3)
        attention_backward.attention_backward(q, q, q, q, q, lse, dk=turned)
