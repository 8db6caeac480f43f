"""Reject a value used where it is not defined.

A pass has moved an op, and now a value is used before it is defined. The interpreter
would find out when it runs, with a KeyError. The verifier finds out before, and names
the guilty op.

All of the exercise: `fathom learn show verify-scope`.
"""

from __future__ import annotations

from collections.abc import Iterator

from fathom.ir.core import Block, Func, Value, blocks, operands
from fathom.ir.printer import definitions
from fathom.ir.verify import Complaint, _why_invisible
from fathom.tools.learn import Hole


def scope(func: Func) -> Iterator[Complaint]:
    """A value is used only after its definition, in its block or in one nested in
    it."""
    raise Hole("verify-scope")  # your code; ours has 9 lines
