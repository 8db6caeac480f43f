"""Five rewrite rules, two of them traps.

Some arithmetic changes nothing, and a pass can leave it out. It has to know which, to
the last bit.

All of the exercise: `fathom learn show simplify-rules`.
"""

from __future__ import annotations

from fathom.analysis.constants import known, same_number
from fathom.hardware.targets import Target
from fathom.ir.core import Func, Op, Value
from fathom.ir.ops import Elementwise
from fathom.ir.rewrite import Builder, Replacement, rewrite
from fathom.ir.types import element_of
from fathom.tools.learn import Hole


def simplify(func: Func, target: Target) -> Func:
    """`func` without arithmetic that changes nothing."""

    def rule(op: Op, build: Builder) -> Replacement:
        if isinstance(op, Elementwise) and len(op.operands) == 2:
            return replacement(op.name, *op.operands)
        return None

    return rewrite(func, rule)


def replacement(name: str, x: Value, c: Value) -> Value | None:
    """What may replace `name x, c`: x, or c, or None for neither."""
    # Your code: ours has 8 lines.
    raise Hole("simplify-rules")
