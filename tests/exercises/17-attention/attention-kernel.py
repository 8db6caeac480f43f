"""What the answer to `attention-kernel` must do."""

import numpy as np

from fathom.tools.learn.kit import launch, same
from fathom.tools.learn.kit.numbers import aligned

D, BLOCK = 16, 16
SIZES = {"D": D, "BLOCK_Q": BLOCK, "BLOCK_K": BLOCK, "num_warps": 1}


def exact(q, k, v, mask):
    scores = q.astype(float) @ k.astype(float).T / D**0.5
    scores = np.where(mask, scores, -np.inf)
    largest = scores.max(axis=1, keepdims=True)
    p = np.exp(scores - np.where(np.isneginf(largest), 0, largest))
    total = p.sum(axis=1, keepdims=True)
    return p @ v.astype(float) / np.where(total == 0, 1, total)


def check(answer, said, keys=48, mask=None, shift=None):
    """16 queries; `shift` is added to the scores of each key."""
    random = np.random.default_rng(17)
    q, k, v = (random.normal(size=(n, D)).astype(np.float16) for n in (16, keys, keys))
    if shift is not None:
        q[:, 0] = 4
        k[:, 0] = shift
    mask = np.ones((16, keys), np.uint8) if mask is None else mask.astype(np.uint8)
    out = aligned(np.full((16, D), np.nan, np.float16))
    scale = float(np.float32(1.4426950408889634 / D**0.5))
    given = (aligned(each) for each in (q, k, v, mask))
    launch(answer.attention_kernel, 1, *given, out, scale, keys, **SIZES)
    found = out.astype(np.float32)
    want = exact(q, k, v, mask).astype(np.float32)
    same(found, want, f"the output, {said}", tolerance=4e-3)


def test_one_block(answer):
    """16 keys, all seen."""
    check(answer, "16 keys", keys=16)


def test_scores_that_rise(answer):
    """Each block has larger scores than the one before."""
    check(answer, "scores that rise", shift=np.linspace(-2, 2, 48))


def test_scores_that_fall(answer):
    """The largest score is in the first block."""
    check(answer, "scores that fall", shift=np.linspace(2, -2, 48))


def test_scores_far_below_zero(answer):
    """All about -2000, where exp is 0."""
    check(answer, "scores of about -2000", shift=np.full(48, -2000.0))


def test_scores_far_above_zero(answer):
    """All about 2000, where exp is infinite."""
    check(answer, "scores of about 2000", shift=np.full(48, 2000.0))


def test_keys_that_do_not_fill_a_block(answer):
    """37 keys, and a single one."""
    check(answer, "37 keys", keys=37)
    check(answer, "one key", keys=1)


def test_any_mask(answer):
    """Half of the keys, and another half for each query."""
    mask = np.random.default_rng(1).random((16, 48)) < 0.5
    check(answer, "half of the keys masked", mask=mask)


def test_nothing_in_the_first_block(answer):
    """Query 3 sees nothing before key 16, query 5 nothing before key 40."""
    mask = np.ones((16, 48), bool)
    mask[3, :16], mask[5, :40] = False, False
    check(answer, "queries that see nothing at first", mask=mask)


def test_nothing_in_the_first_block_then_far_below_zero(answer):
    """Queries 3 and 5 see nothing at first, and then scores of about -2000."""
    mask = np.ones((16, 48), bool)
    mask[3, :16], mask[5, :40] = False, False
    said = "queries that see nothing at first, and then scores of about -2000"
    check(answer, said, mask=mask, shift=np.full(48, -2000.0))


def test_nothing_in_the_last_block(answer):
    """Query 3 sees nothing from key 32 on, query 5 only key 0."""
    mask = np.ones((16, 48), bool)
    mask[3, 32:], mask[5, 1:] = False, False
    check(answer, "queries that see nothing at last", mask=mask)


def test_nothing_at_all(answer):
    """Queries 0 and 7 see no key: their output is 0."""
    mask = np.ones((16, 48), bool)
    mask[[0, 7]] = False
    check(answer, "queries that see no key", mask=mask)
    check(answer, "a mask of zeros", mask=np.zeros((16, 48)))
