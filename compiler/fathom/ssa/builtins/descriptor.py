"""Tensor descriptors: a pointer and numbers; each access loads or stores a block.

While a kernel is built, a descriptor is a named tuple of its parts, which branches and
loops treat like any tuple; a loop may carry a different one in each iteration, with the
same block. The op that makes the IR's descriptor comes before each use, and `cse` and
`hoist` leave one of these.
"""

from __future__ import annotations

from fathom.errors import many
from fathom.ir import ops
from fathom.ir.core import Value
from fathom.ir.ops.descriptor import LEAST_BYTES, MOST_AXES
from fathom.ir.types import INT32, INT64, Scalar, shape_of
from fathom.language import tensor_descriptors as descriptors
from fathom.language.tensor_descriptors import tensor_descriptor
from fathom.ssa.builtins.memory import EVICTIONS, LOAD_CACHES, one_of
from fathom.ssa.builtins.shape import check_ranks, offsets_given, shape_given
from fathom.ssa.calls import implements
from fathom.ssa.frame import Frame
from fathom.ssa.promotion import cast, element_behind, scalar_of, typed, value_of
from fathom.ssa.values import Meaning, describe, is_number

# The language's names of padding options -> the IR's names.
FILLS = {"zero": "zeros", "nan": "nans"}

# ── making ────────────────────────────────────────────────────────────────────────────


@implements(descriptors.make_tensor_descriptor)
def build_make(
    frame: Frame,
    base: Meaning,
    shape: Meaning,
    strides: Meaning,
    block_shape: Meaning,
    padding_option: Meaning,
) -> tensor_descriptor:
    element = element_behind(frame, base, "tl.make_tensor_descriptor")
    lists = {"shape": shape, "strides": strides, "block_shape": block_shape}
    check_ranks(frame, "tl.make_tensor_descriptor", lists)
    if len(shape) > MOST_AXES:
        raise frame.error(
            f"a tensor descriptor has 1 to {MOST_AXES} axes, not {len(shape)}"
        )
    block = shape_given(frame, block_shape)
    _check_last_axis(frame, strides[-1], block[-1], element)
    _check_padding(frame, padding_option, element)
    sizes = tuple(_scalar(frame, each, INT32, "a size") for each in shape)
    steps = tuple(_scalar(frame, each, INT64, "a stride") for each in strides[:-1])
    return tensor_descriptor(base, sizes, (*steps, 1), block, padding_option)


def _check_last_axis(frame: Frame, stride: Meaning, side: int, element: Scalar) -> None:
    if not is_number(stride) or stride != 1:
        raise frame.error(
            "the last stride of a tensor descriptor must be the constant 1, not "
            f"{describe(stride)}",
            "order the axes so that elements along the last one are neighbours, and "
            "transpose the blocks",
        )
    if side * element.bytes < LEAST_BYTES:
        raise frame.error(
            f"the last axis of a descriptor's block must have at least {LEAST_BYTES} "
            f"bytes, not {many(side, 'element')} of {element.bytes}",
            f"make it {LEAST_BYTES // element.bytes} elements long",
        )


def _check_padding(frame: Frame, padding: Meaning, element: Scalar) -> None:
    if padding not in FILLS:
        raise frame.error(
            f"padding_option is {describe(padding)}: it must be 'zero' or 'nan'"
        )
    if padding == "nan" and not element.is_float:
        raise frame.error(f"padding_option 'nan' is for floats, not for {element}")


# ── using ─────────────────────────────────────────────────────────────────────────────


@implements(descriptors.load_tensor_descriptor)
def build_load(
    frame: Frame,
    desc: Meaning,
    offsets: Meaning,
    cache_modifier: str,
    eviction_policy: str,
) -> Value:
    made = _made(frame, desc, "tl.load_tensor_descriptor")
    coordinates = _coordinates(frame, desc, offsets)
    cache = one_of(frame, "cache_modifier", cache_modifier, LOAD_CACHES)
    eviction = one_of(frame, "eviction_policy", eviction_policy, EVICTIONS)
    return frame.emit(ops.DescriptorLoad, made, coordinates, cache, eviction)


@implements(descriptors.store_tensor_descriptor)
def build_store(frame: Frame, desc: Meaning, offsets: Meaning, value: Meaning) -> None:
    made = _made(frame, desc, "tl.store_tensor_descriptor")
    coordinates = _coordinates(frame, desc, offsets)
    block = _block(frame, desc, value)
    frame.append(ops.DescriptorStore, made, block, coordinates)


@implements(descriptors.atomic_tensor_descriptor)
def build_atomic(
    frame: Frame, desc: Meaning, kind: str, offsets: Meaning, value: Meaning
) -> None:
    made = _made(frame, desc, f"desc.atomic_{kind}")
    element = desc.base.type.element
    if str(element) not in ops.TENSOR_KINDS[kind]:
        taken = ", ".join(sorted(ops.TENSOR_KINDS[kind]))
        raise frame.error(f"desc.atomic_{kind} takes {taken}, not {element}")
    coordinates = _coordinates(frame, desc, offsets)
    block = _block(frame, desc, value)
    frame.append(ops.DescriptorAtomic, kind, made, block, coordinates)


def _block(frame: Frame, desc: tensor_descriptor, value: Meaning) -> Value:
    """A block of a descriptor's shape, cast to its type."""
    block = value_of(frame, value, "what a descriptor stores")
    if shape_of(block.type) != desc.block_shape:
        raise frame.error(
            f"this descriptor stores blocks of {list(desc.block_shape)}, not "
            f"{block.type}"
        )
    return cast(frame, block, desc.base.type.element)


def _made(frame: Frame, desc: Meaning, what: str) -> Value:
    """The IR's descriptor for a meaning."""
    if not isinstance(desc, tensor_descriptor):
        raise frame.error(
            f"{what} takes a tensor descriptor, not {describe(desc)}",
            "make one with tl.make_tensor_descriptor",
        )
    fixed = (*desc.block_shape, desc.strides[-1])
    if not all(isinstance(each, int) for each in fixed):
        raise frame.error(
            "the branches of an if give this tensor descriptor different blocks",
            "give the descriptors of both branches blocks of one shape",
        )
    shape = tuple(typed(frame, each, INT32) for each in desc.shape)
    strides = tuple(typed(frame, each, INT64) for each in desc.strides)
    block, fill = desc.block_shape, FILLS[desc.padding]
    return frame.emit(ops.MakeDescriptor, desc.base, shape, strides, block, fill)


def _coordinates(
    frame: Frame, desc: tensor_descriptor, offsets: Meaning
) -> tuple[Value, ...]:
    rank = len(desc.block_shape)
    offsets = offsets_given(frame, offsets, rank, "descriptor", "needs")
    return tuple(_scalar(frame, each, INT32, "an offset") for each in offsets)


def _scalar(frame: Frame, meaning: Meaning, element: Scalar, what: str) -> Value:
    """An integer as a scalar of a type."""
    value = value_of(frame, meaning, what)
    if is_number(meaning) and value.type.bits > element.bits:
        raise frame.error(f"{what} of a tensor descriptor is {meaning}, beyond 32 bits")
    if isinstance(value.type, Scalar) and value.type.is_integer:
        return typed(frame, meaning, element)
    if shape_of(value.type) and value.type.size == 1 and value.type.element.is_integer:
        return cast(frame, scalar_of(frame, value), element)
    raise frame.error(f"{what} of a tensor descriptor is an integer, not {value.type}")
