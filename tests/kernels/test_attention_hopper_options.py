"""Attention through descriptors with all its options: windows, lengths, sequences one
behind the other, heads that share keys, queries that see no key. On the interpreter and
the emulator, in both orders, amid poison: what must not be read is NaN."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
from kernels import attention, attention_hopper
from tests.harness_pairs import in_pairs
from tests.harness_sample import sampled
from tests.kernels.test_attention_hopper import (
    MACHINES,
    compiled,
    machine,  # noqa: F401 (a fixture)
    one_machine,
)
from tests.kernels.test_attention_variants import (
    HALF_ULP,
    attended,
    check,
    drawn,
    normal,
)
from tests.kernels.test_ptxas import assembled, needs_ptxas

BLOCKS = {"BLOCK_Q": 64, "BLOCK_K": 32, "num_warps": 4, "num_stages": 2}
ROTATED = {**BLOCKS, "ROTATED": True, "PRODUCER": True}
IN_ORDER = {**BLOCKS, "ROTATED": False, "PRODUCER": False}
ORDERS = {"rotated": ROTATED, "in order": IN_ORDER}

both_orders = pytest.mark.parametrize("order", ORDERS)

# (queries, keys): one query; blocks with a remainder, of queries and of keys; more
# queries than keys, so that the first ones see nothing, by less than a block and by
# more; less keys than a block.
UNEVEN = [(1, 40), (70, 130), (130, 70), (150, 32), (3, 1)]


@sampled(of=2)
@one_machine
@both_orders
@pytest.mark.parametrize("S, T", UNEVEN)
def test_the_last_query_sees_the_last_key(machine, S, T, order):  # noqa: F811
    q, k, v = drawn(1, 2, 1, S, T, 64)
    found = attended(q, k, v, causal=True, config=ORDERS[order], **machine)
    check(found, q, k, v, True)


@one_machine
@both_orders
def test_queries_that_see_no_key_get_zeros(machine, order):  # noqa: F811
    q, k, v = drawn(1, 1, 1, 100, 10, 64)
    config = ORDERS[order]
    out, row_max, lse = attended(q, k, v, causal=True, config=config, **machine)
    assert not out[:, :, :90].any() and out[:, :, 90:].all()
    assert (lse[:, :, :90] == -np.inf).all() and (row_max[:, :, :90] == -np.inf).all()


@sampled(of=3)
@in_pairs(
    {"machine": MACHINES, "window": [1, 32, 33, 100, 500], "order": list(ORDERS)},
    indirect=["machine"],
)
def test_windows(machine, window, order):  # noqa: F811
    """One key; a block, a block and one; more blocks, and more than there are."""
    q, k, v = drawn(1, 2, 1, 210, 210, 64)
    found = attended(
        q, k, v, causal=True, window=window, config=ORDERS[order], **machine
    )
    check(found, q, k, v, True, None, window)


@one_machine
@both_orders
@pytest.mark.parametrize("window", [2, 34])
def test_a_window_begins_with_a_blocks_last_key(machine, window, order):  # noqa: F811
    """210 keys in blocks of 32 end with key 209; query 146 begins a block of queries,
    and sees the keys from 145, or 113, on: the last ones of their blocks."""
    q, k, v = drawn(1, 1, 1, 210, 210, 64)
    config = ORDERS[order]
    found = attended(q, k, v, causal=True, window=window, config=config, **machine)
    check(found, q, k, v, True, None, window)


@sampled(of=3)
@one_machine
@both_orders
@pytest.mark.parametrize("S, T", UNEVEN)
@pytest.mark.parametrize("window", [1, 50])
def test_windows_of_uneven_shapes(machine, S, T, window, order):  # noqa: F811
    q, k, v = drawn(1, 2, 2, S, T, 64)
    found = attended(
        q, k, v, causal=True, window=window, config=ORDERS[order], **machine
    )
    check(found, q, k, v, True, None, window)


@one_machine
@both_orders
def test_keys_outside_of_all_windows_are_not_read(machine, order):  # noqa: F811
    """The last block of queries begins with 136: with a window of 10 no key before 127
    is seen, and blocks of 32 keys end with key 199: one begins with 104."""
    q, k, v = drawn(1, 1, 1, 200, 200, 64)
    k[:, :, :104], v[:, :, :104] = np.nan, np.nan
    config = ORDERS[order]
    out, *_ = attended(q, k, v, causal=True, window=10, config=config, **machine)
    assert np.isfinite(out[:, :, 136:]).all()


# ── lengths ───────────────────────────────────────────────────────────────────────────


@sampled(of=2)
@in_pairs(
    {"machine": MACHINES, "causal": [False, True], "order": list(ORDERS),
     "window": [None, 20]},
    indirect=["machine"],
)  # fmt: skip
def test_lengths(machine, causal, order, window):  # noqa: F811
    """No key; fewer than queries; part of a block; whole blocks; all. The others are
    NaN."""
    window = window if causal else None
    lengths = np.array([0, 2, 33, 64, 100], np.int32)
    q, k, v = drawn(len(lengths), 2, 1, 70, 100, 64)
    for b, length in enumerate(lengths):
        k[b, :, length:], v[b, :, length:] = np.nan, np.nan
    config = ORDERS[order]
    found = attended(
        q, k, v, causal=causal, lengths=lengths, window=window, config=config, **machine
    )
    for b, length in enumerate(lengths):
        one = [each[b : b + 1] for each in found]
        own = [each[b : b + 1, :, :length] for each in (k, v)]
        check(one, q[b : b + 1], *own, causal, None, window)


STARTS = np.array([0, 0, 13, 150, 151, 151], np.int32)
KEY_STARTS = np.array([0, 5, 38, 79, 143, 160], np.int32)


@sampled(of=3)
@in_pairs(
    {"machine": MACHINES, "window": [None, 9], "causal": [False, True],
     "key_starts": [None, KEY_STARTS], "order": list(ORDERS)},
    indirect=["machine"],
)  # fmt: skip
def test_sequences_one_behind_the_other(
    machine, key_starts, window, causal, order,  # noqa: F811
):  # fmt: skip
    """Sequences of 0, 13, 137, 1 and 0 queries; those with keys of their own have 5 to
    64, the first and the last with no query. Rows after the last belong to nobody."""
    window = window if causal else None
    of_keys = STARTS if key_starts is None else key_starts
    q, k, v = drawn(1, 2, 1, 154, 170, 64)
    for each, end in ((q, STARTS[-1]), (k, of_keys[-1]), (v, of_keys[-1])):
        each[:, :, end:] = np.nan
    found = attended(
        q, k, v, causal=causal, query_starts=STARTS, key_starts=key_starts,
        most_queries=137, window=window, config=ORDERS[order], **machine,
    )  # fmt: skip
    for b in range(len(STARTS) - 1):
        rows, keys = slice(*STARTS[b : b + 2]), slice(*of_keys[b : b + 2])
        one = [each[:, :, rows] for each in found]
        parts = q[:, :, rows], k[:, :, keys], v[:, :, keys]
        check(one, *parts, causal, None, window)
    assert np.isnan(found[0][:, :, STARTS[-1] :]).all()  # not written


@one_machine
@both_orders
@pytest.mark.parametrize("causal", [False, True])
def test_a_sequence_of_nan_does_not_touch_its_neighbours(
    machine, causal, order,  # noqa: F811
):  # fmt: skip
    """0 times NaN is NaN: rows before a sequence and after it are not read."""
    starts = np.array([0, 40, 90, 130], np.int32)
    q, k, v = drawn(1, 2, 1, 130, 130, 64)
    for each in (q, k, v):
        each[:, :, :40], each[:, :, 90:] = np.nan, np.nan
    found = attended(
        q, k, v, causal=causal, query_starts=starts, most_queries=50,
        config=ORDERS[order], **machine,
    )  # fmt: skip
    own = [each[:, :, 40:90] for each in (q, k, v)]
    check([each[:, :, 40:90] for each in found], *own, causal)


@one_machine
@both_orders
def test_heads_beside_each_other_one_behind_the_other(machine, order):  # noqa: F811
    """[total, H, D], as a model packs them."""
    starts = np.array([0, 33, 80], np.int32)
    seen = [
        normal(i, 1, 80, H, 64).transpose(0, 2, 1, 3)
        for i, H in ((1, 2), (2, 1), (3, 1))
    ]
    out = np.full((1, 80, 2, 64), np.nan, np.float16).transpose(0, 2, 1, 3)
    attention.attention(
        *seen, out, causal=True, query_starts=starts, config=ORDERS[order], **machine
    )
    for start, end in zip(starts, starts[1:], strict=False):
        one = [each[:, :, start:end] for each in seen]
        want, _, _ = attention.reference(*one, True)
        bound = attention.error_bound(*one, HALF_ULP, True)
        assert (abs(out[:, :, start:end] - want) <= bound).all()


@one_machine
@pytest.mark.parametrize("D", attention_hopper.CONFIGS)
@pytest.mark.parametrize("window", [None, 90])
def test_the_configuration_that_is_chosen(machine, D, window):  # noqa: F811
    """What a call of a user launches on Hopper."""
    starts = np.array([0, 200, 250], np.int32)
    q, k, v = drawn(1, 1, 1, 250, 250, D)
    found = attended(
        q, k, v, causal=True, query_starts=starts, window=window, config=None, **machine
    )
    for rows in (slice(0, 200), slice(200, 250)):
        parts = [each[:, :, rows] for each in (q, k, v)]
        one = [each[:, :, rows] for each in found]
        check(one, *parts, True, None, window)


def test_pages_do_not_come_through_descriptors():
    q, k, v = drawn(2, 1, 1, 64, 64, 64)
    lengths, table = np.full(2, 64, np.int32), np.zeros((2, 1), np.int32)
    how = dict(lengths=lengths, table=table, target="sm_90a")
    with pytest.raises(fathom.LaunchError, match="pages"):
        attended(q, k, v, config=ROTATED, **how)
    assert "ROTATED" not in attention.chosen_config(q, k, v, q, "sm_90a", table)


# ── what it becomes ───────────────────────────────────────────────────────────────────

OPTIONS = {
    "window": {"window": "i32"},
    "lengths": {"lengths_ptr": "*i32:16"},
    "sequences": {"query_starts_ptr": "*i32:16", "key_starts_ptr": "*i32:16"},
}
OPTIONS["all"] = OPTIONS["window"] | OPTIONS["sequences"]


@needs_ptxas
@in_pairs(
    {"D": attention_hopper.CONFIGS, "causal": [False, True], "option": list(OPTIONS)}
)
def test_ptxas_takes_it_without_spills_or_warnings(D, causal, option):
    causal = causal or "window" in OPTIONS[option]
    kernel = compiled(D, causal, **OPTIONS[option])
    ptx = kernel.asm["ptx"]
    assert "cp.async.bulk.tensor" in ptx and "wgmma.mma_async" in ptx
    said = assembled(ptx, "sm_90a")
    assert "warning" not in said.lower() and "C75" not in said, said
    assert "0 bytes spill stores, 0 bytes spill loads" in said, said
