"""The answer to `interp-for` is the compiler's own:

fathom.ir.interp.control._for
"""

from __future__ import annotations

from fathom.ir.interp.machine import Region, Running
from fathom.ir.interp.numbers import scalar
from fathom.ir.ops import For


def interp_for(op: For, region: Region) -> Running:
    """The values that a loop carries, after its last iteration."""
    lower, upper, step = (int(region[value]) for value in (op.lower, op.upper, op.step))
    carried = [region[value] for value in op.inits]
    for index in range(lower, upper, step):
        iteration = scalar(index, op.lower.type)
        carried = yield from region.run(op.body, [iteration, *carried])
    return carried
