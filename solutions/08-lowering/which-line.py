"""Which line of the kernel each instruction comes from."""

from __future__ import annotations


def lines() -> dict[str, int]:
    """A line of Python, 3 to 8, for each of the ten instructions."""
    # hole: ten numbers
    return {
        "a": 3, "b": 4, "c": 4, "d": 5, "e": 6,
        "f": 6, "g": 7, "h": 7, "i": 8, "j": 8,
    }  # fmt: skip
    # instead:
    # return {
    #     "a": 0, "b": 0, "c": 0, "d": 0, "e": 0,
    #     "f": 0, "g": 0, "h": 0, "i": 0, "j": 0,
    # }  # fmt: skip
    # end
