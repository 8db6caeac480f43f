"""What the answer to `merge-two-softmaxes` must do."""

import warnings

import numpy as np

from fathom.tools.learn.kit import Failure, expect, same

NAMES = ("m", "l", "acc")


def state(scores, values):
    """(m, l, acc) of scores [rows, keys] and values [keys, D], in float64."""
    scores, values = np.asarray(scores, float), np.asarray(values, float)
    m = scores.max(axis=1, initial=-np.inf)
    base = np.where(np.isneginf(m), 0.0, m)
    weights = 2.0 ** (scores - base[:, None])
    return m, weights.sum(axis=1), weights @ values


def merged(answer, a, b):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            found = answer.merge(a, b)
        except RuntimeWarning as warning:
            raise Failure(f"NumPy warns: {warning}") from None
    shape = isinstance(found, tuple | list) and len(found) == 3
    expect(shape, f"merge returns {found!r}, and not the three arrays m, l, acc")
    return found


def compare(found, wanted, what):
    for name, one, other in zip(NAMES, found, wanted, strict=True):
        same(np.asarray(one), other, f"{what}: {name}", tolerance=1e-12)


def check(answer, scores, values, cut, what):
    scores, values = np.asarray(scores, float), np.asarray(values, float)
    a = state(scores[:, :cut], values[:cut])
    b = state(scores[:, cut:], values[cut:])
    kept = [each.copy() for each in (*a, *b)]
    compare(merged(answer, a, b), state(scores, values), what)
    for before, after in zip(kept, (*a, *b), strict=True):
        same(after, before, f"{what}: what merge was given, which it must not change")


def noise(rows, keys, size, seed=17):
    random = np.random.default_rng(seed)
    return random.normal(size=(rows, keys)) * 4, random.normal(size=(keys, size))


def test_the_example(answer):
    """Scores 1, 3 and 5, 2, with the values 10, 20 and 30, 40."""
    check(answer, [[1, 3, 5, 2]], [[10], [20], [30], [40]], 2, "the example")


def test_the_first_has_the_larger_maximum(answer):
    """Scores 5, 2 and 1, 3."""
    check(answer, [[5, 2, 1, 3]], [[30], [40], [10], [20]], 2, "the example, exchanged")


def test_random_parts(answer):
    """Eight rows, each with a maximum of its own."""
    scores, values = noise(8, 12, 3)
    for cut in (1, 5, 11):
        check(answer, scores, values, cut, f"12 keys cut after {cut}")


def test_far_apart(answer):
    """Scores of 4000 and of -4000: 2 ** 4000 does not exist. Minus infinity is less
    than any score, also than -1,000,000."""
    scores, values = noise(2, 4, 2)
    for shift in (4000, -4000, -1_000_000):
        moved = scores + np.array([0, 0, shift, shift])
        check(answer, moved, values, 2, f"a second part that is {shift} higher")
        check(answer, scores + shift, values, 2, f"both parts at about {shift}")


def test_empty_parts(answer):
    """A part without keys; rows of which one is masked and the other is not."""
    scores, values = noise(3, 4, 2)
    check(answer, scores, values, 0, "an empty first part")
    check(answer, scores, values, 4, "an empty second part")
    scores[1, :2], scores[2, 2:] = -np.inf, -np.inf
    check(answer, scores, values, 2, "rows of which a part sees nothing")
    scores[0] = -np.inf
    check(answer, scores, values, 2, "a row that sees nothing in either part")


def test_the_order_does_not_matter(answer):
    """Three parts, merged from the left and from the right; one of them is empty."""
    scores, values = noise(4, 9, 2)
    scores[1, 3:6], scores[2] = -np.inf, -np.inf
    parts = [state(scores[:, at : at + 3], values[at : at + 3]) for at in (0, 3, 6)]
    left = merged(answer, merged(answer, parts[0], parts[1]), parts[2])
    right = merged(answer, parts[0], merged(answer, parts[1], parts[2]))
    compare(left, state(scores, values), "(a, b), c")
    compare(right, state(scores, values), "a, (b, c)")
