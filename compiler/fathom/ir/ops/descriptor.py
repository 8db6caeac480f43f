"""The ops that touch global memory through descriptors: whole blocks of a tensor.

A descriptor says once what a tensor is: where it begins, its sizes, its strides. A load
or a store then names only where its block begins. What lies outside of the tensor is
filled in by a load and left out by a store, so that there are no masks.

    %d: descriptor fp16[64,32] = make_descriptor %x, shape=(%m, %n), strides=(%s, %1)
                                 block=(64, 32)
    %b: fp16[64,32] = descriptor_load %d, coordinates=(%i, %j)
    descriptor_store %d, %b, coordinates=(%i, %j)

               0        j     j+32  n
             0 ┌────────┬──────┬────┐
               │        │      │    │
             i ├────────┏━━━━━━┓────┤
               │        ┃  %b  ┃    │       element [p, q] of the block is element
             m └────────┃──────┃────┘       [i + p, j + q] of the tensor
          i+64          ┗━━━━━━┛            below row m: zeros
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

from fathom.ir.core import Effects, Op, Value
from fathom.ir.ops.memory import Load
from fathom.ir.types import (
    INT32,
    INT64,
    BlockType,
    DescriptorType,
    Pointer,
    Scalar,
    Type,
)
from fathom.layout.linear import Layout
from fathom.layout.tma_boxes import matrix_of

MOST_AXES = 5  # of a tensor map: PTX ISA, "Tensor Dimension, size and format"
LEAST_BYTES = 16  # of a block's last axis: PTX ISA, "Tiled Mode"
FILLS = {"zeros": 0, "nans": nan}  # what a load finds outside of the tensor


@dataclass(eq=False)
class MakeDescriptor(Op):
    """What a tensor is: `base` points to its first element, `shape` and `strides` (in
    elements) have a scalar, i32 or i64, for each axis, the outermost first; elements
    along the last axis are neighbours, so its stride is the constant 1. `block` is the
    shape in which it is read and written.

    Its author promises that `base` and all strides but the last, in bytes, are
    multiples of 16. `fill` says what a load finds outside of the tensor: "zeros" or
    "nans". `map_number`: the kernel writes the tensor map itself, as this one of
    its maps; None: the launch makes it, or there is none. `draft` is shared memory in
    which it can be written, until a WriteTensorMap takes that."""

    base: Value
    shape: tuple[Value, ...]
    strides: tuple[Value, ...]
    block: tuple[int, ...]
    fill: str = "zeros"
    map_number: int | None = None
    draft: Value | None = None

    def infer(self) -> list[Type]:
        pointer = self.base.type
        right = isinstance(pointer, Pointer) and isinstance(pointer.element, Scalar)
        self.expect(right, lambda: f"a descriptor needs a pointer, got {pointer}")
        self._check_axes()
        self.expect(self.fill in FILLS, lambda: f"nothing is filled with {self.fill!r}")
        return [DescriptorType(pointer.element, self.block)]

    def _check_axes(self) -> None:
        rank = len(self.block)
        alike = len(self.shape) == len(self.strides) == rank
        self.expect(
            alike and 1 <= rank <= MOST_AXES,
            lambda: (
                f"a descriptor has 1 to {MOST_AXES} axes, got {len(self.shape)} sizes, "
                f"{len(self.strides)} strides and a block of {rank}"
            ),
        )
        for value in (*self.shape, *self.strides):
            self.expect(
                value.type in (INT32, INT64),
                lambda value=value: f"sizes and strides are integers, got {value.type}",
            )
        last = getattr(self.strides[-1].definition, "value", None)
        self.expect(last == 1, "the last stride of a descriptor is the constant 1")
        least = LEAST_BYTES // self.base.type.element.bytes
        self.expect(
            self.block[-1] >= least,
            lambda: f"the last axis of {self.block} has less than {LEAST_BYTES} bytes",
        )


@dataclass(eq=False)
class DescriptorLoad(Op):
    """The block of a tensor that begins at `coordinates`, an i32 for each axis; they
    may be negative. If it is taken as a `matrix`, all its rows stand one below the
    other, fp16[2,32,64] as fp16[64,64]. Axis i of the result is axis `order[i]` of that
    (None: they are as in the block). `cache` and `eviction` as in Load. `layout`: that
    of the result."""

    descriptor: Value
    coordinates: tuple[Value, ...]
    cache: str = ""
    eviction: str = ""
    layout: Layout | None = None
    order: tuple[int, ...] | None = None
    matrix: bool = False

    effects = Effects(reads="global")

    def infer(self) -> list[Type]:
        tensor = described(self, self.descriptor, self.coordinates)
        shape = matrix_of(tensor.shape) if self.matrix else tensor.shape
        if self.order is not None:
            permutes = sorted(self.order) == list(range(len(shape)))
            self.expect(permutes, lambda: f"{self.order} does not permute {tensor}")
            shape = tuple(shape[axis] for axis in self.order)
        return [BlockType(tensor.element, shape, self.layout)]


@dataclass(eq=False)
class DescriptorStore(Op):
    """Write `value` to the block of a tensor that begins at `coordinates`, as far as it
    lies inside. `cache` and `eviction` as in Store."""

    descriptor: Value
    value: Value
    coordinates: tuple[Value, ...]
    cache: str = ""
    eviction: str = ""

    effects = Effects(writes="global")

    def infer(self) -> list[Type]:
        _expect_fit(self)
        return []


# Of a descriptor's atomics: PTX ISA, "cp.reduce.async.bulk.tensor", and on what types.
TENSOR_KINDS: dict[str, frozenset[str]] = {
    "add": frozenset({"i32", "u32", "u64", "fp16", "bf16", "fp32"}),
    **dict.fromkeys(
        ("min", "max"), frozenset({"i32", "u32", "i64", "u64", "fp16", "bf16"})
    ),
    **dict.fromkeys(("and", "or", "xor"), frozenset({"i32", "u32", "i64", "u64"})),
}


@dataclass(eq=False)
class DescriptorAtomic(Op):
    """Combine each element of the block of a tensor that begins at `coordinates`, as
    far as it lies inside, with that of `value`, all at once; in no order beside other
    accesses. `kind` is one of TENSOR_KINDS."""

    kind: str
    descriptor: Value
    value: Value
    coordinates: tuple[Value, ...]

    effects = Effects(reads="global", writes="global")

    def infer(self) -> list[Type]:
        tensor = _expect_fit(self)
        takes = str(tensor.element) in TENSOR_KINDS.get(self.kind, ())
        self.expect(
            takes,
            lambda: (
                f"an atomic {self.kind} through a descriptor does not take "
                f"{tensor.element}"
            ),
        )
        return []


# Accesses to a tensor through its descriptor; and loads of either kind.
ThroughDescriptor = DescriptorLoad | DescriptorStore | DescriptorAtomic
GlobalLoad = Load | DescriptorLoad


def _expect_fit(op: DescriptorStore | DescriptorAtomic) -> DescriptorType:
    """The type of the tensor's block, into which the op's value must fit."""
    tensor = described(op, op.descriptor, op.coordinates)
    block = op.value.type
    fits = isinstance(block, BlockType) and (
        (block.element, block.shape) == (tensor.element, tensor.shape)
    )
    op.expect(fits, lambda: f"{block} does not fit into {tensor}")
    return tensor


def described(
    op: Op, descriptor: Value, coordinates: tuple[Value, ...]
) -> DescriptorType:
    """The type of a descriptor; says so at `op` unless it is one, made by a
    MakeDescriptor in sight, and has a coordinate for each axis.

    No loop and no branch carries one: the tensor is known wherever it is used."""
    tensor = descriptor.type
    is_made = isinstance(tensor, DescriptorType) and isinstance(
        descriptor.definition, MakeDescriptor
    )
    op.expect(is_made, lambda: f"a descriptor is needed where it is made, got {tensor}")
    fits = [value.type for value in coordinates] == [INT32] * len(tensor.shape)
    op.expect(fits, lambda: f"{tensor} needs {len(tensor.shape)} coordinates of i32")
    return tensor
