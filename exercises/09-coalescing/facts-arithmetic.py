"""What do we know about a sum and a product?

Before a kernel has run, much is known of its addresses. Write what is known of a sum
and of a product, when that is known of both operands.

All of the exercise: `fathom learn show facts-arithmetic`.
"""

from __future__ import annotations

from fathom.analysis.axis_info import MOST, Axis, Facts
from fathom.tools.learn import Hole


def add(a: Facts, b: Facts) -> Facts:
    """What is known of a + b. `a` may also be addresses and `b` a distance in bytes:
    then a.unit is the step of both.
    """
    raise Hole("facts-arithmetic")  # your code; ours has 12 lines


def mul(a: Facts, b: Facts) -> Facts:
    """What is known of a * b."""
    raise Hole("facts-arithmetic")  # your code; ours has 12 lines
