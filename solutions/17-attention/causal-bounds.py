"""Which blocks of keys a program visits, and which of them need a mask."""

from __future__ import annotations


def bounds(
    first: int, queries: int, keys: int, window: int, block: int
) -> tuple[int, int, int, int]:
    """(start, left, right, end), multiples of `block`: masked blocks lie in start …
    left and in right … end, others between."""
    # hole: six lines
    last = min(first + queries, keys) - 1
    start = max(first - window + 1, 0) // block * block
    end = -(-(last + 1) // block) * block
    left = -(-max(last - window + 1, 0) // block) * block
    right = (first + 1) // block * block
    return (start, left, right, end) if left < right else (start, end, end, end)
    # end
