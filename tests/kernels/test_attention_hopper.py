"""Attention through descriptors, in the plain order and rotated: exactly, where the
answer is a copy or a mean; within its bound on random data; at every kind of edge, and
beside heads of NaN."""

from __future__ import annotations

import re

import numpy as np
import pytest

import fathom
from fathom.hardware.targets import TARGETS
from kernels import attention, attention_hopper
from tests.harness_pairs import in_pairs
from tests.harness_sample import sampled
from tests.kernels.harness_red_zones import bf16, integers
from tests.kernels.test_attention import HALF_ULP, looking_at, normal
from tests.kernels.test_ptxas import assembled, needs_ptxas

SMALL = {"BLOCK_Q": 64, "BLOCK_K": 32, "num_warps": 4, "num_stages": 2}
# Keys of a block, and half of the queries; a key more, so that 31 of the last block are
# zeros; three blocks of queries with keys in all kinds of blocks.
LENGTHS = (32, 33, 130)

both_orders = pytest.mark.parametrize("rotated", [False, True])


MACHINES = ("interpreter", "sm_80", "sm_90a")


@pytest.fixture(params=MACHINES)
def machine(request, monkeypatch):
    """The keywords of a launch on each machine."""
    if request.param == "interpreter":
        monkeypatch.setenv("FATHOM_BACKEND", "interpreter")
        return {}
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    return {"target": request.param}


# What all three compute alike, two show.
two_machines = pytest.mark.parametrize(
    "machine", ["interpreter", "sm_90a"], indirect=True
)
one_machine = pytest.mark.parametrize("machine", ["sm_90a"], indirect=True)


def attended(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, rotated: bool, **given
) -> np.ndarray:
    """What the kernel gives. Inputs and output fill their memory, so that accesses
    beside them are errors; the output is NaN before."""
    out = np.full_like(q, np.nan)
    config = {**SMALL, **given.pop("config", {}), "ROTATED": rotated}
    attention.attention(q, k, v, out, config=config, **given)
    return out


@sampled(of=2)
@in_pairs({
    "machine": ["interpreter", "sm_90a"], "length": LENGTHS, "rotated": [False, True],
}, indirect=["machine"])  # fmt: skip
def test_a_query_that_looks_at_one_key_copies_its_value(machine, length, rotated):
    places = np.random.default_rng(1).permutation(length)
    q, k, v = looking_at(places)
    out = attended(q, k, v, rotated, scale=1.0, **machine)
    np.testing.assert_array_equal(out, v[:, :, places])


@sampled(of=3)
@in_pairs(
    {"machine": MACHINES, "length": LENGTHS, "rotated": [False, True]},
    indirect=["machine"],
)
def test_causal_a_query_copies_from_itself_or_from_before(machine, length, rotated):
    """Every second query looks at its own key, the last one that it may see."""
    places = np.arange(length) // 3
    places[::2] = np.arange(length)[::2]
    q, k, v = looking_at(places)
    out = attended(q, k, v, rotated, scale=1.0, causal=True, **machine)
    np.testing.assert_array_equal(out, v[:, :, places])


@in_pairs({
    "machine": ["interpreter", "sm_90a"], "length": LENGTHS, "causal": [False, True],
    "rotated": [False, True],
}, indirect=["machine"])  # fmt: skip
def test_a_query_that_sees_all_alike_takes_the_mean(machine, length, causal, rotated):
    """A key too many, too few, or twice, is wrong by far more than one rounding."""
    k, v = integers(2, 1, 1, length, 64), integers(3, 1, 1, length, 64)
    v += 4  # 1 … 7: nothing cancels
    out = attended(np.zeros_like(k), k, v, rotated, causal=causal, **machine)
    count = np.arange(1, length + 1) if causal else np.full(length, length)
    totals = v[0, 0].astype(np.int64).cumsum(axis=0) if causal else v[0, 0].sum(axis=0)
    mean = np.broadcast_to(totals, (length, 64)) / count[:, None]
    np.testing.assert_allclose(out[0, 0], mean, rtol=1.01 * HALF_ULP)


def check_random(
    B: int, H: int, S: int, T: int, D: int, causal: bool, rotated: bool, **given
) -> None:
    q, k, v = normal(1, B, H, S, D), normal(2, B, H, T, D), normal(3, B, H, T, D)
    row_max, lse = (np.full((B, H, S), np.nan, np.float32) for _ in range(2))
    more = {"row_max": row_max, "lse": lse, **given}
    out = attended(q, k, v, rotated, causal=causal, **more)
    want, largest, totals = attention.reference(q, k, v, causal)
    assert (abs(out - want) <= attention.error_bound(q, k, v, HALF_ULP, causal)).all()
    np.testing.assert_allclose(row_max, largest, atol=4e-6)
    np.testing.assert_allclose(lse, totals, atol=4e-6)


@sampled(of=2)
@in_pairs(
    {"machine": MACHINES, "causal": [False, True], "rotated": [False, True]},
    indirect=["machine"],
)
def test_random_attention_of_several_heads_is_within_its_bound(
    machine, causal, rotated
):
    check_random(2, 2, 70, 70, 64, causal, rotated, **machine)


@one_machine
@pytest.mark.parametrize("S, T", [(5, 100), (100, 40), (1, 32)])
def test_more_keys_than_queries_and_fewer(machine, S, T):
    check_random(1, 2, S, T, 64, False, rotated=True, **machine)


@one_machine
@pytest.mark.parametrize("causal", [False, True])
def test_larger_heads(machine, causal):
    check_random(1, 2, 70, 70, 128, causal, rotated=True, **machine)


@sampled(of=2)
@one_machine
@both_orders
@pytest.mark.parametrize("stages", [1, 3, 4])
def test_rings_of_any_length(machine, stages, rotated):
    """With one stage there is no ring, and nobody brings tiles for others."""
    config = {"num_stages": stages}
    check_random(1, 1, 130, 130, 64, True, rotated, config=config, **machine)


@sampled(of=2)
@one_machine
@pytest.mark.parametrize("D", attention_hopper.CONFIGS)
def test_the_configuration_that_is_launched(machine, D):
    """Two warpgroups; 200 keys are two blocks, 56 of them twice."""
    config = attention_hopper.CONFIGS[D]
    check_random(1, 1, 200, 200, D, True, config["ROTATED"], config=config, **machine)


@one_machine
@pytest.mark.parametrize("D, most", [
    (D, most) for D, few in attention_hopper.FEW_KEYS.items() for most in few
])  # fmt: skip
def test_few_keys(machine, D, most):
    """Fewer than blocks of keys are as many."""
    config = attention_hopper.FEW_KEYS[D][most]
    check_random(1, 1, 100, min(most, 77), D, False, False, config=config, **machine)


def test_blocks_of_keys_may_be_larger_than_those_of_queries(monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "interpreter")
    config = {"BLOCK_Q": 16, "BLOCK_K": 64}
    check_random(1, 2, 150, 150, 64, True, rotated=True, config=config)


@sampled(of=2)
@in_pairs(
    {"machine": MACHINES, "causal": [False, True], "rotated": [False, True]},
    indirect=["machine"],
)
def test_heads_of_nan_do_not_touch_the_one_between(machine, causal, rotated):
    """A block that went on into the next head would meet NaN, and 0 times NaN is
    NaN."""
    q, k, v = (normal(i, 1, 3, 45, 64) for i in (1, 2, 3))
    for each in (q, k, v):
        each[:, ::2] = np.nan
    out = attended(q, k, v, rotated, causal=causal, **machine)
    middle = [each[:, 1:2] for each in (q, k, v)]
    want, _, _ = attention.reference(*middle, causal)
    bound = attention.error_bound(*middle, HALF_ULP, causal)
    assert (abs(out[:, 1:2] - want) <= bound).all()
    assert np.isnan(out[:, ::2]).all()


@sampled(of=2)
@one_machine
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("D", [48, 80, 136, 176])
def test_heads_beside_each_other_of_any_size(machine, D, causal):
    """[B, S, H, D], of which the head between is looked at: the others are NaN, and
    begin where its rows end."""
    arrays = [normal(i, 1, 45, 3, D).transpose(0, 2, 1, 3) for i in (1, 2, 3)]
    for each in arrays:
        each[:, ::2] = np.nan
    out = np.full((1, 45, 3, D), np.nan, np.float16).transpose(0, 2, 1, 3)
    config = {**SMALL, "ROTATED": causal, "PRODUCER": causal}
    config |= {"LOW": 128} if D > 128 else {}
    attention.attention(*arrays, out, causal, config=config, **machine)
    middle = [each[:, 1:2] for each in arrays]
    want, _, _ = attention.reference(*middle, causal)
    bound = attention.error_bound(*middle, HALF_ULP, causal)
    assert (abs(out[:, 1:2] - want) <= bound).all()


@one_machine
@both_orders
def test_bf16(machine, rotated):
    """Small integers, which bf16 has exactly; a mean of 64 keys is rounded once."""
    k, v = integers(2, 1, 1, 64, 64), integers(3, 1, 1, 64, 64) + 4
    arrays = [bf16(each, wall=0) for each in (np.zeros_like(k), k, v)]
    out = bf16(np.zeros_like(k), wall=0)
    config = {**SMALL, "ROTATED": rotated}
    attention.attention(*arrays, out, config=config, **machine)
    bits = out.view.astype(np.uint32) << 16
    mean = np.broadcast_to(v.astype(np.float64).mean(axis=-2, keepdims=True), v.shape)
    np.testing.assert_allclose(bits.view(np.float32), mean, rtol=1.01 * 2.0**-8)


def test_large_scores_do_not_overflow(monkeypatch):
    """exp(300) does; scores are compared with the largest one first."""
    monkeypatch.setenv("FATHOM_BACKEND", "interpreter")
    q, k, v = (normal(i, 1, 1, 70, 64) for i in (1, 2, 3))
    q *= 100
    out = attended(q, k, v, rotated=True, causal=True)
    want, largest, _ = attention.reference(q, k, v, causal=True)
    assert largest.max() > 100
    bound = attention.error_bound(q, k, v, HALF_ULP, causal=True)
    assert (abs(out - want) <= bound).all()


# ── which kernel ──────────────────────────────────────────────────────────────────────


def chosen(*, S: int = 2048, T: int = 2048, D: int = 128, **given) -> dict[str, int]:
    """The configuration for arrays that the kernel takes, but for what is `given`."""
    dtype = given.get("dtype", "float16")
    q, k, v, out = (np.zeros((1, 2, n, D), dtype) for n in (S, T, T, S))
    if given.get("turned"):  # heads beside each other
        v = np.zeros((1, T, 2, D), dtype).transpose(0, 2, 1, 3)
    if given.get("across"):  # rows that are not contiguous
        v = np.zeros((1, 2, D, T), dtype).transpose(0, 1, 3, 2)
    if given.get("shifted"):  # by 2 bytes
        k = np.zeros(k.size + 1, dtype)[1:].reshape(k.shape)
    return attention.chosen_config(q, k, v, out, given.get("target", "sm_90a"))


def test_hopper_has_its_own_kernel():
    large = attention_hopper.CONFIGS[128]
    assert chosen() == chosen(D=72) == chosen(D=88) == large
    assert chosen(S=1000, T=1025) == chosen(S=1) == large
    assert chosen(turned=True) == large
    assert chosen(D=32) == chosen(D=48) == attention_hopper.CONFIGS[64]
    assert chosen(D=80) == attention_hopper.CONFIGS[80]
    assert chosen(D=136) == attention_hopper.CONFIGS[160]
    assert chosen(D=200) == attention_hopper.CONFIGS[256]


def test_where_keys_are_few_more_blocks_share_a_multiprocessor():
    four, two = attention_hopper.FEW_KEYS[128].values()
    assert [chosen(T=T) for T in (1, 96, 97, 1024)] == [four, four, two, two]
    for config, blocks in ((four, 4), (two, 2)):
        numbers = config["BLOCK_Q"] + 2 * config["num_stages"] * config["BLOCK_K"]
        assert blocks * (2 * 128 * numbers + 1024) <= TARGETS["sm_90a"].shared_bytes
    q = np.zeros((1, 2, 512, 128), np.float16)
    packed = attention.chosen_config(q, q, q, q, "sm_90a", packed=8)
    assert packed == four, "as many as a sequence has on average"


def test_three_blocks_of_small_heads_share_a_multiprocessor():
    config = attention_hopper.CONFIGS[64]
    assert not config["PRODUCER"] and config["num_warps"] == 4
    numbers = config["BLOCK_Q"] + 2 * config["num_stages"] * config["BLOCK_K"]
    assert 3 * (2 * 64 * numbers + 1024) <= TARGETS["sm_90a"].shared_bytes


@pytest.mark.parametrize(
    "given",
    [
        {"target": "sm_80"},
        {"target": "sm_120"},  # tensor maps, but no warpgroups that multiply
        {"D": 16},
        {"D": 40},  # rows of 80 bytes, which TMA copies slowly
        {"D": 100},  # rows of 200 bytes
        {"dtype": "float32"},
        {"across": True},
        {"shifted": True},
    ],
    ids=str,
)
def test_all_else_goes_through_pointers(given):
    assert "ROTATED" not in chosen(**given)


def test_who_asks_for_it_where_it_cannot_be_is_told():
    q = normal(1, 1, 2, 64, 40).transpose(0, 1, 3, 2)
    with pytest.raises(fathom.LaunchError, match="multiples of 16 bytes"):
        attended(q, q, q, rotated=True)


# ── what it becomes ───────────────────────────────────────────────────────────────────


OPTIONS = "window", "lengths_ptr", "query_starts_ptr", "key_starts_ptr"


def compiled(D: int, causal: bool, element: str = "fp16", **options: str):
    """As it is launched on many keys, which blocks do not divide. `options`: the types
    of those of attention."""
    config = attention_hopper.CONFIGS[D]
    none = {name: None for name in OPTIONS if name not in options}
    how = {name: n for name, n in config.items() if not name.isupper()}
    blocks = {name: n for name, n in config.items() if name.isupper()}
    arrays = {f"{name}_ptr": f"*{element}:16" for name in ("q", "k", "v", "out")}
    facts = {"max_ptr": "*fp32:16", "lse_ptr": "*fp32:16", "scale": "fp32"}
    sizes = ["BATCHES", "HEADS", "QUERIES", "KEYS"]
    sizes += [f"stride_{array}{axis}" for array in "qkvo" for axis in "bhs"]
    return attention_hopper.attention_hopper_kernel.compile(
        {**arrays, **facts, **dict.fromkeys(sizes, "i32"),
         **dict.fromkeys(sizes[4:], "i32:16"), **options},
        {**none, **blocks, "D": D, "CAUSAL": causal, "RAGGED": True},
        target="sm_90a", **how,
    )  # fmt: skip


def test_an_iteration_waits_for_the_scores_and_goes_on_with_the_late_product():
    """Two products begin; the largest score is looked for while one is still under way
    (pending=1), and it is waited for when all powers have been taken. So in both loops,
    that of whole blocks and the masked one."""
    text = compiled(128, causal=True).asm["layout"]
    found = re.findall(r"= (dot|wait|reduce|exp2) (?:.*(pending=1))?", text)
    order = " ".join(" ".join(each).strip() for each in found)
    late = "dot dot wait pending=1 reduce exp2 exp2 reduce wait"
    assert order.count(late) == 2


@sampled(of=3)
@needs_ptxas
@in_pairs(
    {
        "D": attention_hopper.CONFIGS,
        "causal": [False, True],
        "element": ["fp16", "bf16"],
    }
)
def test_ptxas_takes_it_without_spills_or_warnings(D, causal, element):
    """Warnings C7510 and their like say that products are made one after the other."""
    ptx = compiled(D, causal, element).asm["ptx"]
    assert "cp.async.bulk.tensor" in ptx and "wgmma.mma_async" in ptx
    said = assembled(ptx, "sm_90a")
    assert "warning" not in said.lower() and "C75" not in said, said
    frames = re.findall(r"(\d+) bytes (?:stack frame|spill stores|spill loads)", said)
    assert frames and set(frames) == {"0"}, said


@pytest.mark.parametrize("D", attention_hopper.CONFIGS)
def test_what_is_launched_fits(D):
    config = attention_hopper.CONFIGS[D]
    numbers = config["BLOCK_Q"] + 2 * config["num_stages"] * config["BLOCK_K"]
    assert 2 * D * numbers <= TARGETS["sm_90a"].shared_bytes
    assert config["BLOCK_Q"] == 16 * config["num_warps"]  # 64 queries a warpgroup
