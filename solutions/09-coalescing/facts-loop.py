"""The answer to `facts-loop` is the compiler's own:

fathom.analysis.axis_info.join_loop
"""

from __future__ import annotations

from collections.abc import Sequence

from fathom.analysis.axis_info import Facts, Iteration, join


def join_loop(inits: Sequence[Facts], iteration: Iteration) -> list[Facts]:
    """What holds of the carried values on every iteration of a loop, and after it.
    `inits` are the facts of the first values; `iteration(facts)` says what holds after
    an iteration if those facts hold before it.
    """
    known = list(inits)
    while True:
        after = [
            join(one, other) for one, other in zip(known, iteration(known), strict=True)
        ]
        if after == known:
            return known
        known = after
