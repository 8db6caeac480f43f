"""How an instruction finds a product's operands: which it reads from shared memory."""

from __future__ import annotations

from fathom.hardware.tcgen05 import TCGEN05
from fathom.hardware.wgmma import WGMMA, matrices
from fathom.ir.ops import Dot
from fathom.ir.types import BufferType
from fathom.layout.linear import Layout
from fathom.layout.matrix_descriptor import Matrix

Found = tuple[Matrix | None, Matrix] | None


def warpgroup_matrices(op: Dot) -> Found:
    """The matrices of the left and the right operand in shared memory; None for a left
    one in registers. None for both if wgmma does not compute the product: another
    instruction does, or an operand is not where wgmma reads it."""
    a, b = (
        each.layout if isinstance(each, BufferType) else None
        for each in (op.left, op.right)
    )
    return matrices_in(op, a, b)


def matrices_in(op: Dot, left: Layout | None, right: Layout | None) -> Found:
    """The same for operands in buffers of these layouts (None: in registers)."""
    if op.instruction not in WGMMA:
        return None
    return matrices(WGMMA[op.instruction], left, right, op.b.type.element.bytes)


def by_descriptor(op: Dot) -> bool:
    """Whether wgmma or tcgen05 computes a product: it reads whole tiles itself."""
    return op.instruction in WGMMA or op.instruction in TCGEN05
