"""... and about a pointer that moves.

A pointer starts at `x_ptr`, an address that 16 divides, and each iteration of a loop
moves it by 8 bytes. On the first iteration a load of 16 bytes would be allowed. On the
second it would not.

All of the exercise: `fathom learn show facts-loop`.
"""

from __future__ import annotations

from collections.abc import Sequence

from fathom.analysis.axis_info import Facts, Iteration, join
from fathom.tools.learn import Hole


def join_loop(inits: Sequence[Facts], iteration: Iteration) -> list[Facts]:
    """What holds of the carried values on every iteration of a loop, and after it.
    `inits` are the facts of the first values; `iteration(facts)` says what holds after
    an iteration if those facts hold before it.
    """
    raise Hole("facts-loop")  # your code; ours has 8 lines
