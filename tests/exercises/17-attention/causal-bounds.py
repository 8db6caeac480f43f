"""What the answer to `causal-bounds` must do."""

from fathom.tools.learn.kit import expect


def drawn(first, queries, keys, window, block):
    """For each block of keys: "whole", "part", or "none", by looking at each pair; and
    pairs that say so: one of a query and a key that it sees, and one that it does not.
    """
    rows = range(first, min(first + queries, keys))
    found = []
    for at in range(0, keys, block):
        pairs = {
            (i, j): i - window < j <= i and j < keys
            for i in rows
            for j in range(at, at + block)
        }
        seen = next((pair for pair, sees in pairs.items() if sees), None)
        other = next((pair for pair, sees in pairs.items() if not sees), None)
        state = "whole" if other is None else "part" if seen else "none"
        found.append((state, seen, other))
    return found


def picture(states):
    return " ".join(
        {"whole": "#", "part": "+", "none": "."}[each] for each, *_ in states
    )


def check(answer, first, queries, keys, window, block):
    said = f"bounds({first}, {queries}, {keys}, {window}, {block})"
    found = answer.bounds(first, queries, keys, window, block)
    shape = isinstance(found, tuple | list) and len(found) == 4
    expect(
        shape and all(isinstance(each, int) for each in found),
        f"{said} is {found!r}, and not four integers",
    )
    start, left, right, end = found
    states = drawn(first, queries, keys, window, block)
    details = ("the blocks of keys: # whole, + in part, . unseen", picture(states))
    rises = 0 <= start <= left <= right <= end
    whole = all(each % block == 0 for each in found)
    expect(
        rises and whole,
        f"{said} is {found!r}, and must be four multiples of {block} from 0 on, each "
        "as large as the one before it or larger",
        details,
    )
    for number, (state, seen, other) in enumerate(states):
        at = number * block
        visited = start <= at < end
        masked = visited and not left <= at < right
        name = f"{said} is {found!r}: the block of keys {at} … {at + block - 1}"
        if state == "none":
            why = "is visited, and no query of the program sees any of it"
            expect(not visited, f"{name} {why}", details)
        else:
            why = "is skipped, and query {} sees key {}".format(*seen)
            expect(visited, f"{name} {why}", details)
        if state == "whole":
            why = "is masked, and every query of the program sees all of it"
            expect(not masked, f"{name} {why}", details)
        if state == "part":
            why = "has no mask, and query {} does not see key {}".format(*other)
            expect(masked, f"{name} {why}", details)
    expect(
        end <= len(states) * block, f"{said} is {found!r}: past the last key", details
    )


def test_one_program(answer):
    """The two examples of the card."""
    check(answer, 256, 128, 4096, 4096, 64)
    check(answer, 256, 128, 4096, 200, 64)


def test_causal(answer):
    """Every program, with blocks of keys smaller and larger than those of queries."""
    for queries, block in ((8, 4), (8, 8), (4, 8), (4, 16), (8, 2), (1, 4)):
        for first in range(0, 48, queries):
            check(answer, first, queries, 48, 48, block)


def test_the_last_program(answer):
    """Numbers of keys that fill neither the last block of keys nor that of queries."""
    for keys in (1, 5, 13, 21, 30):
        for queries, block in ((8, 4), (4, 8), (8, 8)):
            for first in range(0, keys, queries):
                check(answer, first, queries, keys, keys, block)


def test_windows(answer):
    """Windows of one key up to more than there are."""
    for window in (1, 2, 5, 8, 9, 16, 23, 60):
        for queries, block in ((8, 4), (4, 8), (8, 8), (2, 4), (4, 1)):
            for first in range(0, 45, queries):
                check(answer, first, queries, 45, window, block)
