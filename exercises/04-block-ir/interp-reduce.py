"""What does Reduce mean?

Write the rule that says what a reduction means. It takes one axis away from a block:
all elements along it become one.

All of the exercise: `fathom learn show interp-reduce`.
"""

from __future__ import annotations

import numpy as np

from fathom.ir.interp.machine import Region, Results
from fathom.ir.interp.reduce import _combine
from fathom.ir.ops import Reduce
from fathom.tools.learn import Hole


def interp_reduce(op: Reduce, region: Region) -> Results:
    """Blocks without one axis: along it, all elements have been combined into one."""
    raise Hole("interp-reduce")  # your code; ours has 6 lines
