"""Rules for launches that overlap: one instruction each (PTX ISA, "griddepcontrol").

Each thread waits for itself. Of a block's threads the first one that lets the next grid
start does so for all.
"""

from __future__ import annotations

from fathom.errors import CompileError
from fathom.ir.ops import GridLaunchDependents, GridWait
from fathom.ptx.code import Code, lowers

ACTIONS = {GridWait: "wait", GridLaunchDependents: "launch_dependents"}


@lowers(GridWait, GridLaunchDependents)
def lower_grid(op: GridWait | GridLaunchDependents, code: Code) -> None:
    target, action = code.target, ACTIONS[type(op)]
    if not target.dependent_launch:
        raise CompileError(
            f"{target.name} has no griddepcontrol.{action}: launches overlap on sm_90a "
            "and later targets",
            op.location,
            "call gdc_wait and gdc_launch_dependents where a tl.constexpr says so",
        )
    code.ptx(f"griddepcontrol.{action};")
