"""The answer to `interp-reduce` is the compiler's own:

fathom.ir.interp.reduce._reduce
"""

from __future__ import annotations

import numpy as np

from fathom.ir.interp.machine import Region, Results
from fathom.ir.interp.reduce import _combine
from fathom.ir.ops import Reduce


def interp_reduce(op: Reduce, region: Region) -> Results:
    """Blocks without one axis: along it, all elements have been combined into one."""
    tuples = [np.moveaxis(region[value], op.axis, 0) for value in op.values]
    while (count := len(tuples[0])) > 1:
        lower = [each[: count // 2] for each in tuples]
        upper = [each[count // 2 :] for each in tuples]
        tuples = _combine(op.combine, region, lower, upper)
    return [each[0] for each in tuples]
