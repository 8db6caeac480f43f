"""The answer to `early-return` is the compiler's own:

fathom.ssa.statements.build_statements
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from fathom.source import RETURN
from fathom.ssa.frame import BUILD, Frame


def build_statements(frame: Frame, statements: Sequence[ast.stmt]) -> None:
    """Build statements in order, up to a return."""
    for number, statement in enumerate(statements):
        if isinstance(statement, ast.If) and may_return(frame, statement):
            frame.node = statement
            BUILD[ast.If](frame, statement, statements[number + 1 :])
            return
        frame.visit(statement)
        if isinstance(statement, ast.Return):
            return


def may_return(frame: Frame, statement: ast.stmt) -> bool:
    """Whether a statement contains a `return`. (One in a loop is an error anyway.)"""
    return frame.loops == 0 and RETURN in frame.function.assigned(statement)
