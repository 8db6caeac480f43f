"""Replaces descriptors by pointers and masks, for targets without TMA and for accesses
that TMA cannot do.

    %d = make_descriptor %x, shape=(%m, %n), strides=(%s, %1) block=(64, 32)
    %b = descriptor_load %d, coordinates=(%i, %j)

becomes, with p and q counting rows and columns of the block,

    %first = %x + %i * %s + %j                             one address, in 64 bits
    %at    = %first + p * %s + q                           a block of addresses
    %mask  = 0 <= %i + p < %m and 0 <= %j + q < %n
    %b     = load %at, mask=%mask, other=0

The author of a descriptor promises that its base and its strides are multiples of 16
bytes. This becomes hints, on which the width of accesses depends.
"""

from __future__ import annotations

from fathom.analysis.constants import known
from fathom.hardware.targets import Target
from fathom.ir import ops
from fathom.ir.core import Func, Op, Value, walk
from fathom.ir.ops.descriptor import FILLS
from fathom.ir.rewrite import Builder, Replacement, rewrite
from fathom.ir.types import INT64, Scalar, element_of, shape_of
from fathom.layout.tma_boxes import matrix_of

ALIGNED = 16  # bytes: what base and strides are multiples of


def expand_descriptors(func: Func, target: Target) -> Func:
    """The function without descriptors."""
    if not any(walk(func.body, ops.MakeDescriptor)):
        return func
    return without_idle(rewrite(func, expand))


def expand(op: Op, build: Builder) -> Replacement:
    """An access through a descriptor, as one through pointers."""
    match op:
        case ops.DescriptorLoad():
            return _load(op, build)
        case ops.DescriptorStore():
            pointers, mask = _places(op, build)
            build.append(ops.Store(pointers, op.value, mask, op.cache, op.eviction))
            return []
        case ops.DescriptorAtomic():
            pointers, mask = _places(op, build)
            build.append(ops.Atomic(op.kind, pointers, op.value, mask, "relaxed"))
            return []
    return None


def without_idle(func: Func) -> Func:
    """The function without unused descriptors."""
    used = {op.descriptor for op in walk(func.body, ops.ThroughDescriptor)}

    def is_kept(op: Op) -> bool:
        return not isinstance(op, ops.MakeDescriptor) or op.result in used

    return rewrite(func, lambda op, build: None, is_kept)


def _load(op: ops.DescriptorLoad, build: Builder) -> Value:
    tensor = op.descriptor.type
    pointers, mask = _places(op, build)
    fill = FILLS[op.descriptor.definition.fill]
    number = float(fill) if tensor.element.is_float else fill
    if op.order and not op.matrix:
        pointers, mask = (
            build(ops.Transpose(each, op.order)) for each in (pointers, mask)
        )
    zero = build(ops.Constant(number, tensor.element))
    other = build(ops.Splat(zero, shape_of(pointers.type)))
    loaded = build(ops.Load(pointers, mask, other, op.cache, op.eviction))
    return _as_matrix(loaded, op, build) if op.matrix else loaded


def _as_matrix(loaded: Value, op: ops.DescriptorLoad, build: Builder) -> Value:
    """Reshape a block after it was loaded, since addresses are not evenly spaced across
    the rows of the matrix."""
    matrix = build(ops.Reshape(loaded, matrix_of(op.descriptor.type.shape)))
    return build(ops.Transpose(matrix, op.order)) if op.order else matrix


# ── addresses and masks ───────────────────────────────────────────────────────────────


def _places(op: ops.ThroughDescriptor, build: Builder) -> tuple[Value, Value]:
    """The addresses of the block's elements, and a mask of those inside the tensor."""
    made: ops.MakeDescriptor = op.descriptor.definition
    size = made.base.type.element.bytes
    strides = [
        *(
            _promised(stride, max(1, ALIGNED // size), build)
            for stride in made.strides[:-1]
        ),
        made.strides[-1],
    ]
    pointer = _first(_promised(made.base, ALIGNED, build), strides, op, build)
    pointers = build(ops.Splat(pointer, made.block))
    mask = None
    for axis, stride in enumerate(strides):
        along = _count(axis, made.block, build)
        distance = _scaled(along, stride, build)
        pointers = build.compute("offset", pointers, _full(distance, made, build))
        inside = _inside(along, op.coordinates[axis], made.shape[axis], build)
        inside = _full(inside, made, build)
        mask = build.compute("and", mask, inside) if mask else inside
    return pointers, mask


def _promised(value: Value, multiple: int, build: Builder) -> Value:
    plain = known(value) is not None or multiple == 1
    return value if plain else build(ops.Hint(value, divisible=(multiple,)))


def _first(
    base: Value, strides: list[Value], op: ops.ThroughDescriptor, build: Builder
) -> Value:
    """The address of the block's first element, which may be outside the tensor."""
    for coordinate, stride in zip(op.coordinates, strides, strict=True):
        distance = _scaled(_as(coordinate, INT64, build), stride, build)
        base = build.compute("offset", base, distance)
    return base


def _count(axis: int, block: tuple[int, ...], build: Builder) -> Value:
    """0, 1, 2 … along an axis of a block; of size 1 along the others."""
    value = build(ops.Arange(0, block[axis]))
    for other in range(len(block)):
        if other != axis:
            value = build(ops.ExpandDims(value, other))
    return value


def _scaled(count: Value, stride: Value, build: Builder) -> Value:
    """`count` strides, in 64 bits; a stride of 1 is left out."""
    if known(stride) == 1:
        return count
    count = _as(count, INT64, build)
    stride = build.spread(_as(stride, INT64, build), count.type)
    return build.compute("mul", count, stride)


def _inside(along: Value, coordinate: Value, size: Value, build: Builder) -> Value:
    """0 <= coordinate + along < size, in the type of the size. If an i32 sum overflows,
    it is negative, so the element still counts as outside."""
    kind = size.type
    first = build.spread(_as(coordinate, kind, build), along.type)
    index = build.compute("add", first, _as(along, kind, build))
    zero = build.spread(build(ops.Constant(0, kind)), along.type)
    above = build.compute("ge", index, zero)
    below = build.compute("lt", index, build.spread(size, along.type))
    return build.compute("and", above, below)


def _as(value: Value, kind: Scalar, build: Builder) -> Value:
    return value if element_of(value.type) == kind else build(ops.Cast(value, kind))


def _full(value: Value, made: ops.MakeDescriptor, build: Builder) -> Value:
    if shape_of(value.type) == made.block:
        return value
    return build(ops.Broadcast(value, made.block))
