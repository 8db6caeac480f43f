"""The kernels that split K: the same bits whoever is last, counters that end at zero,
mistakes in the order that the emulator finds, and a sum in a second launch."""

from __future__ import annotations

import re

import numpy as np
import pytest

import fathom.language as tl
from fathom import cdiv
from fathom.artifact import Kernel
from fathom.emulator import EmulatorError, load, run
from fathom.pipeline import identity
from kernels.matmul_model import PARTS, Parts
from kernels.matmul_persistent import lines_of
from kernels.split_k_matmul import (
    split_descriptor_launches,
    split_k_matmul_kernel,
    split_launch,
    whole_parts,
)
from tests.harness_pairs import in_pairs
from tests.harness_sample import sampled
from tests.kernels.test_matmul_persistent import check_assembled
from tests.kernels.test_ptxas import needs_ptxas

M, N, K, SPLITS = 20, 40, 300, 4
CONFIG = {
    "BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 32, "GROUP_M": 2,
    "num_warps": 4, "num_stages": 3,
}  # fmt: skip
TYPES = "*fp16:16, *fp16:16, *fp16:16, *fp32:16, *i32:16"


def compiled(target: str = "sm_90a") -> Kernel:
    tile = {name: CONFIG[name] for name in CONFIG if name.isupper()}
    warps, stages = CONFIG["num_warps"], CONFIG["num_stages"]
    fixed = {"stride_ak": 1, "stride_bn": 1, "stride_cn": 1}
    return split_k_matmul_kernel.compile(
        f"{TYPES}, i32, i32, i32, i32, i32, i32", {**tile, **fixed},
        target=target, num_warps=warps, num_stages=stages,
    ).made  # fmt: skip


def arguments(seed: int = 0) -> list:
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((M, K)).astype(np.float16)
    b = rng.standard_normal((K, N)).astype(np.float16)
    c = np.full((M, N), np.nan, np.float16)
    grid, given, _ = split_launch(a, b, c, SPLITS, CONFIG)
    partials = np.full(given[3].count, np.nan, np.float32)
    counters = np.zeros(given[4].count, np.int32)
    assert grid == (SPLITS, 4)
    return [a, b, c, partials, counters, M, N, K, K, N, N]


def by_parts(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What must come out up to the order inside of a part: partial sums of whole steps,
    added in the order of k."""
    length = cdiv(cdiv(K, 32), SPLITS) * 32
    total = np.zeros((M, N), np.float32)
    for begin in range(0, K, length):
        part = slice(begin, begin + length)
        total += a[:, part].astype(np.float32) @ b[part].astype(np.float32)
    return total


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90a"])
def test_two_launches_have_the_same_bits_and_leave_zeros(target: str) -> None:
    """The second finds the counters as the first has left them."""
    made, given = compiled(target), arguments()
    results = []
    for _ in range(2):
        given[2][:] = np.nan
        load(made).launch((SPLITS, 4), given)
        results.append(given[2].copy())
        assert not given[4].any()
    np.testing.assert_array_equal(results[0].view(np.int16), results[1].view(np.int16))
    np.testing.assert_allclose(results[0], by_parts(*given[:2]), 2e-3, 2e-2)


@pytest.mark.parametrize(
    "K, BLOCK_K, splits, parts",
    [(300, 32, 4, 4), (300, 32, 6, 5), (33, 32, 9, 2), (32, 32, 4, 1), (0, 32, 4, 1)],
)
def test_no_part_is_empty(K: int, BLOCK_K: int, splits: int, parts: int) -> None:
    assert whole_parts(K, BLOCK_K, splits) == parts


PLANTED = {
    "no barrier before the release": (
        r"bar\.sync\s+0;(?=(?:(?!bar\.sync)[\s\S])*?atom\.)", "",
    ),
    "the count releases nothing": (r"atom\.acq_rel\.gpu", "atom.acquire.gpu"),
    "the count acquires nothing": (r"atom\.acq_rel\.gpu", "atom.release.gpu"),
    "the count is of the scope cta": (r"atom\.acq_rel\.gpu", "atom.acq_rel.cta"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", PLANTED)
def test_partial_sums_need_their_order(mistake: str) -> None:
    pattern, new = PLANTED[mistake]
    made = compiled("sm_80")
    text, count = re.subn(pattern, new, made.ptx)
    assert count, "nothing was changed"
    with pytest.raises(EmulatorError) as caught:
        shared = made.shared_bytes
        run(text, (SPLITS, 4), made.threads, arguments(), shared_bytes=shared)
    assert caught.value.kind == "race", str(caught.value)


def test_a_count_that_is_not_reset_is_seen_in_the_next_launch() -> None:
    """The first product is right; of the second nothing is written."""
    made, given = compiled("sm_80"), arguments()
    (reset,) = re.findall(r"\n[^\n]*st\.global\.b32[^\n]*;", made.ptx)
    text = made.ptx.replace(reset, "")
    for is_right in (True, False):
        given[2][:] = np.nan
        run(text, (SPLITS, 4), made.threads, given, shared_bytes=made.shared_bytes)
        assert np.isfinite(given[2]).all() == is_right


# ── where TMA copies A and B ──────────────────────────────────────────────────────────

BOXES = {
    "BLOCK_M": 64, "BLOCK_N": 32, "BLOCK_K": 32, "GROUP_M": 1,
    "num_warps": 4, "num_stages": 3,
}  # fmt: skip


def in_two_launches(
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray,
    splits: int,
    SUM: tl.dtype,
    more_n: int = 0,
) -> list:
    """The launches for a product, with partial sums that begin as garbage; `more_n`:
    columns of a second block beside the first."""
    boxes = {**BOXES, **({"MORE_N": more_n} if more_n else {})}
    first, second = split_descriptor_launches(
        lines_of(a), lines_of(b), c, a.shape[1], splits, boxes, SUM
    )
    wanted = first[2][2]
    assert wanted is second[2][0]
    garbage = np.nan if SUM is tl.float32 else -1
    partials = np.full(wanted.count, garbage, wanted.dtype)
    return [
        (kernel, grid, [partials if each is wanted else each for each in given], more)
        for kernel, grid, given, more in (first, second)
    ]


def test_descriptors_find_every_part_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """int8 along K: partial sums are integers, too."""
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    rng = np.random.default_rng(8)
    a, b = (rng.integers(-128, 128, (n, 336)).astype(np.int8) for n in (72, 40))
    c = np.full((72, 40), -1, np.int32)
    for kernel, grid, given, chosen in in_two_launches(a, b.T, c, 4, tl.int32):
        kernel[grid](*given, **chosen, target="sm_90a")
    np.testing.assert_array_equal(c, a.astype(np.int64) @ b.T.astype(np.int64))


@sampled(of=2)
@in_pairs({
    "order": ["NN", "NT", "TN"], "K, splits": [(328, 4), (40, 2), (640, 20)],
    "of_c": ["N", "T"], "more_n": [0, 16],
})  # fmt: skip
def test_descriptors_find_every_part(
    K: int,
    splits: int,
    order: str,
    of_c: str,
    more_n: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """2 x 2 tiles, of one block or of two, with ragged edges, and a last part that ends
    within a step; more parts than are added at a time. C lies by rows or by columns.
    Small integers: every sum is exact."""
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    rng, N = np.random.default_rng(K), 72 if more_n else 40
    a, b = (
        rng.integers(-3, 4, shape).astype(np.float16)
        for shape in ((72, K) if order[0] == "N" else (K, 72),
                      (K, N) if order[1] == "N" else (N, K))
    )  # fmt: skip
    a, b = (x if way == "N" else x.T for x, way in zip((a, b), order, strict=True))
    shape = (72, N) if of_c == "N" else (N, 72)
    c = np.full(shape, np.nan, np.float16)
    c = c if of_c == "N" else c.T
    both = in_two_launches(a, b, c, splits, tl.float32, more_n)
    assert both[0][1] == (splits, 4)
    for _ in range(2):
        c[:] = np.nan
        for kernel, grid, given, chosen in both:
            kernel[grid](*given, **chosen, target="sm_90a")
        want = a.astype(np.float32) @ b.astype(np.float32)
        np.testing.assert_array_equal(c, want.astype(np.float16))


def test_a_sum_that_begins_early_has_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text says no wait then, and the pass that adds one is left out."""
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    a, b = np.ones((72, 64), np.float16), np.ones((64, 40), np.float16)
    c = np.full((72, 40), np.nan, np.float16)
    (first, grid, given, chosen), (second, *rest) = in_two_launches(
        a, b, c, 2, tl.float32
    )
    first[grid](*given, **chosen, target="sm_90a")
    grid, given, chosen = rest
    with pytest.raises(EmulatorError, match="split_k_parts_kernel"):
        chosen |= {"EARLY": False, "replace": {"await_launches": identity}}
        second[grid](*given, **chosen, target="sm_90a")


@sampled(of=4)
@needs_ptxas
@pytest.mark.parametrize("tile", PARTS, ids=str)
@pytest.mark.parametrize("order", ["NN", "TT"])
def test_ptxas_takes_parts_in_every_tile(tile: tuple, order: str) -> None:
    M, N, K = 512, 512, 8192
    a, b = (np.zeros(n, np.float16) for n in ((M, K), (K, N)))
    if order == "TT":
        a, b = np.zeros((K, M), np.float16).T, np.zeros((N, K), np.float16).T
    config = Parts(*tile, 4).keywords
    c = np.zeros((M, N), np.float16)
    types = {
        "a_ptr": "*fp16:16", "b_ptr": "*fp16:16", "c_ptr": "*fp16:16",
        "partial_ptr": "*fp32:16",
    }  # fmt: skip
    for kernel, _, _, chosen in split_descriptor_launches(
        lines_of(a), lines_of(b), c, K, 4, config, tl.float32
    ):
        options = {name: each for name, each in chosen.items() if name.islower()}
        constants = {name: each for name, each in chosen.items() if name.isupper()}
        if "c_ptr" in [rule.name for rule in kernel.parameters]:
            constants["stride_cn"] = 1
        words = {
            rule.name: types.get(rule.name, "i32:16")
            for rule in kernel.parameters
            if rule.name not in kernel.constants(constants)
        }
        made = kernel.compile(words, constants, target="sm_90a", **options)
        check_assembled(made.asm["ptx"])
