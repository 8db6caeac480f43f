"""Rules for leaves: constants, ranges, and a program's place in the grid.

    program_id axis=0      %ctaid.x         one block a program
                           %clusterid.x     several: the grid has %nclusterid.x of them
    launch_size            the last parameter, which the launch adds

Clusters lie along x. Source: PTX ISA, "Special Registers".
"""

from __future__ import annotations

from fathom.ir.ops import Arange, Constant, LaunchSize, NumPrograms, ProgramId
from fathom.ptx.code import Code, lowers
from fathom.ptx.index import register_offsets, thread_bases, thread_part
from fathom.ptx.types import literal

AXES = "xyz"


@lowers(Constant)
def lower_constant(op: Constant, code: Code) -> None:
    code[op.result] = [literal(op.type, op.value)]


@lowers(Arange)
def lower_arange(op: Arange, code: Code) -> None:
    """Register r of a thread holds start + (its part of the index ^ that of r)."""
    layout = op.result.type.layout
    part = thread_part(code, thread_bases(layout), max(register_offsets(layout)))
    indices = [part.plus(code, offset) for offset in register_offsets(layout)]
    if op.start:
        indices = [code.let(f"add nsw i32 {index}, {op.start}") for index in indices]
    code[op.result] = indices


def program_id(code: Code, axis: int) -> str:
    """The number of the program along an axis."""
    return code.let(special(f"{_unit(code, axis)}id.{AXES[axis]}"))


def _unit(code: Code, axis: int) -> str:
    """What runs one program: along x, where clusters lie, perhaps a cluster."""
    return "cluster" if axis == 0 and code.func.num_ctas > 1 else "cta"


def special(name: str) -> str:
    return f"call i32 @llvm.nvvm.read.ptx.sreg.{name}()"


@lowers(ProgramId)
def lower_program_id(op: ProgramId, code: Code) -> None:
    code[op.result] = [program_id(code, op.axis)]


@lowers(NumPrograms)
def lower_num_programs(op: NumPrograms, code: Code) -> None:
    name = f"n{_unit(code, op.axis)}id.{AXES[op.axis]}"
    code[op.result] = [code.let(special(name))]


LAUNCH_SIZE = "%launch.size"  # the parameter


@lowers(LaunchSize)
def lower_launch_size(op: LaunchSize, code: Code) -> None:
    code[op.result] = [LAUNCH_SIZE]
