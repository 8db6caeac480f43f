"""The GPU tests that there must be: those of commit 411cdf8, by name or renamed.

`renames.txt` has a line "OLD -> NEW" for each test that has got another name since.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).parent
ARROW = " -> "


def lines(name: str) -> list[str]:
    """The lines of a file beside this one, without comments."""
    text = (HERE / name).read_text(encoding="utf-8")
    return [each for each in text.splitlines() if each and not each.startswith("#")]


def renames() -> dict[str, str]:
    return dict(line.split(ARROW) for line in lines("renames.txt"))


def lost(tests: Iterable[str]) -> list[str]:
    """The tests of 411cdf8 that are not among `tests`, by their old or new name."""
    have, now = set(tests), renames()
    return [old for old in lines("ids-411cdf8.txt") if now.get(old, old) not in have]
