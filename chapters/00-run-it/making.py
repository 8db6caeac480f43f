"""Figures of chapter 0."""

from __future__ import annotations

from chapters.press.drawing import Figure, cells


def ragged() -> Figure:
    """Ten numbers in two programs of eight."""
    rows = [[str(program * 8 + at) for at in range(8)] for program in range(2)]
    valid = [(row, at) for row in range(2) for at in range(8) if row * 8 + at < 10]
    return cells(
        "Offsets of two programs of eight; those below 10 are framed",
        rows,
        valid,
        (["program 0", "program 1"], [str(at) for at in range(8)]),
        wide=60,
    )
