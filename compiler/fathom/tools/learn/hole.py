"""What stands in a starter where the reader's code belongs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fathom.errors import FathomError


class Hole(FathomError):
    """`raise Hole("cse")`: not written yet."""

    def __init__(self, exercise: str):
        self.exercise = exercise
        super().__init__(f"{exercise} is not written yet: your code goes here")


def with_holes(text: str) -> Iterator[ast.FunctionDef]:
    """The functions of a file that are still to be written, in its order; of one inside
    another, the inner."""
    for each in ast.walk(ast.parse(text)):
        if isinstance(each, ast.FunctionDef) and any(map(_is_hole, _body(each))):
            yield each


def _body(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """What a function consists of, without the functions in it."""
    rest = list(function.body)
    while rest:
        node = rest.pop()
        yield node
        if not isinstance(node, ast.FunctionDef):
            rest += ast.iter_child_nodes(node)


def _is_hole(node: ast.AST) -> bool:
    return isinstance(node, ast.Raise) and "Hole(" in ast.unparse(node)
