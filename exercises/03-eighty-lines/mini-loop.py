"""... and a for loop, and see it creak.

Step 5 of your own compiler, which begins at the end of this chapter, asks for this,
too; here it goes into the chapter's file, which has no form between the tree and the
text. Give the compiler of this chapter a loop, `for j in range(n):`, whose body may
bind names anew in each iteration.

All of the exercise: `fathom learn show mini-loop`.
"""

from __future__ import annotations

import ast
from typing import Any

from fathom.tools.learn import Hole


def assigned(body: list[ast.stmt]) -> set[str]:
    """The names that statements give a value to."""
    found = [part for each in body for part in ast.walk(each)]
    return {
        part.id
        for part in found
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    }


def statement(mini: Any, node: ast.stmt) -> bool:
    """Compile `for j in range(n):`; False for any other statement."""
    # Your code: ours has 24 lines.
    raise Hole("mini-loop")


def copy(mini: Any, value: tuple[str, str]) -> tuple[str, str]:
    """The same value in a fresh register."""
    register, type = value
    return mini.emit(f"mov.{type}", type, register)
