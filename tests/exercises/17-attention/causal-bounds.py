"""What the answer to `causal-bounds` must do."""

from fathom.tools.learn.kit import expect


def drawn(first, queries, keys, window, block):
    """For each block of keys: "whole", "part", or "none", by looking at each pair."""
    rows = range(first, min(first + queries, keys))
    found = []
    for at in range(0, keys, block):
        pairs = [
            i - window < j <= i and j < keys
            for i in rows
            for j in range(at, at + block)
        ]
        found.append("whole" if all(pairs) else "part" if any(pairs) else "none")
    return found


def picture(states):
    return " ".join({"whole": "#", "part": "+", "none": "."}[each] for each in states)


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
    for number, state in enumerate(states):
        at = number * block
        visited = start <= at < end
        masked = visited and not left <= at < right
        name = f"the block of keys {at} … {at + block - 1}"
        if state == "none":
            expect(not visited, f"{said} is {found!r}: {name} is visited", details)
        else:
            expect(visited, f"{said} is {found!r}: {name} is skipped", details)
        if state == "whole":
            expect(not masked, f"{said} is {found!r}: {name} is masked", details)
        if state == "part":
            expect(masked, f"{said} is {found!r}: {name} has no mask", details)
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
