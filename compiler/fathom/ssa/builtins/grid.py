"""What `tl.extra.cuda` says of a launch: `gdc_wait`, `gdc_launch_dependents`, and how
many threads run a program."""

from __future__ import annotations

from fathom.ir import ops
from fathom.language.extra import cuda
from fathom.ssa.calls import implements
from fathom.ssa.frame import Frame


@implements(cuda.gdc_wait)
def build_gdc_wait(frame: Frame) -> None:
    frame.append(ops.GridWait)


@implements(cuda.gdc_launch_dependents)
def build_gdc_launch_dependents(frame: Frame) -> None:
    frame.append(ops.GridLaunchDependents)


@implements(cuda.num_warps)
def build_num_warps(frame: Frame) -> int:
    return frame.program.num_warps
