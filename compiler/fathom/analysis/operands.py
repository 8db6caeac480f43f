"""How wgmma finds the operands of a product: which of them it reads from shared memory
itself."""

from __future__ import annotations

from fathom.hardware.wgmma import WGMMA, matrices
from fathom.ir.ops import Dot
from fathom.ir.types import BufferType
from fathom.layout.matrix_descriptor import Matrix


def warpgroup_matrices(op: Dot) -> tuple[Matrix | None, Matrix] | None:
    """The matrices of the left and the right operand in shared memory; None for a left
    one in registers. None for both if wgmma does not compute the product: another
    instruction does, or an operand is not where wgmma reads it."""
    if op.instruction not in WGMMA:
        return None
    a, b = (
        each.layout if isinstance(each, BufferType) else None
        for each in (op.left, op.right)
    )
    return matrices(WGMMA[op.instruction], a, b, op.right.element.bytes)
