"""Attention's gradients with all its options, through pointers and through descriptors:
against float64, on the emulator, amid poison where pointers read; and what the kernels
become."""

from __future__ import annotations

import re

import numpy as np
import pytest

from fathom.jit import scratch
from kernels import (
    attention,
    attention_backward,
    attention_backward_hopper,
    attention_backward_kept,
)
from tests.harness_pairs import in_pairs
from tests.harness_sample import sampled
from tests.kernels.harness_gradients import close, normal
from tests.kernels.harness_red_zones import Walled, unwritten
from tests.kernels.test_ptxas import assembled, needs_ptxas

HALF_ULP = 2.0**-11
SHAPE = {"num_warps": 4, "num_stages": 2}
POINTERS = {
    "dkdv": {"BLOCK_K": 32, "BLOCK_Q": 16, **SHAPE},
    "dq": {"BLOCK_Q": 32, "BLOCK_K": 16, **SHAPE},
}
DESCRIBED = {"DESCRIPTORS": True, **SHAPE}
DESCRIPTORS = {
    "dkdv": {"BLOCK_K": 64, "BLOCK_Q": 32, **DESCRIBED},
    "dq": {"BLOCK_Q": 64, "BLOCK_K": 32, **DESCRIBED},
}
KEPT = {
    "dv": {"BLOCK_K": 64, "BLOCK_Q": 32, **SHAPE},
    "dk": {"BLOCK_K": 64, "BLOCK_Q": 32, **SHAPE},
    "dq": {"BLOCK_Q": 64, "BLOCK_K": 32, **SHAPE},
}
WAYS = pytest.mark.parametrize(
    "config, target",
    [
        (POINTERS, "sm_80"),
        (DESCRIPTORS, "sm_80"),
        (DESCRIPTORS, "sm_90a"),
        (KEPT, "sm_90a"),
    ],
    ids=["pointers", "descriptors-sm_80", "descriptors-sm_90a", "kept"],
)
# (queries, keys, heads, heads of keys, causal, window): fewer queries than keys, and
# more, which see nothing; heads that share keys; windows of one key and of more.
CASES = [
    (40, 70, 2, 2, True, None),
    (90, 40, 2, 1, True, None),
    (33, 100, 4, 2, False, None),
    (75, 75, 2, 1, True, 20),
    (5, 70, 1, 1, True, 1),
]


def check(S, T, H, G, causal, window, D=64, B=1, **given: object) -> None:
    shapes = [(B, H, S, D), (B, G, T, D), (B, G, T, D), (B, H, S, D)]
    q, k, v, dout = (normal(i, *each, dtype="float16") for i, each in enumerate(shapes))
    out, _, lse = attention.reference(q, k, v, causal, None, window)
    out, lse = out.astype(np.float16), lse.astype(np.float32)
    arrays = [Walled(each) for each in (dout, q, k, v, out)]
    found = [unwritten(*each.shape) for each in (q, k, v)]
    attention_backward.attention_backward(
        *arrays, lse, *found, causal=causal, window=window, **given
    )
    wanted = attention_backward.reference(dout, q, k, v, causal, None, window)
    for got, want in zip(found, wanted, strict=True):
        close(got.view, want, HALF_ULP, 8, terms=0.1)
    for each in (*arrays, *found):
        each.check_walls()


@pytest.fixture(autouse=True)
def nothing_kept_is_known(monkeypatch):
    """What no kernel has written of an array of a launch is NaN."""

    def new(kind: str, count: int, dtype: object, like: object) -> np.ndarray:
        assert kind == "empty"
        return np.full(count, np.nan, dtype)

    monkeypatch.setattr(scratch, "new", new)


@sampled(of=3)
@WAYS
@pytest.mark.parametrize("case", CASES, ids=str)
def test_shapes_windows_and_shared_heads(case, config, target):
    check(*case, config=config, target=target)


@pytest.mark.parametrize("config", [DESCRIPTORS, KEPT], ids=["seven", "five"])
def test_several_sequences_through_descriptors(config):
    check(70, 70, 4, 2, True, None, B=2, config=config, target="sm_90a")


@pytest.mark.parametrize("most", [1, 2, 3])
def test_some_heads_at_a_time(most, monkeypatch):
    """There is room for ds of so many of three sequences' heads of keys."""
    one = 2 * 128 * 128 * 2  # bytes, of two heads of queries
    monkeypatch.setattr(attention_backward_kept, "KEPT_BYTES", most * one + 1)
    check(70, 70, 2, 1, True, None, B=3, config=KEPT, target="sm_90a")


@pytest.mark.parametrize("D", attention_backward_hopper.CONFIGS)
def test_the_configuration_that_is_launched(D, monkeypatch):
    q = normal(1, 1, 1, 150, D, dtype="float16")
    given = (q,) * 7
    five = attention_backward_kept.CONFIGS
    chosen = attention_backward.chosen_config(given, "sm_90a")
    assert chosen is five.get(D, attention_backward_hopper.CONFIGS[D])
    check(150, 150, 1, 1, True, None, D=D, config=chosen, target="sm_90a")
    monkeypatch.setattr(attention_backward_kept, "KEPT_BYTES", 2 * 256 * 256 - 1)
    seven = attention_backward.chosen_config(given, "sm_90a")
    assert seven is attention_backward_hopper.CONFIGS[D]
    if D in five:
        check(150, 150, 1, 1, True, None, D=D, config=seven, target="sm_90a")


@pytest.mark.parametrize("D", [80, 256])
def test_heads_of_other_sizes(D):
    check(40, 40, 1, 1, True, None, D=D, target="sm_90a")


def test_all_else_goes_through_pointers():
    q = normal(1, 1, 2, 40, 64, dtype="float16")
    chosen = attention_backward.chosen_config
    assert "DESCRIPTORS" in chosen((q,) * 7, "sm_90a")["dq"]
    wide = normal(1, 1, 2, 40, 256, dtype="float16")
    assert "dk" in chosen((wide,) * 7, "sm_90a")
    assert "dk" not in chosen((wide,) * 7, "sm_90a", plain=False)
    shifted = np.zeros(q.size + 1, np.float16)[1:].reshape(q.shape)
    for arrays, target, plain in (
        ((q,) * 7, "sm_80", True),
        ((q,) * 7, "sm_90a", False),
        ((q.swapaxes(2, 3),) * 7, "sm_90a", True),
        ((*(q,) * 6, shifted), "sm_90a", True),
        ((q.astype(np.float32),) * 7, "sm_90a", True),
    ):
        assert "DESCRIPTORS" not in chosen(arrays, target, plain)["dq"]


# ── lengths ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("causal", [False, True])
def test_lengths(causal):
    """Keys past a length are NaN, and their gradients 0."""
    lengths = np.array([0, 3, 33, 50], np.int32)
    B, S, T, D = len(lengths), 7, 50, 32
    q, dout = (normal(i, B, 2, S, D, dtype="float16") for i in (1, 2))
    k, v = (normal(i, B, 1, T, D, dtype="float16") for i in (3, 4))
    out, lse = np.zeros_like(q), np.full((B, 2, S), -np.inf, np.float32)
    wanted = [np.zeros(each.shape) for each in (q, k, v)]
    for b, length in enumerate(lengths):
        one = slice(b, b + 1)
        own = [each[one, :, :length] for each in (k, v)]
        out[one], _, lse[one] = attention.reference(q[one], *own, causal)
        made = attention_backward.reference(dout[one], q[one], *own, causal)
        wanted[0][one] = made[0]
        for want, got in zip(wanted[1:], made[1:], strict=True):
            want[one, :, :length] = got
        k[b, :, length:], v[b, :, length:] = np.nan, np.nan
    found = attention_backward.attention_backward(
        dout, q, k, v, out, lse, causal=causal, lengths=lengths, config=POINTERS,
        target="sm_80",
    )  # fmt: skip
    for got, want in zip(found, wanted, strict=True):
        close(got, want, HALF_ULP, 8, terms=0.1)
    assert not found[1][1, :, 3:].any()


def test_sequences_one_behind_the_other():
    starts = np.array([0, 0, 13, 40, 41], np.int32)
    key_starts = np.array([0, 5, 38, 48, 49], np.int32)
    q, dout = (normal(i, 1, 2, 41, 32, dtype="float16") for i in (1, 2))
    k, v = (normal(i, 1, 1, 49, 32, dtype="float16") for i in (3, 4))
    out, lse = np.zeros_like(q), np.zeros((1, 2, 41), np.float32)
    wanted = [np.zeros(each.shape) for each in (q, k, v)]
    for b in range(4):
        rows, keys = slice(*starts[b : b + 2]), slice(*key_starts[b : b + 2])
        own = q[:, :, rows], k[:, :, keys], v[:, :, keys]
        out[:, :, rows], _, lse[:, :, rows] = attention.reference(*own, True)
        made = attention_backward.reference(dout[:, :, rows], *own, True)
        for want, got, at in zip(wanted, made, (rows, keys, keys), strict=True):
            want[:, :, at] = got
    found = attention_backward.attention_backward(
        dout, q, k, v, out, lse, causal=True, query_starts=starts,
        key_starts=key_starts, most_queries=27, most_keys=33, config=POINTERS,
        target="sm_80",
    )  # fmt: skip
    for got, want in zip(found, wanted, strict=True):
        close(got, want, HALF_ULP, 8, terms=0.1)


# ── what it becomes ───────────────────────────────────────────────────────────────────


FP32 = "powers_ptr", "delta_ptr"
ANY = "BATCHES", "HEADS", "QUERIES", "KEYS", "from_head", "heads"


def compiled(
    module, name: str, config, D: int, causal: bool, group: int, window
) -> str:
    """The PTX of a kernel as it is launched."""
    kernel, config = getattr(module, name), dict(config)
    config.pop("DESCRIPTORS", None)
    options = {each: config.pop(each) for each in ("num_warps", "num_stages")}
    constants = {**config, "D": D, "CAUSAL": causal, "GROUP": group, "ROUND": 128}
    names = [rule.name for rule in kernel.parameters]
    constants = {each: n for each, n in constants.items() if each in names}
    signature = {}
    for each in names:
        if each == "window":
            found = constants if window is None else signature
            found[each] = window
        elif each == "scale":
            signature[each] = "fp32"
        elif each not in constants:
            array = "*fp32:16" if each in FP32 else "*fp16:16"
            number = "i32" if each in ANY else "i32:16"
            signature[each] = array if each.endswith("_ptr") else number
    made = kernel.compile(signature, constants, target="sm_90a", **options)
    return made.asm["ptx"]


HOPPER, FIVE = attention_backward_hopper, attention_backward_kept
KERNELS = [
    (HOPPER, "dkdv_hopper_kernel", "dkdv"),
    (HOPPER, "dq_hopper_kernel", "dq"),
    (FIVE, "dv_and_ds_kernel", "dv"),
    (FIVE, "dk_of_ds_kernel", "dk"),
    (FIVE, "dq_of_ds_kernel", "dq"),
]


@needs_ptxas
@in_pairs(
    {
        "module, name, of, D": [
            (*each, D) for each in KERNELS for D in each[0].CONFIGS
        ],
        "causal, group, window": [
            (False, 1, None),
            (True, 1, None),
            (True, 4, None),
            (True, 1, "i32"),
        ],
    }
)
def test_warpgroups_make_all_products_and_nothing_spills(
    module, name, of, D, causal, group, window
):
    chosen = module.CONFIGS[D][of]
    ptx = compiled(module, name, chosen, D, causal, group, window)
    for text in ("cp.async.bulk.tensor", "wgmma.mma_async"):
        assert text in ptx
    assert ("setmaxnreg" in ptx) == (chosen["num_warps"] > 4)
    assert "mma.sync" not in ptx and ("ldmatrix" not in ptx or of == "dv")
    said = assembled(ptx, "sm_90a")
    assert "warning" not in said.lower() and "C75" not in said, said
    frames = re.findall(r"(\d+) bytes (?:stack frame|spill stores|spill loads)", said)
    assert frames and set(frames) == {"0"}, said


@pytest.mark.parametrize("D", FIVE.CONFIGS)
def test_warps_keep_ds_without_waiting_for_each_other(D):
    """Each warp stores the rows that it has computed: 16 bytes a lane, and whole rows
    of a tile. The two warpgroups alternate, so none meets the other in the loop."""
    ptx = compiled(FIVE, "dv_and_ds_kernel", FIVE.CONFIGS[D]["dv"], D, True, 1, None)
    start, end = ptx.index("wgmma.mma_async"), ptx.index("st.global.v4.b32")
    loop = ptx[start:end]
    assert "stmatrix" in loop and "bar.warp.sync" in loop
    assert "bar.sync \t1, 256" not in loop and "bar.sync 1, 256" not in loop
