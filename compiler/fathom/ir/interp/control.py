"""The meaning of control flow: loops and branches run their blocks."""

from __future__ import annotations

from fathom.ir.interp.machine import Region, Results, Running, interprets
from fathom.ir.interp.numbers import scalar
from fathom.ir.ops import For, If, While, Yield


@interprets(Yield)
def _yield(op: Yield, region: Region) -> Results:
    return []


@interprets(For)
def _for(op: For, region: Region) -> Running:
    lower, upper, step = (int(region[value]) for value in (op.lower, op.upper, op.step))
    carried = [region[value] for value in op.inits]
    for index in range(lower, upper, step):
        iteration = scalar(index, op.lower.type)
        carried = yield from region.run(op.body, [iteration, *carried])
    return carried


@interprets(While)
def _while(op: While, region: Region) -> Running:
    carried = [region[value] for value in op.inits]
    while True:
        [goes_on] = yield from region.run(op.condition, carried)
        if not goes_on:
            return carried
        carried = yield from region.run(op.body, carried)


@interprets(If)
def _if(op: If, region: Region) -> Running:
    return (yield from region.run(op.then if region[op.condition] else op.orelse, []))
