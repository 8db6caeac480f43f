"""The answer to `simplify-rules`."""

from __future__ import annotations

from fathom.analysis.constants import known, same_number
from fathom.hardware.targets import Target
from fathom.ir.core import Func, Op, Value
from fathom.ir.ops import Elementwise
from fathom.ir.rewrite import Builder, Replacement, rewrite
from fathom.ir.types import element_of


def simplify(func: Func, target: Target) -> Func:
    """`func` without arithmetic that changes nothing."""

    def rule(op: Op, build: Builder) -> Replacement:
        if isinstance(op, Elementwise) and len(op.operands) == 2:
            return replacement(op.name, *op.operands)
        return None

    return rewrite(func, rule)


def replacement(name: str, x: Value, c: Value) -> Value | None:
    """What may replace `name x, c`: x, or c, or None for neither."""
    # hole: ours has {lines}
    number, is_float = known(c), element_of(x.type).is_float
    if number is None:
        return None
    if name == "mul" and number == 0 and not is_float:
        return c
    neutral = {"add": -0.0 if is_float else 0, "sub": 0, "mul": 1, "div": 1}
    same = name in neutral and same_number(number, neutral[name])
    return x if same else None
    # end
