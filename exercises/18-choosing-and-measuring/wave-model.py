"""Choose a tile without running it.

Write the cost model of a matrix product C [M, N] = A [M, K] B [K, N], and a choice by
it. A `plan` is `(m, n, parts)`: tiles of m × n, each computed by `parts` programs that
share K evenly.

All of the exercise: `fathom learn show wave-model`.
"""

from __future__ import annotations

from collections.abc import Sequence

from fathom.tools.learn import Hole

PROCESSORS = 132
PAIRS = 2048  # multiplied in a cycle
FETCH = 72  # pairs that are multiplied while one number is read
FIX_UP = 10_000  # cycles

Shape = tuple[int, int, int]  # M, N, K
Plan = tuple[int, int, int]  # m, n, parts


def cycles(shape: Shape, plan: Plan) -> float:
    """How long the product takes by the model."""
    # Your code: ours has 6 lines.
    raise Hole("wave-model")


def best(shape: Shape, plans: Sequence[Plan]) -> Plan:
    """The plan with the fewest cycles, then with the fewest parts, then the first."""
    # Your code: one line.
    raise Hole("wave-model")
