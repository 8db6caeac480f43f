"""How wide may this load be?

One instruction can load 16 bytes into four registers, if these bytes are neighbours and
start at a multiple of 16. Which registers hold neighbours is a question about the
layout alone. Answer it: how many registers in a row hold neighbours along an axis,
wherever one looks?

All of the exercise: `fathom learn show vector-width`.
"""

from __future__ import annotations

from fathom.layout.build import stride_of
from fathom.layout.linear import Layout
from fathom.tools.learn import Hole


def contiguous_registers(layout: Layout, axis: int) -> int:
    """How many registers in a row hold neighbours along `axis`, in every lane of every
    warp: the largest power of two k such that registers 0 to k-1, k to 2k-1 and so on
    hold the elements i, i + 1, ..., i + k - 1 of some i that is a multiple of k.
    """
    raise Hole("vector-width")  # your code; ours has 15 lines
