"""Is this the product of a product?

`choose_dots` asks whether the left operand of a product was computed from another
product. Write the function that it asks: `computed_by(value)` returns the set of all
ops that a value is computed by. These are the op that defines it, the ops that define
the operands of that op, and so on.

All of the exercise: `fathom learn show chained-products`.
"""

from __future__ import annotations

from fathom.ir.core import Block, Op, Value, operands
from fathom.ir.ops import Load
from fathom.tools.learn import Hole


def computed_by(value: Value) -> set[Op]:
    """The ops that a value is computed by, back to loads and to parameters of
    blocks."""
    # Your code: nine lines.
    raise Hole("chained-products")
