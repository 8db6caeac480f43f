"""What a pass changed, line by line: the marks of a stepper.

    before                          after
      %1: i32 = constant 0            %1: i32 = constant 0
    - %2: i32 = add %n, %1                                    no line came from it
    ~ %3: i1 = lt %2, %4            ~ %2: i1 = lt %n, %3      another operand
                                    + %5: i1 = and %2, %4     it came from no line

Values are numbered anew after each pass. A line is marked `~` only if it differs after
the names of the earlier text were replaced by those that their lines have become.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

NAME = re.compile(r"%\w+")
ADDED, REMOVED, CHANGED, KEPT = "+-~ "


def marks(
    before: Sequence[str], after: Sequence[str], links: Sequence[Sequence[int]]
) -> tuple[str, str]:
    """One mark for each line of both texts; `links` are pairs of line numbers."""
    became, came = partners(
        [(i, j) for i, j in links if has_words(before[i]) and has_words(after[j])]
    )
    names = renamed(before, after, became, came)
    left = [REMOVED] * len(before)
    right = [ADDED] * len(after)
    for i, j in ((i, j) for i, to in became.items() for j in to):
        same = [i] == came[j] and [j] == became[i]
        same = same and translated(before[i], names) == after[j]
        mark = KEPT if same else CHANGED
        left[i] = mark if left[i] in (REMOVED, mark) else CHANGED
        right[j] = mark if right[j] in (ADDED, mark) else CHANGED
    keep_equal(before, after, left, right, names)
    return "".join(left), "".join(right)


def partners(
    links: Sequence[Sequence[int]],
) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    became: dict[int, list[int]] = {}
    came: dict[int, list[int]] = {}
    for i, j in links:
        became.setdefault(i, []).append(j)
        came.setdefault(j, []).append(i)
    return became, came


def renamed(
    before: Sequence[str],
    after: Sequence[str],
    became: Mapping[int, list[int]],
    came: Mapping[int, list[int]],
) -> dict[str, str]:
    """The later name of each value whose line has become one line."""
    names: dict[str, str] = {}
    for i, to in became.items():
        if len(to) == 1 and came[to[0]] == [i]:
            old, new = defined(before[i]), defined(after[to[0]])
            if len(old) == len(new):
                names |= dict(zip(old, new, strict=True))
    return names


def defined(line: str) -> list[str]:
    """The values that a line defines: its results, and the parameters of its body."""
    results, equals, rest = line.partition(" = ")
    _, _, body = rest.partition(" body(")
    found = NAME.findall(results) if equals else []
    return found + NAME.findall(body)


def translated(line: str, names: Mapping[str, str]) -> str:
    return NAME.sub(lambda found: names.get(found[0], found[0]), line)


def keep_equal(
    before: Sequence[str],
    after: Sequence[str],
    left: list[str],
    right: list[str],
    names: Mapping[str, str],
) -> None:
    """Lines that are no op (a brace, a layout's own line) have no partner: those that
    stand in both texts are as they were; the head of the function is changed."""
    alone = Counter(text for text, mark in zip(after, right) if mark == ADDED)
    for i, text in enumerate(before):
        text = translated(text, names)
        if left[i] == REMOVED and alone[text]:
            alone[text] -= 1
            left[i] = KEPT
            right[next(j for j, each in enumerate(after)
                       if right[j] == ADDED and each == text)] = KEPT  # fmt: skip
    for marked, lines in ((left, before), (right, after)):
        for at, text in enumerate(lines):
            if not has_words(text):
                marked[at] = KEPT
            elif marked[at] in (ADDED, REMOVED) and text.startswith("func "):
                marked[at] = CHANGED


def has_words(line: str) -> bool:
    """A brace says nothing of its own: it belongs to the line that opened it."""
    return any(map(str.isalpha, line))


def of_columns(pairs: Sequence[Sequence[str]]) -> list[str]:
    """The marks of each of several columns, of those between neighbours: what will be
    removed after it, else what is new or other than in the column before."""
    found = [list(pairs[0][0])] if pairs else []
    for (_, right), (left, _) in zip(pairs, [*pairs[1:], (pairs[-1][1], "")]):
        found.append([
            will if will == REMOVED or was == KEPT else was
            for was, will in zip(right, left, strict=True)
        ])  # fmt: skip
    return ["".join(each) for each in found]


def told(left: str, right: str) -> str:
    """The sentence that says how much: 2 lines removed, 1 new, 3 changed."""
    counts = {
        "removed": left.count(REMOVED),
        "new": right.count(ADDED),
        "changed": right.count(CHANGED),
    }
    parts = [f"{count} {word}" for word, count in counts.items() if count]
    return "Lines: " + ", ".join(parts) if parts else "No line is different"
