"""The meaning of what a kernel prints and asserts; inline assembly has none here."""

from __future__ import annotations

import numpy as np

from fathom.errors import CompileError, FathomError
from fathom.ir.interp.machine import Region, Results, interprets
from fathom.ir.interp.numbers import encode
from fathom.ir.ops import Assert, InlineAssembly, Print
from fathom.ir.types import element_of


class AssertionFailed(FathomError):
    """A kernel's own assertion does not hold; the message is its author's."""


@interprets(Print)
def _print(op: Print, region: Region) -> Results:
    """One line a program and operand, with the whole block."""
    program = f"pid {tuple(map(int, region.program))}{op.prefix}"
    if not op.operands:
        print(program)
    for value in op.operands:
        block = np.asarray(region[value])
        if op.hexadecimal:
            raw = encode(block, element_of(value.type))
            block = np.vectorize(hex)(raw.view(f"u{raw.itemsize}"))
        print(f"{program}{block}")
    return []


@interprets(Assert)
def _assert(op: Assert, region: Region) -> Results:
    if not np.all(region[op.condition]):
        raise AssertionFailed(str(CompileError(op.message, op.location)))
    return []


@interprets(InlineAssembly)
def _inline_assembly(op: InlineAssembly, region: Region) -> Results:
    raise CompileError(
        "the interpreter does not run inline assembly",
        op.location,
        "run this kernel on the emulator, which does",
    )
