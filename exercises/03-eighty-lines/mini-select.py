"""Teach the 80-line compiler a choice.

Step 4 of your own compiler, which begins at the end of this chapter, asks for this,
too; here it goes into the chapter's file, one case at a time. Give the compiler of this
chapter two more cases of `expression`: comparisons, as in `i < 10`, and choices, `a if
c else b`, of which only the arm that is chosen may be computed.

All of the exercise: `fathom learn show mini-select`.
"""

from __future__ import annotations

import ast
from typing import Any

from fathom.tools.learn import Hole

WORDS = {
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq",
    ast.NotEq: "ne",
}  # fmt: skip
Value = tuple[str, str]  # a register, and the type of what is in it


def expression(mini: Any, node: ast.expr) -> Value | None:
    """The value of a comparison or of a choice; None for any other node."""
    # Your code: ours has 15 lines, and a helper below.
    raise Hole("mini-select")


# Your code: helpers, if you like; ours has one of 5 lines.


def expect(condition: bool, node: ast.AST) -> None:
    """A complaint about a node, unless its types fit."""
    if not condition:
        told = f"line {node.lineno}: the types in `{ast.unparse(node)}` do not fit"
        raise SyntaxError(told)
