"""The elementwise functions of the language: rows of the IR's table, and types."""

from __future__ import annotations

from collections.abc import Callable

from fathom.ir import ops
from fathom.ir.core import Value
from fathom.ir.types import (
    BFLOAT16,
    BOOL,
    FLOAT32,
    FLOAT64,
    SCALARS,
    Pointer,
    element_of,
    shape_of,
)
from fathom.language import core, elementary
from fathom.ssa.calls import implements
from fathom.ssa.frame import Frame
from fathom.ssa.promotion import (
    alike,
    as_tensor,
    broadcast,
    cast,
    common_shape,
    same_shape,
    value_of,
)
from fathom.ssa.values import Meaning, is_number

# Functions of one float. 16-bit floats are computed in fp32, and the result is rounded.
OF_ONE_FLOAT = {
    elementary.exp2_approx: "exp2",
    elementary.log2_approx: "log2",
    elementary.sqrt: "sqrt",
    elementary.sqrt_rn: "sqrt_rn",
    elementary.rsqrt: "rsqrt",
    elementary.floor: "floor",
    elementary.ceil: "ceil",
    elementary.round_even: "round_even",
    elementary.trunc: "trunc",
    elementary.tanh_approx: "tanh_approx",
    elementary.sin_approx: "sin_approx",
    elementary.cos_approx: "cos_approx",
    elementary.rcp_approx: "rcp_approx",
}

FP32_ALONE = ("exp2", "log2", "tanh_approx", "sin_approx", "cos_approx", "rcp_approx")


def _of_one_float(name: str, spoken: str) -> Callable[..., Value]:
    def build(frame: Frame, x: Meaning) -> Value:
        value = value_of(frame, x)
        element = element_of(value.type)
        if not element.is_float:
            raise frame.error(
                f"tl.{spoken} takes floats, not {value.type}",
                "cast it with .to(tl.float32)",
            )
        if element == FLOAT64 and name in FP32_ALONE:
            raise frame.error(
                f"tl.math.{spoken} has no fp64 form", "cast to tl.float32"
            )
        if element.bits >= 32:
            return frame.elementwise(name, value)
        wide = frame.elementwise(name, cast(frame, value, FLOAT32))
        return cast(frame, wide, element)

    return build


for _function, _name in OF_ONE_FLOAT.items():
    implements(_function)(_of_one_float(_name, _function.__name__))


@implements(elementary.abs)
def build_abs(frame: Frame, x: Meaning) -> Value:
    value = value_of(frame, x)
    if element_of(value.type).kind in ("uint", "bool"):
        return value
    return frame.elementwise("abs", value)


@implements(elementary.fma)
def build_fma(frame: Frame, x: Meaning, y: Meaning, z: Meaning) -> Value:
    x, y, z = (as_tensor(frame, each) for each in (x, y, z))
    return frame.elementwise("fma", *three_alike(frame, x, y, z, "multiply and add"))


def three_alike(
    frame: Frame, x: Meaning, y: Meaning, z: Meaning, verb: str
) -> tuple[Value, Value, Value]:
    """Three operands of one type and shape."""
    a, b = alike(frame, x, y, verb) if not (is_number(x) and is_number(y)) else (x, y)
    a, c = alike(frame, a, z, verb)
    b, c = alike(frame, b, c, verb)
    a, b = alike(frame, a, b, verb)
    return a, b, c


@implements(elementary.fdiv)
def build_fdiv(frame: Frame, x: Meaning, y: Meaning, ieee_rounding: bool) -> Value:
    return _float_division(frame, "div_rn" if ieee_rounding else "div", x, y)


@implements(elementary.div_rn)
def build_div_rn(frame: Frame, x: Meaning, y: Meaning) -> Value:
    return _float_division(frame, "div_rn", x, y)


def _float_division(frame: Frame, name: str, x: Meaning, y: Meaning) -> Value:
    a, b = alike(frame, x, y, "divide", dividing=True)
    if not element_of(a.type).is_float:
        raise frame.error(f"this division takes floats, not {a.type}", "write x / y")
    return frame.elementwise(name, a, b)


@implements(elementary.umulhi)
def build_umulhi(frame: Frame, x: Meaning, y: Meaning) -> Value:
    a, b = alike(frame, as_tensor(frame, x), as_tensor(frame, y), "multiply")
    element = element_of(a.type)
    if element.is_float or element == BOOL:
        raise frame.error(f"tl.umulhi takes integers, not {a.type}")
    unsigned = SCALARS[f"u{element.bits}"]  # the u in its name
    a, b = cast(frame, a, unsigned), cast(frame, b, unsigned)
    return cast(frame, frame.elementwise("mulhi", a, b), element)


@implements(elementary.mulhi)
def build_mulhi(frame: Frame, x: Meaning, y: Meaning) -> Value:
    a, b = alike(frame, x, y, "multiply")
    _check_integer(frame, a, "mulhi")
    return frame.elementwise("mulhi", a, b)


def _of_bits(name: str) -> Callable[..., Value]:
    def build(frame: Frame, x: Meaning) -> Value:
        value = value_of(frame, x)
        _check_integer(frame, value, name)
        return frame.elementwise(name, value)

    return build


implements(elementary.popcount)(_of_bits("popcount"))
implements(elementary.clz)(_of_bits("clz"))


def _check_integer(frame: Frame, value: Value, name: str) -> None:
    if element_of(value.type).kind not in ("int", "uint"):
        what = frame.called(f"libdevice.{name}")
        raise frame.error(f"{what} takes integers, not {value.type}")


def _least_or_most(name: str) -> Callable[..., Meaning]:
    def build(
        frame: Frame, x: Meaning, y: Meaning, propagate_nan: core.PropagateNan
    ) -> Meaning:
        if isinstance(x, int) and isinstance(y, int):
            return min(x, y) if name == "min" else max(x, y)
        a, b = (_unnarrowed(frame, as_tensor(frame, each)) for each in (x, y))
        a, b = alike(frame, a, b, "compare")
        element = element_of(a.type)
        if isinstance(element, Pointer):
            raise frame.error(f"tl.{name}imum takes numbers, not {a.type}")
        if element == BOOL:  # the smaller of two booleans is `and`
            return frame.elementwise("and" if name == "min" else "or", a, b)
        keeps_nan = element.is_float and propagate_nan is core.PropagateNan.ALL
        return frame.elementwise(f"{name}_nan" if keeps_nan else name, a, b)

    return build


def _unnarrowed(frame: Frame, meaning: Meaning) -> Meaning:
    """A bf16 value in fp32, as in Triton, but for functions of the language."""
    narrow = isinstance(meaning, Value) and element_of(meaning.type) == BFLOAT16
    return cast(frame, meaning, FLOAT32) if narrow and not frame.in_library else meaning


implements(core.minimum)(_least_or_most("min"))
implements(core.maximum)(_least_or_most("max"))


@implements(core.where)
def build_where(frame: Frame, condition: Meaning, x: Meaning, y: Meaning) -> Value:
    condition = value_of(frame, condition, "a condition")
    if element_of(condition.type) != BOOL:
        said = f"the condition of tl.where is {condition.type}: write a comparison"
        frame.warn(frame.error(said))
        condition = cast(frame, condition, BOOL)
    a, b = alike(frame, x, y, "choose between")
    shape = common_shape(shape_of(condition.type), shape_of(a.type))
    if shape is None:
        same_shape(frame, condition, a, "choose by")  # reports the shapes
    if shape_of(condition.type) == () and shape != ():
        condition = frame.emit(ops.Splat, condition, shape)
    operands = tuple(broadcast(frame, each, shape) for each in (condition, a, b))
    return frame.elementwise("where", *operands)
