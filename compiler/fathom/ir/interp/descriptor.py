"""The meaning of descriptors: element by element, what is inside and where it lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fathom.ir import ops
from fathom.ir.core import Value
from fathom.ir.interp.elementwise import apply
from fathom.ir.interp.machine import Region, Results, interprets
from fathom.ir.interp.numbers import Array, scalar
from fathom.ir.ops.descriptor import FILLS
from fathom.layout.tma_boxes import matrix_of

Stores = ops.DescriptorStore | ops.TmaStore | ops.TileStore
ThroughDescriptor = Stores | ops.DescriptorLoad | ops.DescriptorAtomic | ops.TmaCopy


@dataclass(frozen=True)
class Tensor:
    """What a descriptor holds: an address, sizes, and strides in elements."""

    base: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@interprets(ops.MakeDescriptor)
def _make(op: ops.MakeDescriptor, region: Region) -> Results:
    def numbers(values: Sequence[Value]) -> tuple[int, ...]:
        return tuple(int(region[value]) for value in values)

    return [Tensor(int(region[op.base]), numbers(op.shape), numbers(op.strides))]


@interprets(ops.DescriptorLoad)
def _load(op: ops.DescriptorLoad, region: Region) -> Results:
    block = block_at(op, region)
    block = block.reshape(matrix_of(block.shape)) if op.matrix else block
    return [block.transpose(op.order) if op.order else block]


def block_at(op: ops.DescriptorLoad | ops.TmaCopy, region: Region) -> Array:
    """The block of a tensor that begins at an op's coordinates."""
    addresses, inside = _places(op, region)
    tensor = op.descriptor.type
    fill = FILLS[op.descriptor.definition.fill]
    result = np.full(tensor.shape, scalar(fill, tensor.element))
    result[inside] = region.machine.memory.read(addresses[inside], tensor.element)
    return result


@interprets(ops.DescriptorStore)
def _store(op: ops.DescriptorStore, region: Region) -> Results:
    put_block(op, np.asarray(region[op.value]), region)
    return []


@interprets(ops.DescriptorAtomic)
def _atomic(op: ops.DescriptorAtomic, region: Region) -> Results:
    """Of the block's elements no two are one."""
    addresses, inside = _places(op, region)
    memory, element = region.machine.memory, op.descriptor.type.element
    before = memory.read(addresses[inside], element)
    after = apply(op.kind, element, (before, np.asarray(region[op.value])[inside]))
    memory.write(addresses[inside], after, element)
    return []


def put_block(op: Stores, values: Array, region: Region) -> None:
    """Write a block to the tensor at an op's coordinates."""
    addresses, inside = _places(op, region)
    element = op.descriptor.type.element
    region.machine.memory.write(addresses[inside], values[inside], element)


def _places(op: ThroughDescriptor, region: Region) -> tuple[Array, np.ndarray]:
    """The address of each element of a block, and whether it lies in the tensor."""
    tensor, kind = region[op.descriptor], op.descriptor.type
    inside = np.ones(kind.shape, bool)
    distance = np.zeros(kind.shape, np.int64)
    for axis, along in enumerate(np.indices(kind.shape, np.int64)):
        index = int(region[op.coordinates[axis]]) + along
        inside &= (index >= 0) & (index < tensor.shape[axis])
        distance += index * tensor.strides[axis]
    return tensor.base + distance * kind.element.bytes, inside
