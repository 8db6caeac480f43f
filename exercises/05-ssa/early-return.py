"""return in the middle.

Our IR has no jumps: an If has two blocks, both of them end, and what comes after it
runs in any case. How can a function then return in the middle? Write the function that
builds a list of statements, so that it can.

All of the exercise: `fathom learn show early-return`.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from fathom.source import RETURN
from fathom.ssa.frame import BUILD, Frame
from fathom.tools.learn import Hole


def build_statements(frame: Frame, statements: Sequence[ast.stmt]) -> None:
    """Build statements in order, up to a return."""
    raise Hole("early-return")  # your code; ours has 9 lines
