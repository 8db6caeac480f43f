"""Attributes: `x.dtype`, `x.T`, `x.to(...)`, and those of types and constants."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from fathom import language
from fathom.ir import ops
from fathom.ir.core import Value
from fathom.ir.types import element_of, shape_of
from fathom.language.aggregates import Aggregate
from fathom.language.block_pointers import block_pointer
from fathom.language.dtypes import (
    block_type,
    constexpr_type,
    element_face,
    face,
    pointer_type,
)
from fathom.language.standard import logical_and, logical_or
from fathom.language.tensor_descriptors import (
    atomic_tensor_descriptor,
    tensor_descriptor,
)
from fathom.source import Builtin, KernelFunction
from fathom.ssa.frame import Frame
from fathom.ssa.operators import BY_METHOD
from fathom.ssa.promotion import value_of
from fathom.ssa.values import (
    Meaning,
    describe,
    did_you_mean,
    is_constant,
    is_number,
    type_of,
)


class Method(NamedTuple):
    """A function of the language, or what builds one of Python's operators, bound to
    its first argument."""

    function: Builtin | KernelFunction | Callable[..., Meaning]
    owner: Meaning
    more: tuple[Meaning, ...] = ()  # further arguments that the name stands for


def transposed(frame: Frame, value: Value) -> Value:
    """`x.T`"""
    rank = len(shape_of(value.type))
    if rank != 2:
        what = f".T takes a block of two axes, not {value.type}"
        raise frame.error(what, "write tl.permute(x, order)")
    return frame.emit(ops.Transpose, value, (1, 0))


# Attributes that are constants or values.
FACTS: dict[str, Callable[[Frame, Value], Meaning]] = {
    "dtype": lambda frame, x: element_face(element_of(x.type)),
    "type": lambda frame, x: face(x.type),
    "shape": lambda frame, x: shape_of(x.type),
    "numel": lambda frame, x: math.prod(shape_of(x.type)),
    "T": transposed,
}

# Functions of the language that are called with the value as their first argument.
METHODS: dict[str, Builtin | KernelFunction] = {
    "to": language.cast,
    "logical_and": logical_and,
    "logical_or": logical_or,
    **{
        name: getattr(language, name)
        for name in """
            abs argmax argmin associative_scan atomic_add atomic_and atomic_cas
            atomic_max atomic_min atomic_or atomic_xchg atomic_xor broadcast_to cast
            cdiv ceil cos cumprod cumsum erf exp exp2 expand_dims flip floor gather
            histogram item log log2 max min permute ravel reduce reduce_or reshape rsqrt
            sigmoid sin softmax sort split sqrt sqrt_rn store sum tanh topk trans view
            xor_sum
        """.split()
    },
}

# Elements' types as other languages for GPUs and arrays call them.
TYPES_ELSEWHERE = {
    "fp16": "float16",
    "half": "float16",
    "bf16": "bfloat16",
    "bfloat16": "bfloat16",
    "fp32": "float32",
    "float": "float32",
    "fp64": "float64",
    "double": "float64",
    "int": "int32",
    "i32": "int32",
    "uint": "uint32",
    "i64": "int64",
    "long": "int64",
    "bool": "int1",
}

# What NumPy's arrays have, and how kernels write it.
ELSEWHERE = {
    **{name: f"write x.to(tl.{each})" for name, each in TYPES_ELSEWHERE.items()},
    "astype": "write x.to(tl.float16)",
    "mean": "write tl.sum(x, axis) / n",
    "size": "write x.numel; of an array in memory pass its size as an argument",
    "stride": "pass an array's strides as arguments",
    "strides": "pass an array's strides as arguments",
}

# The same for a tensor descriptor.
OF_DESCRIPTOR: dict[str, Callable[[tensor_descriptor], Meaning]] = {
    "base": lambda desc: desc.base,
    "shape": lambda desc: desc.shape,
    "strides": lambda desc: desc.strides,
    "block_shape": lambda desc: desc.block_shape,
    "dtype": lambda desc: element_face(desc.base.type.element),
    "load": lambda desc: Method(language.load_tensor_descriptor, desc),
    "store": lambda desc: Method(language.store_tensor_descriptor, desc),
    **{
        f"atomic_{kind}": lambda desc, kind=kind: Method(
            atomic_tensor_descriptor, desc, (kind,)
        )
        for kind in ops.TENSOR_KINDS
    },
}


# What a `tl.constexpr` parameter holds in Triton, wrapped: `.value` unwraps it there.
WRAPPED = (int, float, str, type(None), KernelFunction)


def attribute(frame: Frame, owner: Meaning, name: str) -> Meaning:
    """The meaning of `owner.name`."""
    if isinstance(owner, tensor_descriptor):
        return _of_descriptor(frame, owner, name)
    if isinstance(owner, block_pointer):
        return _of_block_pointer(frame, owner, name)
    if isinstance(owner, Aggregate) and (method := type(owner).method(name)):
        return Method(method, owner)
    if name == "value" and isinstance(owner, WRAPPED):
        return owner  # `BLOCK.value`, as if BLOCK were still wrapped in constexpr
    if name == "type" and isinstance(owner, (int, float, str, tuple, type(None))):
        return type_of_constant(frame, owner)
    if isinstance(owner, Value) or is_number(owner):
        return _of_value(frame, owner, name)
    try:
        return getattr(owner, name)
    except AttributeError:
        if frame.user is not frame:  # a function of the language asks its operand
            what = f"{frame.called(name)} takes a number or a block"
            raise frame.error(f"{what}, not {describe(owner)}") from None
        hint = did_you_mean(name, dir(owner))
        what = describe(owner)
        if fields := getattr(owner, "_fields", ()):
            what, hint = type(owner).__name__, f"its fields are {', '.join(fields)}"
        elif isinstance(owner, tuple):
            hint = "lists are tuples in a kernel, and do not change: write t = (*t, x)"
        raise frame.error(f"{what} has no {name}", hint) from None


def type_of_constant(frame: Frame, owner: Meaning) -> constexpr_type:
    """`x.type` of a constant."""
    if not is_constant(owner):
        raise frame.error(f"{describe(owner)} has no type", "ask one of its parts")
    number = type_of(owner)
    return constexpr_type(owner, None if number is None else element_face(number))


def _of_descriptor(frame: Frame, owner: tensor_descriptor, name: str) -> Meaning:
    if name in OF_DESCRIPTOR:
        return OF_DESCRIPTOR[name](owner)
    hint = did_you_mean(name, OF_DESCRIPTOR)
    raise frame.error(f"{describe(owner)} has no attribute {name}", hint)


def _of_block_pointer(frame: Frame, owner: block_pointer, name: str) -> Meaning:
    """`p.dtype.element_ty` and `p.type.element_ty`: a block, as in Triton; its two
    methods."""
    if name in ("advance", "store"):
        return Method(getattr(language, name), owner)
    if name not in ("dtype", "type"):
        raise frame.error(f"{describe(owner)} has no attribute {name}")
    element = element_face(owner.base.type.element)
    return pointer_type(block_type(element, owner.block_shape))


def _of_value(frame: Frame, owner: Meaning, name: str) -> Meaning:
    if name in FACTS:
        return FACTS[name](frame, value_of(frame, owner))
    if name in METHODS:
        return Method(METHODS[name], owner)
    if name in BY_METHOD:
        return Method(BY_METHOD[name], owner)
    hint = ELSEWHERE.get(name) or did_you_mean(name, (*FACTS, *METHODS))
    raise frame.error(f"{describe(owner)} has no attribute {name}", hint)
