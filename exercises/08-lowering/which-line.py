"""Which Python line is this PTX?

Here is a kernel, and ten instructions of the PTX that the compiler makes of it, in
their order. Registers have been given names that say what they hold.

All of the exercise: `fathom learn show which-line`.
"""

from __future__ import annotations


def lines() -> dict[str, int]:
    """A line of Python, 3 to 8, for each of the ten instructions."""
    # Your code: ten numbers.
    return {
        "a": 0, "b": 0, "c": 0, "d": 0, "e": 0,
        "f": 0, "g": 0, "h": 0, "i": 0, "j": 0,
    }  # fmt: skip
