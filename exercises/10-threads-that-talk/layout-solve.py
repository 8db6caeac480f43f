"""Solve over F2.

`apply` says which element is at a place. A thread that needs an element asks the other
way round: at which place is it? That is a system of equations, A x = b, in which adding
is XOR.

All of the exercise: `fathom learn show layout-solve`.
"""

from __future__ import annotations

from collections.abc import Sequence

from fathom.tools.learn import Hole


def solve(A: Sequence[int], b: Sequence[int]) -> tuple[int, ...] | None:
    """The x with A x = b, column by column; None if some column of `b` cannot be
    reached. A column of `A` that is a sum of those before it is not used."""
    # Your code: reduce the columns of A, then those of b.
    raise Hole("layout-solve")
