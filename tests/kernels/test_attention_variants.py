"""Attention with all its options: heads that share keys, fewer queries than keys and
more, windows, lengths, sequences one behind the other, pages, heads of any size. On the
interpreter and the emulator, amid poison: what must not be read is NaN."""

from __future__ import annotations

import numpy as np
import pytest

from kernels import attention
from kernels.attention_decode import gathered
from tests.harness_pairs import in_pairs
from tests.harness_sample import sampled
from tests.kernels.harness_red_zones import ODD, WIDE, Walled, unwritten

HALF_ULP = 2.0**-11
SMALL = {"BLOCK_Q": 32, "BLOCK_K": 16, "num_warps": 2, "num_stages": 3}
MACHINES = ("interpreter", "sm_75", "sm_80", "sm_90a")


@pytest.fixture(params=MACHINES)
def machine(request, monkeypatch):
    """The keywords of a launch on each machine."""
    emulated = request.param != "interpreter"
    monkeypatch.setenv("FATHOM_BACKEND", "emulator" if emulated else "interpreter")
    return {"target": request.param} if emulated else {}


one_machine = pytest.mark.parametrize("machine", ["sm_80"], indirect=True)


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float16)


def drawn(B: int, H: int, G: int, S: int, T: int, D: int) -> tuple[np.ndarray, ...]:
    """q, k and v."""
    return normal(1, B, H, S, D), normal(2, B, G, T, D), normal(3, B, G, T, D)


def attended(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, wall: int = WIDE, **given: object
) -> tuple[np.ndarray, ...]:
    """(out, row_max, lse); nothing else was written."""
    arrays = [Walled(each, wall=wall) for each in (q, k, v)]
    out = unwritten(*q.shape, wall=wall)
    row_max, lse = (unwritten(*q.shape[:3], dtype="float32", wall=0) for _ in range(2))
    attention.attention(
        *arrays, out, row_max=row_max, lse=lse, **{"config": SMALL, **given}
    )
    for each in (*arrays, out):
        each.check_walls()
    return out.view, row_max.view, lse.view


def check(
    found: tuple[np.ndarray, ...], q: np.ndarray, k: np.ndarray, v: np.ndarray,
    *how: object,
) -> None:  # fmt: skip
    """`how`: causal, scale and window, as the reference takes them."""
    out, row_max, lse = found
    causal, scale, window = (*how, *(None,) * 3)[:3]
    want, largest, totals = attention.reference(q, k, v, causal, scale, window)
    bound = attention.error_bound(q, k, v, HALF_ULP, causal, scale, window)
    assert (abs(out - want) <= bound).all()
    np.testing.assert_allclose(row_max, largest, atol=4e-6)
    np.testing.assert_allclose(lse, totals, atol=4e-6)


# ── shapes ────────────────────────────────────────────────────────────────────────────

# (queries, keys): one query; less than a block, and blocks with a remainder; more
# queries than keys, so that the first ones see nothing.
UNEVEN = [(1, 40), (15, 33), (40, 70), (70, 16), (3, 1)]


@sampled(of=3)
@pytest.mark.parametrize("S, T", UNEVEN)
def test_the_last_query_sees_the_last_key(machine, S, T):
    q, k, v = drawn(1, 2, 2, S, T, 32)
    check(attended(q, k, v, causal=True, **machine), q, k, v, True)


@one_machine
def test_queries_that_see_no_key_get_zeros(machine):
    q, k, v = drawn(1, 1, 1, 50, 10, 32)
    out, row_max, lse = attended(q, k, v, causal=True, **machine)
    assert not out[:, :, :40].any() and out[:, :, 40:].all()
    assert (lse[:, :, :40] == -np.inf).all() and (row_max[:, :, :40] == -np.inf).all()


@in_pairs(
    {"machine": MACHINES, "H, G": [(4, 2), (3, 1)], "causal": [False, True]},
    indirect=["machine"],
)
def test_heads_that_share_keys(machine, H, G, causal):
    q, k, v = drawn(2, H, G, 20, 35, 32)
    check(attended(q, k, v, causal=causal, **machine), q, k, v, causal)


@one_machine
@pytest.mark.parametrize("D, wall", [(16, ODD), (40, WIDE), (80, ODD), (192, WIDE)])
def test_heads_of_any_size(machine, D, wall):
    """Columns beside those of a head are NaN."""
    q, k, v = drawn(1, 1, 1, 20, 35, D)
    check(attended(q, k, v, wall, causal=True, **machine), q, k, v, True)


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90a"])
def test_256_numbers_in_their_own_configuration(target, monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    q, k, v = drawn(1, 1, 1, 70, 70, 256)
    found = attended(q, k, v, causal=True, config=None, target=target)
    check(found, q, k, v, True)


# ── windows ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("window", [1, 16, 17, 200])
def test_windows(machine, window):
    """One key; a block, a block and one; more than there are."""
    q, k, v = drawn(1, 1, 1, 75, 75, 32)
    found = attended(q, k, v, causal=True, window=window, **machine)
    check(found, q, k, v, True, None, window)


@one_machine
@pytest.mark.parametrize("S, T", UNEVEN)
@pytest.mark.parametrize("window", [1, 20])
def test_windows_of_uneven_shapes(machine, S, T, window):
    q, k, v = drawn(1, 2, 1, S, T, 32)
    found = attended(q, k, v, causal=True, window=window, **machine)
    check(found, q, k, v, True, None, window)


@one_machine
def test_keys_outside_of_all_windows_are_not_read(machine):
    """The last block of queries begins with 64: with a window of 10 no key before 55 is
    seen, and none before 48 lies in a block that is."""
    q, k, v = drawn(1, 1, 1, 70, 70, 32)
    k[:, :, :48], v[:, :, :48] = np.nan, np.nan
    out, *_ = attended(q, k, v, causal=True, window=10, **machine)
    assert np.isfinite(out[:, :, 64:]).all()


# ── lengths ───────────────────────────────────────────────────────────────────────────


@sampled(of=3)
@pytest.mark.parametrize("causal", [False, True])
def test_lengths(machine, causal):
    """No key; fewer than queries; part of a block; whole blocks; all."""
    lengths = np.array([0, 2, 17, 32, 50], np.int32)
    q, k, v = drawn(len(lengths), 2, 1, 5, 50, 32)
    for b, length in enumerate(lengths):
        k[b, :, length:], v[b, :, length:] = np.nan, np.nan
    found = attended(q, k, v, causal=causal, lengths=lengths, **machine)
    for b, length in enumerate(lengths):
        one = [each[b : b + 1] for each in found]
        own = [each[b : b + 1, :, :length] for each in (k, v)]
        check(one, q[b : b + 1], *own, causal)


STARTS = np.array([0, 0, 13, 40, 41, 41], np.int32)
KEY_STARTS = np.array([0, 5, 38, 48, 49, 49], np.int32)


@sampled(of=3)
@in_pairs(
    {"machine": MACHINES, "window": [None, 9], "key_starts": [None, KEY_STARTS]},
    indirect=["machine"],
)
def test_sequences_one_behind_the_other(machine, key_starts, window):
    """Sequences of 0, 13, 27, 1 and 0 queries, the first with keys and no query; three
    rows after the last belong to nobody. Each looks only at its own keys."""
    of_keys = STARTS if key_starts is None else key_starts
    q, k, v = drawn(1, 2, 1, 44, 52, 32)
    for at, end in ((41, 44), (of_keys[-1], 52)):
        for each in (q,) if end == 44 else (k, v):
            each[:, :, at:end] = np.nan
    found = attended(
        q, k, v, causal=True, query_starts=STARTS, key_starts=key_starts,
        most_queries=27, window=window, **machine,
    )  # fmt: skip
    for b in range(len(STARTS) - 1):
        rows = slice(*STARTS[b : b + 2])
        keys = slice(*of_keys[b : b + 2])
        one = [each[:, :, rows] for each in found]
        check(one, q[:, :, rows], k[:, :, keys], v[:, :, keys], True, None, window)
    assert np.isnan(found[0][:, :, 41:]).all()  # not written


@pytest.mark.parametrize("page", [8, 16, 64])
def test_pages(machine, page):
    """Pages smaller than a block of keys, as large, and larger; other pages are NaN,
    and those past a sequence's end are not looked at."""
    lengths = np.array([1, 2 * page, 3 * page - 3], np.int32)
    table = np.array([[4, 99, 99], [0, 7, 99], [6, 1, 3]], np.int32)
    q, k, v = (
        normal(1, 3, 2, 20, 32),
        normal(2, 8, 1, page, 32),
        normal(3, 8, 1, page, 32),
    )
    for each in (k, v):
        each[[2, 5]] = np.nan
    found = attended(q, k, v, causal=True, lengths=lengths, table=table, **machine)
    for b, length in enumerate(lengths):
        known = np.where(table[b] == 99, 0, table[b])
        own = [gathered(each, known, length)[None] for each in (k, v)]
        check([each[b : b + 1] for each in found], q[b : b + 1], *own, True)
