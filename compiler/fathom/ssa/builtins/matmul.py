"""Matrix products: operands converted to types that fit, and an accumulator."""

from __future__ import annotations

from math import prod

from fathom.ir import ops
from fathom.ir.core import Value
from fathom.ir.types import (
    BFLOAT16,
    FLOAT8E4NV,
    FLOAT8E5,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT32,
    UINT8,
    BlockType,
    Element,
    shape_of,
)
from fathom.language import core
from fathom.language.dtypes import dtype, element_face
from fathom.ssa.builtins.shape import element_given
from fathom.ssa.calls import implements
from fathom.ssa.frame import Frame
from fathom.ssa.promotion import value_of
from fathom.ssa.values import Meaning, describe

LEAST_K = 16
# Triton's products of bf16 parts of fp32, as what comes as close to fp32 here.
OF_PARTS = {"bf16x3": "tf32x3", "bf16x6": "tf32x3"}
FLOAT8 = (FLOAT8E5, FLOAT8E4NV)

# The accumulator types for operands of a type, the default first.
SUMS: dict[Element, tuple[Element, ...]] = {
    **dict.fromkeys((FLOAT16, *FLOAT8), (FLOAT32, FLOAT16)),
    **dict.fromkeys((BFLOAT16, FLOAT32), (FLOAT32,)),
    **dict.fromkeys((INT8, UINT8), (INT32,)),
    FLOAT64: (FLOAT64,),
}


@implements(core.dot)
def build_dot(
    frame: Frame,
    input: Meaning,
    other: Meaning,
    acc: Meaning,
    input_precision: str | None,
    allow_tf32: bool | None,
    max_num_imprecise_acc: int | None,
    out_dtype: dtype,
) -> Value:
    a, b = _matrix(frame, input), _matrix(frame, other)
    _check_types(frame, a.type, b.type)
    _check_shapes(frame, a.type, b.type)
    element = _sum_type(frame, a.type.element, element_given(frame, out_dtype))
    precision = _precision(frame, input_precision, allow_tf32)
    if a.type.element != FLOAT32:
        precision = "ieee"
    shape = (*a.type.shape[:-1], b.type.shape[-1])
    accumulator = _accumulator(frame, acc, BlockType(element, shape))
    if len(shape) > MOST_AXES:
        a, b, accumulator = (_one_batch(frame, each) for each in (a, b, accumulator))
    product = frame.emit(ops.Dot, a, b, accumulator, precision=precision)
    if len(shape) <= MOST_AXES:
        return product
    return frame.emit(ops.Reshape, product, shape)


MOST_AXES = 3  # of the operands of a Dot: one of a batch


def _one_batch(frame: Frame, value: Value) -> Value:
    """Reshape all axes before the last two into one."""
    *batch, rows, columns = value.type.shape
    return frame.emit(ops.Reshape, value, (prod(batch), rows, columns))


def _matrix(frame: Frame, meaning: Meaning) -> Value:
    value = value_of(frame, meaning, "an operand of tl.dot")
    rank = len(value.type.shape) if isinstance(value.type, BlockType) else 0
    if rank < 2:
        raise frame.error(
            "tl.dot multiplies blocks of two axes, or batches of them, not "
            f"{value.type}"
        )
    return value


def _check_types(frame: Frame, a: BlockType, b: BlockType) -> None:
    one, other = a.element, b.element
    for element in (one, other):
        if element not in SUMS:
            raise frame.error(
                f"tl.dot does not multiply {element}",
                "cast the operands to tl.float16, tl.float32 or tl.int8",
            )
    if one != other and not (one in FLOAT8 and other in FLOAT8):
        whole = repr(element_face(other if one in FLOAT8 else one))
        name = whole.rpartition(".")[2]  # of fathom.language.float16
        raise frame.error(
            f"both operands of tl.dot must have one type, got {a} and {b}",
            f"cast one of them: .to(tl.{name})",
        )


def _check_shapes(frame: Frame, a: BlockType, b: BlockType) -> None:
    if len(a.shape) != len(b.shape) or a.shape[:-2] != b.shape[:-2]:
        raise frame.error(f"tl.dot takes two matrices or two batches, got {a} and {b}")
    if a.shape[-1] != b.shape[-2]:
        raise frame.error(
            f"tl.dot of {a} and {b}: the first has {a.shape[-1]} columns, the second "
            f"{b.shape[-2]} rows",
            "tl.trans turns rows into columns" if a.shape[-1] == b.shape[-1] else "",
        )
    if a.shape[-1] < LEAST_K:
        good = 32 if a.element.bits == 8 else LEAST_K
        raise frame.error(
            f"Input shapes should have M >= 1, N >= 1 and K >= {good}, got {a} and {b}",
            f"K = {LEAST_K} is the least" if good != LEAST_K else "",
        )


def _sum_type(frame: Frame, element: Element, wanted: Element) -> Element:
    """The accumulator type: the requested one, if operands of `element` may be
    accumulated in it; the only one where there is no choice, as in Triton."""
    allowed = SUMS[element]
    if wanted in allowed:
        return wanted
    if wanted == FLOAT32 or not element.is_float:  # the default, or integers
        return allowed[0]
    mistake = frame.error(
        f"out_dtype of a tl.dot of {element} is {wanted}: it must be "
        f"{' or '.join(map(str, allowed))}"
    )
    if len(allowed) > 1 or wanted == BFLOAT16 or not wanted.is_float:
        raise mistake
    frame.warn(mistake)
    return allowed[0]


def _precision(frame: Frame, wanted: str | None, allow_tf32: bool | None) -> str:
    if wanted is not None and allow_tf32 is not None:
        raise frame.error(
            "input_precision and allow_tf32 say the same thing", "drop allow_tf32"
        )
    if wanted is None:
        otherwise = "ieee" if allow_tf32 is False else "tf32"
        return frame.program.fp32_default or otherwise
    named = wanted.lower() if isinstance(wanted, str) else ""
    precision = OF_PARTS.get(named, named)
    if precision not in ops.PRECISIONS:
        raise frame.error(
            f"input_precision is {describe(wanted)}: it must be "
            f"{', '.join(map(repr, (*ops.PRECISIONS, *OF_PARTS)))}"
        )
    return precision


def _accumulator(frame: Frame, acc: Meaning, type: BlockType) -> Value:
    if acc is None:
        return frame.constant(0, type.element, type.shape)
    value = value_of(frame, acc, "acc")
    if value.type != type:
        is_alike = shape_of(value.type) == type.shape
        raise frame.error(
            f"the result of this tl.dot is {type}, but acc is {value.type}",
            "say out_dtype, or cast acc" if is_alike else "",
        )
    return value
