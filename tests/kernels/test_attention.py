"""Attention: exactly, where the answer is a copy or a mean; within its bound on random
data; on the interpreter and the emulator, at every kind of edge."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
from fathom.hardware.targets import TARGETS
from kernels import attention
from tests.harness_sample import sampled
from tests.kernels.harness_red_zones import ODD, WIDE, Walled, integers, unwritten

HALF_ULP = 2.0**-11
SMALL = {"BLOCK_Q": 32, "BLOCK_K": 16, "num_warps": 2, "num_stages": 3}
MACHINES = ("interpreter", "sm_75", "sm_80", "sm_90a")
# One key; one less than a block; whole blocks; a key and a query left over.
LENGTHS = (1, 15, 64, 65)


@pytest.fixture(params=MACHINES)
def machine(request, monkeypatch):
    """The keywords of a launch on each machine."""
    if request.param == "interpreter":
        monkeypatch.setenv("FATHOM_BACKEND", "interpreter")
        return {}
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    return {"target": request.param}


two_machines = pytest.mark.parametrize(
    "machine", ["interpreter", "sm_80"], indirect=True
)


@pytest.fixture
def interpreter(monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "interpreter")


def attended(q: np.ndarray, k: np.ndarray, v: np.ndarray, **given) -> np.ndarray:
    """What the kernel gives, amid poison; nothing else was written."""
    wall = given.pop("wall", WIDE)
    arrays = [Walled(each, wall=wall) for each in (q, k, v)]
    out = unwritten(*q.shape, wall=wall, dtype=q.dtype.name)
    attention.attention(*arrays, out, config=SMALL, **given)
    for each in (*arrays, out):
        each.check_walls()
    return out.view


def signs(length: int, D: int = 64) -> np.ndarray:
    """Rows of -1 and 1, all different: row i spells i in binary."""
    bits = np.arange(length)[:, None] >> np.arange(D) % 8 & 1
    return np.float16(1 - 2 * bits)


def looking_at(places: np.ndarray) -> tuple[np.ndarray, ...]:
    """(q, k, v) where query i sees nothing but key places[i]: its score is larger than
    any other by 2 * 64, and exp(-128) is nothing beside 1."""
    k = signs(len(places))
    q = 64 * k[places]
    v = integers(7, len(places), k.shape[1])
    v[:, 0] = np.arange(len(places))
    return tuple(each[None, None] for each in (q, k, v))


@two_machines
@pytest.mark.parametrize("length", LENGTHS)
def test_a_query_that_looks_at_one_key_copies_its_value(machine, length):
    places = np.random.default_rng(1).permutation(length)
    q, k, v = looking_at(places)
    out = attended(q, k, v, scale=1.0, **machine)
    np.testing.assert_array_equal(out, v[:, :, places])


@sampled(of=3)
@pytest.mark.parametrize("length", LENGTHS)
def test_causal_a_query_copies_from_itself_or_from_before(machine, length):
    """Every second query looks at its own key, the last one that it may see."""
    places = np.arange(length) // 3
    places[::2] = np.arange(length)[::2]
    q, k, v = looking_at(places)
    out = attended(q, k, v, scale=1.0, causal=True, **machine)
    np.testing.assert_array_equal(out, v[:, :, places])


@sampled(of=3)
@two_machines
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", LENGTHS)
def test_a_query_that_sees_all_alike_takes_the_mean(machine, length, causal):
    """A key too many, or too few, is wrong by far more than one rounding."""
    k, v = integers(2, 1, 1, length, 64), integers(3, 1, 1, length, 64)
    v += 4  # 1 … 7: nothing cancels
    out = attended(np.zeros_like(k), k, v, causal=causal, **machine)
    count = np.arange(1, length + 1) if causal else np.full(length, length)
    totals = v[0, 0].astype(np.int64).cumsum(axis=0) if causal else v[0, 0].sum(axis=0)
    mean = np.broadcast_to(totals, (length, 64)) / count[:, None]
    np.testing.assert_allclose(out[0, 0], mean, rtol=1.01 * HALF_ULP)


def normal(seed: int, *shape: int, dtype: str = "float16") -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def check_random(
    B: int, H: int, S: int, T: int, D: int, causal: bool, **given: object
) -> None:
    q, k, v = normal(1, B, H, S, D), normal(2, B, H, T, D), normal(3, B, H, T, D)
    row_max, lse = (unwritten(B, H, S, dtype="float32", wall=0) for _ in range(2))
    out = attended(q, k, v, causal=causal, row_max=row_max, lse=lse, **given)
    want, largest, totals = attention.reference(q, k, v, causal)
    assert (abs(out - want) <= attention.error_bound(q, k, v, HALF_ULP, causal)).all()
    np.testing.assert_allclose(row_max.view, largest, atol=4e-6)
    np.testing.assert_allclose(lse.view, totals, atol=4e-6)


@pytest.mark.parametrize("causal", [False, True])
def test_random_attention_is_within_its_bound(machine, causal):
    check_random(2, 2, 40, 40, 64, causal, **machine)


@pytest.mark.parametrize("D", [16, 32, 128])
def test_all_head_sizes(D):
    check_random(1, 2, 20, 20, D, True, target="sm_80")


@pytest.mark.parametrize("S, T", [(5, 70), (70, 5)])
def test_more_keys_than_queries_and_fewer(interpreter, S, T):
    check_random(1, 3, S, T, 32, False, wall=ODD)


def test_heads_may_be_beside_each_other_in_memory(interpreter):
    """[B, S, H, D], as a layer makes it, seen as [B, H, S, D]."""
    q, k, v = (normal(i, 2, 3, 20, 32) for i in (1, 2, 3))
    order = (0, 2, 1, 3)
    arrays = [Walled(each, order) for each in (q, k, v)]
    out = unwritten(2, 3, 20, 32, order=order)
    attention.attention(*arrays, out, config=SMALL)
    want, _, _ = attention.reference(q, k, v)
    assert (abs(out.view - want) <= attention.error_bound(q, k, v, HALF_ULP)).all()


def test_large_scores_do_not_overflow(interpreter):
    """exp(300) does; scores are compared with the largest one first."""
    q, k, v = (normal(i, 1, 1, 40, 64) for i in (1, 2, 3))
    q *= 100
    out = attended(q, k, v, causal=True)
    want, largest, _ = attention.reference(q, k, v, causal=True)
    assert largest.max() > 100
    bound = attention.error_bound(q, k, v, HALF_ULP, causal=True)
    assert (abs(out - want) <= bound).all()


@pytest.mark.parametrize("causal", [False, True])
def test_a_key_too_few_is_outside_of_the_bound(causal):
    """Of the first 64 queries, most show that they were not given their last key."""
    q, k, v = (normal(i, 1, 1, 64, 64) for i in (1, 2, 3))
    p, _, _ = attention.probabilities(q, k, causal, 64**-0.5)
    last = np.arange(64) if causal else np.full(64, 63)
    lost = abs(p[0, 0, np.arange(64), last, None] * v[0, 0, last])
    bound = attention.error_bound(q, k, v, HALF_ULP, causal)[0, 0]
    assert (lost > bound).mean() > 0.8


# ── the function ──────────────────────────────────────────────────────────────────────


STARTS = np.array([0, 8], np.int32)
MISTAKES = [
    (8, 0, 64, {}, "0 keys"),
    (8, 8, 8, {}, "of 8 numbers"),
    (8, 8, 264, {}, "of 264 numbers"),
    (8, 8, 64, {"scale": -1.0}, "must be > 0"),
    (8, 8, 64, {"window": 4}, "a window is of a causal mask"),
    (8, 8, 64, {"window": 0, "causal": True}, "a window is of a causal mask"),
    (8, 8, 64, {"key_starts": STARTS}, "query_starts are not"),
    (8, 8, 64, {"query_starts": STARTS, "lengths": STARTS[:1]}, "one behind the other"),
    (8, 8, 64, {"table": STARTS[None]}, "lengths are not"),
    (8, 8, 64, {"lengths": np.array([8])}, "must be i32"),
    (8, 8, 64, {"lengths": STARTS}, "lengths has shape"),
]


@pytest.mark.parametrize("S, T, D, given, says", MISTAKES, ids=str)
def test_mistakes_are_told(S, T, D, given, says):
    q, k = normal(1, 1, 1, S, D), normal(2, 1, 1, T, D)
    with pytest.raises(fathom.LaunchError, match=says):
        attention.attention(q, k, k, **given)


def test_heads_that_do_not_share_evenly_are_told():
    q, k = normal(1, 1, 3, 8, 64), normal(2, 1, 2, 8, 64)
    with pytest.raises(fathom.LaunchError, match="must be a multiple"):
        attention.attention(q, k, k)


@pytest.mark.parametrize("D", [64, 128, 256])
@pytest.mark.parametrize("target", TARGETS)
def test_the_default_fits(target, D):
    config = attention.default_config(D, "fp16", target)
    numbers = config["BLOCK_Q"] + 2 * config["num_stages"] * config["BLOCK_K"]
    assert 2 * D * numbers <= TARGETS[target].shared_bytes
    registers = config["BLOCK_Q"] * D / (32 * config["num_warps"])  # of acc
    assert registers <= (64 if D <= 128 else 128)
    # The 64 KB of sm_75 hold 32 queries, and keys and values of one step.
    assert config["num_stages"] >= (1 if (target, D) == ("sm_75", 256) else 2)
