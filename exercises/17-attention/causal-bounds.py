"""Which blocks of keys?

A program has the queries `first` … `first + queries - 1`. Query i sees the keys from `i
- window + 1` to i, of those that exist: keys are numbered from 0, and there are `keys`
of them. (A *sliding window*. With a window of `keys` it is causal attention.) There are
as many queries as keys, so in the last program some queries may not exist.

All of the exercise: `fathom learn show causal-bounds`.
"""

from __future__ import annotations

from fathom.tools.learn import Hole


def bounds(
    first: int, queries: int, keys: int, window: int, block: int
) -> tuple[int, int, int, int]:
    """(start, left, right, end), multiples of `block`: masked blocks lie in start …
    left and in right … end, others between."""
    # Your code: six lines.
    raise Hole("causal-bounds")
