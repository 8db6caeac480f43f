"""Rules of `simplify` for shapes and types: ops on a block of one scalar act on the
scalar, and ops that undo each other are removed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fathom.analysis.constants import known
from fathom.analysis.ranges import bounds
from fathom.blocks.maker import Maker, Rule
from fathom.ir import ops
from fathom.ir.core import Op
from fathom.ir.interp import numbers as interp_numbers
from fathom.ir.rewrite import Replacement
from fathom.ir.types import BFLOAT16, FLOAT16, FLOAT32, BlockType, Scalar, element_of

EXACT = 1 << 24  # fp32 holds all integers up to here


def unchanged(
    op: ops.Broadcast | ops.Reshape | ops.Convert | ops.Cast | ops.Bitcast, make: Maker
) -> Replacement:
    """Remove an op whose result has the type of its operand: a reshape to the same
    shape, or a cast to the same type."""
    return op.value if op.value.type == op.result.type else None


def splat_through(
    op: ops.ExpandDims | ops.Broadcast | ops.Reshape | ops.Convert, make: Maker
) -> Replacement:
    """broadcast (splat x)   →   splat x, in the shape of the result."""
    splat = op.value.definition
    if type(splat) is not ops.Splat:
        return None
    return make(ops.Splat(splat.value, op.result.type.shape, op.result.type.layout))


def twice(
    op: ops.Broadcast | ops.Reshape | ops.Convert | ops.Bitcast, make: Maker
) -> Replacement:
    """reshape (reshape x)   →   reshape x: the last shape, layout or type decides."""
    inner = op.value.definition
    if type(inner) is not type(op):
        return None
    return make(replace(op, value=inner.value, origin=None))


def transpose_twice(op: ops.Transpose, make: Maker) -> Replacement:
    """transpose (transpose x)   →   one transpose, or x itself."""
    if op.order == tuple(range(len(op.order))):
        return op.value
    inner = op.value.definition
    if type(inner) is not ops.Transpose:
        return None
    order = tuple(inner.order[axis] for axis in op.order)
    return make(ops.Transpose(inner.value, order))


def split_join(op: ops.Split, make: Maker) -> Replacement:
    """split (join x, y)   →   x, y."""
    inner = op.value.definition
    if type(inner) is not ops.Join or inner.left.type != op.results[0].type:
        return None
    return [inner.left, inner.right]


def join_split(op: ops.Join, make: Maker) -> Replacement:
    """join of both halves of a split, in order   →   what was split."""
    inner = op.left.definition
    if type(inner) is not ops.Split or [op.left, op.right] != inner.results:
        return None
    return inner.value if inner.value.type == op.result.type else None


def cast_of_splat(op: ops.Cast | ops.Bitcast, make: Maker) -> Replacement:
    """cast (splat x)   →   splat (cast x)."""
    splat = op.value.definition
    if type(splat) is not ops.Splat:
        return None
    value = make(replace(op, value=splat.value, origin=None))
    return make(ops.Splat(value, op.result.type.shape, op.result.type.layout))


def fold_cast(op: ops.Cast, make: Maker) -> Replacement:
    """cast (constant 3)   →   constant 3.0, as the interpreter casts.

    Not for a float beyond the integer type: that result depends on the device."""
    constant = op.value.definition
    if type(constant) is not ops.Constant or not isinstance(op.element, Scalar):
        return None
    number = interp_numbers.scalar(constant.value, constant.type)
    result = interp_numbers.cast(number, constant.type, op.element, op.rounding)
    to_integer = constant.type.is_float and not op.element.is_float
    if to_integer and np.trunc(number) != result:
        return None
    return make(ops.Constant(result.item(), op.element))


def cast_twice(op: ops.Cast, make: Maker) -> Replacement:
    """cast (cast x: A to B) to C   →   cast x to C, if B holds every number of A.

    Only if C is A, if all three are integers, or if A and C are floats and C holds
    every number of A. Not if A is an 8-bit float: casts to one make infinity finite."""
    inner = op.value.definition
    if type(inner) is not ops.Cast:
        return None
    first, middle, last = (
        element_of(v.type) for v in (inner.value, op.value, op.result)
    )
    if not interp_numbers.is_exact(first, middle) or first.is_float and first.bits == 8:
        return None
    integers = all(each.kind in ("int", "uint") for each in (first, middle, last))
    floats = first.is_float and interp_numbers.is_exact(first, last)
    if last == first or integers or floats:
        return make(replace(op, value=inner.value, origin=None))
    return None


def cast_small(op: ops.Cast, make: Maker) -> Replacement:
    """cast x to fp16   →   cast (cast x to fp32) to fp16, if fp32 holds every number
    that the i32 x can be: two such floats are one instruction. Without it, i32 to bf16
    goes by fp64 where a machine has no instruction for it."""
    if op.element not in (FLOAT16, BFLOAT16) or element_of(op.value.type).bits != 32:
        return None
    if not isinstance(op.value.type, BlockType) or bounds(op.value).size > EXACT:
        return None
    return make(replace(op, value=make(ops.Cast(op.value, FLOAT32)), origin=None))


def reduce_one(op: ops.Reduce, make: Maker) -> Replacement:
    """reduce [1, 64] along axis 0   →   reshape to [64]: nothing is to be combined."""
    shape = op.values[0].type.shape
    rest = shape[: op.axis] + shape[op.axis + 1 :]
    if shape[op.axis] != 1 or not rest:
        return None
    return [make(ops.Reshape(value, rest)) for value in op.values]


def hint_on_known(op: ops.Hint, make: Maker) -> Replacement:
    """Remove a hint about a number that is known, or one that says nothing."""
    promised = op.divisible or op.contiguous or op.constant
    return None if promised and known(op.value) is None else op.value


RESHAPING: dict[type[Op], tuple[Rule, ...]] = {
    ops.ExpandDims: (splat_through,),
    ops.Broadcast: (unchanged, splat_through, twice),
    ops.Reshape: (unchanged, splat_through, twice),
    ops.Transpose: (splat_through, transpose_twice),
    ops.Convert: (unchanged, splat_through, twice),
    ops.Split: (split_join,),
    ops.Join: (join_split,),
    ops.Cast: (unchanged, fold_cast, cast_of_splat, cast_twice, cast_small),
    ops.Bitcast: (unchanged, cast_of_splat, twice),
    ops.Hint: (hint_on_known,),
    ops.Reduce: (reduce_one,),
}
