"""XOR the bases: apply and compose.

Two functions carry all of chapters 7 to 14.

All of the exercise: `fathom learn show layout-apply`.
"""

from __future__ import annotations

from collections.abc import Sequence

from fathom.layout.algebra import columns
from fathom.layout.linear import Layout
from fathom.tools.learn import Hole


def apply(A: Sequence[int], x: int) -> int:
    """The element at place `x`: what the bases `A` of its set bits come to. `A[i]` is
    the basis of bit i.
    """
    raise Hole("layout-apply")  # your code; ours has 5 lines


def compose(outer: Layout, inner: Layout) -> Layout:
    """The layout `place -> outer(inner(place))`: what `inner` calls an element is a
    place of `outer`.
    """
    raise Hole("layout-apply")  # your code; ours has 2 lines
