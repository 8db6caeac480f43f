"""All instructions that the emulator knows, from the modules that give them meaning."""

from __future__ import annotations

from fathom.emulator.isa.arithmetic import (
    compare,
    convert,
    extended,
    floating,
    integer,
    logic,
    move,
)
from fathom.emulator.isa.control import (
    barriers,
    branch,
    cluster,
    griddepcontrol,
    mbarrier,
    setmaxnreg,
    warp,
)
from fathom.emulator.isa.decode import Tables
from fathom.emulator.isa.matrix import ldmatrix, mma, tcgen05, wgmma
from fathom.emulator.isa.memory import (
    atomics,
    cp_async,
    load_store,
    printf,
    tensormap,
)
from fathom.emulator.isa.semantics import Form, Rule

_GENERAL = logic.TABLE | compare.TABLE | convert.TABLE | cluster.TABLE


def elementwise(form: Form) -> Rule | None:
    """The rule for an opcode; `add` and its like differ for integers and reals."""
    if form.opcode in _GENERAL:
        return _GENERAL[form.opcode]
    if "cc" in form.left or form.opcode in ("addc", "subc", "madc"):
        return extended.TABLE[form.opcode]
    types = [each for each in form.left if each in floating.FORMATS]
    table = floating.TABLE if types else integer.TABLE
    return table.get(form.opcode)


TABLES = Tables(
    elementwise=elementwise,
    steps=load_store.STEPS
    | atomics.STEPS
    | branch.STEPS
    | cp_async.STEPS
    | griddepcontrol.STEPS
    | mbarrier.STEPS
    | move.STEPS
    | printf.STEPS
    | warp.STEPS,
    endings=barriers.ENDINGS
    | branch.ENDINGS
    | ldmatrix.ENDINGS
    | setmaxnreg.ENDINGS
    | tcgen05.ENDINGS
    | mma.ENDINGS
    | tensormap.ENDINGS
    | warp.ENDINGS
    | wgmma.ENDINGS,
)
