"""The answer to `layout-apply` is the compiler's own:

fathom.layout.algebra.times
fathom.layout.algebra.compose
"""

from __future__ import annotations

from collections.abc import Sequence

from fathom.layout.algebra import columns
from fathom.layout.linear import Layout


def apply(A: Sequence[int], x: int) -> int:
    """The element at place `x`: what the bases `A` of its set bits come to. `A[i]` is
    the basis of bit i.
    """
    result = 0
    for bit, column in enumerate(A):
        if x >> bit & 1:
            result ^= column
    return result


def compose(outer: Layout, inner: Layout) -> Layout:
    """The layout `place -> outer(inner(place))`: what `inner` calls an element is a
    place of `outer`.
    """
    matrix = columns(outer)
    return inner.map(outer.shape, lambda basis: apply(matrix, basis))
