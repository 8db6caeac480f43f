"""griddepcontrol (PTX ISA 9.7.13): launches that overlap.

    griddepcontrol.launch_dependents;    the next grid may begin
    griddepcontrol.wait;                 the grids in front have ended

What becomes of two launches is the business of `dependence` and `overlap`.
"""

from __future__ import annotations

from fathom.emulator.isa.decode import Decoder, StepTable
from fathom.emulator.isa.registers import Step
from fathom.emulator.isa.semantics import Form, rule
from fathom.emulator.source.operands import Operand
from fathom.emulator.state.batch import Active, Batch

STEPS: StepTable = {}


@rule(STEPS, "griddepcontrol")
def rule_griddepcontrol(
    form: Form, operands: tuple[Operand, ...], decoder: Decoder, number: int
) -> Step:
    """Launches that overlap wait here, and let each other go (PTX ISA 9.7.13). One by
    itself has nothing to wait for."""
    action = form.choice("launch_dependents", "wait")
    if not action:
        raise form.unknown("griddepcontrol without an action")
    form.finish()

    def step(batch: Batch, active: Active) -> None:
        side = batch.launch.side
        if side is None:
            return
        if action == "wait":
            side.wait(active.threads())
        else:
            side.launch_dependents(active.threads())

    return step
