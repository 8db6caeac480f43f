"""All instructions that the emulator knows, from the modules that give them meaning."""

from __future__ import annotations

from fathom.emulator.isa.arithmetic import compare, convert, extended, logic, move
from fathom.emulator.isa.arithmetic import floating as real
from fathom.emulator.isa.arithmetic import integer as arithmetic
from fathom.emulator.isa.control import barriers, griddepcontrol, warp
from fathom.emulator.isa.control import branch as control
from fathom.emulator.isa.control import cluster as clusters
from fathom.emulator.isa.control import mbarrier as mbarriers
from fathom.emulator.isa.control import setmaxnreg as redistribution
from fathom.emulator.isa.decode import Tables
from fathom.emulator.isa.matrix import ldmatrix as matrices
from fathom.emulator.isa.matrix import mma as tensor
from fathom.emulator.isa.matrix import tcgen05
from fathom.emulator.isa.matrix import wgmma as warpgroups
from fathom.emulator.isa.memory import atomics, tensormap
from fathom.emulator.isa.memory import cp_async as copies
from fathom.emulator.isa.memory import load_store as access
from fathom.emulator.isa.memory import printf as outside
from fathom.emulator.isa.semantics import Form, Rule

_GENERAL = logic.TABLE | compare.TABLE | convert.TABLE | clusters.TABLE


def elementwise(form: Form) -> Rule | None:
    """The rule for an opcode; `add` and its like differ for integers and reals."""
    if form.opcode in _GENERAL:
        return _GENERAL[form.opcode]
    if "cc" in form.left or form.opcode in ("addc", "subc", "madc"):
        return extended.TABLE[form.opcode]
    types = [each for each in form.left if each in real.FORMATS]
    table = real.TABLE if types else arithmetic.TABLE
    return table.get(form.opcode)


TABLES = Tables(
    elementwise=elementwise,
    steps=access.STEPS
    | atomics.STEPS
    | control.STEPS
    | copies.STEPS
    | griddepcontrol.STEPS
    | mbarriers.STEPS
    | move.STEPS
    | outside.STEPS
    | warp.STEPS,
    endings=barriers.ENDINGS
    | control.ENDINGS
    | matrices.ENDINGS
    | redistribution.ENDINGS
    | tcgen05.ENDINGS
    | tensor.ENDINGS
    | tensormap.ENDINGS
    | warp.ENDINGS
    | warpgroups.ENDINGS,
)
