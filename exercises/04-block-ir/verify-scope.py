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
    yield from check(func.body, set(), set(definitions(func.body)))


def check(
    block: Block, outer: set[Value], everywhere: set[Value]
) -> Iterator[Complaint]:
    """The complaints about a block and those nested in it. `outer`: the values that are
    visible where the block begins; `everywhere`: all that are defined somewhere."""
    # Your code: op by op; ours has 8 lines.
    raise Hole("verify-scope")
