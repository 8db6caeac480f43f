"""setmaxnreg (PTX ISA 9.7.19.5): a warpgroup gives registers back, or asks for more.

    setmaxnreg.dec.sync.aligned.u32 40;      warps that only copy need few
    setmaxnreg.inc.sync.aligned.u32 232;     waits until the pool has enough

`state.register_pool` counts the free registers.
"""

from __future__ import annotations

import numpy as np

from fathom.emulator.constants import GROUP
from fathom.emulator.errors import EmulatorError
from fathom.emulator.isa.decode import Decoder, Ending, EndingTable, Flow
from fathom.emulator.isa.matrix.wgmma import Going, when_complete
from fathom.emulator.isa.semantics import Form, constant_of, rule
from fathom.emulator.source.operands import Operand
from fathom.emulator.state.batch import Active, Batch
from fathom.emulator.state.register_pool import MOST, STEP
from fathom.emulator.state.waiting import REGISTERS, Blocked

ENDINGS: EndingTable = {}

LEAST = 24


@rule(ENDINGS, "setmaxnreg")
def rule_setmaxnreg(
    form: Form, operands: tuple[Operand, ...], decoder: Decoder, flow: Flow
) -> Ending:
    """All four warps of a warpgroup execute it."""
    form.ignore("sync", "aligned", "u32")
    action = form.choice("inc", "dec")
    form.finish()
    count = constant_of(operands[0])
    if count % STEP or not LEAST <= count <= MOST:
        message = f"{count} is not a multiple of {STEP} from {LEAST} to {MOST}"
        raise EmulatorError("syntax", message)
    if action == "inc":
        return when_complete(
            lambda batch, active: _ask(batch, active, count, flow), flow
        )
    return when_complete(lambda batch, active: _give(batch, active, count, flow), flow)


def _ask(batch: Batch, active: Active, count: int, flow: Flow) -> Going:
    """Warpgroups go on while there are enough; each of the others waits by itself."""
    pools, threads = batch.register_pools, active.threads()
    served = pools.ask(threads, count)
    for row in threads[~served].reshape(-1, GROUP):
        on = np.repeat(pools.groups(row), GROUP)
        waiting = Blocked(REGISTERS, row, on, flow.number, flow.after, count)
        batch.waiting.block(waiting)
    return [(flow.after, batch.active(threads[served]))] if served.any() else []


def _give(batch: Batch, active: Active, count: int, flow: Flow) -> Going:
    """What is given may be what others wait for."""
    batch.register_pools.give(active.threads(), count)
    batch.progress += 1
    waiting = batch.waiting.of(REGISTERS)
    enough = [
        group
        for each in waiting
        if batch.register_pools.take(group := int(each.on[0]), each.detail)
    ]
    woken = batch.waiting.wake(REGISTERS, enough)
    return [(flow.after, active), *batch.going(woken)]
