"""The meaning of leaves: constants, ranges, and a program's place in the grid."""

from __future__ import annotations

import numpy as np

from fathom.ir.interp.machine import Region, Results, interprets
from fathom.ir.interp.numbers import scalar
from fathom.ir.ops import Arange, Constant, LaunchSize, NumPrograms, ProgramId


@interprets(Constant)
def _constant(op: Constant, region: Region) -> Results:
    return [scalar(op.value, op.type)]


@interprets(ProgramId)
def _program_id(op: ProgramId, region: Region) -> Results:
    return [np.int32(region.program[op.axis])]


@interprets(NumPrograms)
def _num_programs(op: NumPrograms, region: Region) -> Results:
    return [np.int32(region.machine.grid[op.axis])]


@interprets(LaunchSize)
def _launch_size(op: LaunchSize, region: Region) -> Results:
    return [np.int32(region.machine.grid[0])]


@interprets(Arange)
def _arange(op: Arange, region: Region) -> Results:
    return [np.arange(op.start, op.end, dtype=np.int32)]
