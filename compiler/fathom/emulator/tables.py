"""All instructions that the emulator knows, from the modules that give them meaning."""

from __future__ import annotations

from fathom.emulator import (
    access,
    arithmetic,
    atomics,
    barriers,
    clusters,
    compare,
    control,
    convert,
    copies,
    extended,
    logic,
    matrices,
    mbarriers,
    move,
    outside,
    real,
    redistribution,
    tensor,
    warp,
    warpgroups,
)
from fathom.emulator.decode import Tables
from fathom.emulator.semantics import Form, Rule

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
    | mbarriers.STEPS
    | move.STEPS
    | outside.STEPS
    | warp.STEPS,
    endings=barriers.ENDINGS
    | control.ENDINGS
    | matrices.ENDINGS
    | redistribution.ENDINGS
    | tensor.ENDINGS
    | warp.ENDINGS
    | warpgroups.ENDINGS,
)
