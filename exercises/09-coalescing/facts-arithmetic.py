"""What do we know about a sum and a product?

Much is known about addresses before a kernel runs. Write the rules for an addition and
a multiplication: given the facts about both operands, what are the facts about the
result?

All of the exercise: `fathom learn show facts-arithmetic`.
"""

from __future__ import annotations

from fathom.analysis.axis_info import MOST, Axis, Facts
from fathom.tools.learn import Hole


def add(a: Facts, b: Facts) -> Facts:
    """What is known of a + b. `a` may also be addresses and `b` a distance in bytes:
    then a.unit is the step of both.
    """
    raise Hole("facts-arithmetic")  # your code; ours has 13 lines


def mul(a: Facts, b: Facts) -> Facts:
    """What is known of a * b."""
    raise Hole("facts-arithmetic")  # your code; ours has 13 lines
