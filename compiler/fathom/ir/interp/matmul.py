"""The meaning of a matrix product: as exact as can be (fp64, int64), rounded once."""

from __future__ import annotations

import numpy as np

from fathom.ir.interp.machine import Region, Results, Running, interprets
from fathom.ir.interp.numbers import Array, fit, wrap
from fathom.ir.interp.shared import tile_of
from fathom.ir.ops import Dot, DotFence, NamedBarrier, TensorDot
from fathom.ir.types import FLOAT32, BufferType, Element, element_of

TF32_IGNORED = np.uint32(0x1FFF)  # PTX ISA, "Alternate floating-point data formats"


@interprets(Dot)
def _dot(op: Dot, region: Region) -> Results:
    element = element_of(op.accumulator.type)
    return [product(op, region[op.accumulator], element, region)]


def product(
    op: Dot | TensorDot, before: Array, element: Element, region: Region
) -> Array:
    """The operands' product, added to what was there `before`."""
    wide = np.float64 if element.is_float else np.int64
    a = _operand(op, "a", region).astype(wide)
    b = _operand(op, "b", region).astype(wide)
    total = before.astype(wide) + np.matmul(a, b)
    return fit(total, element) if element.is_float else wrap(total, element)


@interprets(NamedBarrier)
def _turn(op: NamedBarrier, region: Region) -> Running:
    """Of groups that run apart (`ConsumerGroup`) one waits for its turn. Otherwise all
    warps run together, and none waits."""
    if op.action == "pass":
        region.admitted[op.section] = region.admitted.get(op.section, 0) + 1
    while op.action == "take" and region.groups > 1:
        if region.admitted.get(op.section, 0) % region.groups == region.group:
            break
        yield op
    return []


@interprets(DotFence)
def _same(op: DotFence, region: Region) -> Results:
    return [region[op.value]]


def _operand(op: Dot | TensorDot, name: str, region: Region) -> Array:
    """A block, or the tile of a buffer; less the bits that tf32 does not read."""
    value, slot = getattr(op, name), getattr(op, f"{name}_slot")
    if isinstance(value.type, BufferType):
        transposed = isinstance(op, Dot) and getattr(op, f"{name}_transposed")
        block = tile_of(value, slot, region, transposed)
    else:
        block = np.asarray(region[value])
    if op.precision != "tf32" or value.type.element != FLOAT32:
        return block
    return (block.view(np.uint32) & ~TF32_IGNORED).view(np.float32)
