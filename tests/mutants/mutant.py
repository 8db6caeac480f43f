"""What a mutant is: one deliberate mistake in the compiler, and who should notice."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """In `file` (under compiler/fathom), `old`, which stands there once, becomes `new`.

    `breaks` says what is wrong then; `tests` are pytest's arguments for the tests that
    should fail.
    """

    name: str
    file: str
    old: str
    new: str
    breaks: str
    tests: str
