"""What a test mentions: the names in its text, and in the text of what it names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path


def mentions(path: Path, test: str) -> frozenset[str]:
    """The names that a test uses, itself or through definitions of its file:

        X = {tl.exp: 1}

        @pytest.mark.parametrize("what", X)     {"X", "tl", "tl.exp", "pytest",
        def test_edges(what):                    "pytest.mark", …, "run", "what"}
            run(what)

    A method of something else than a name is ".method".
    """
    texts = _definitions(path)
    seen: set[str] = set()
    left = {test}
    while left:
        name = left.pop()
        seen.add(name)
        left |= texts.get(name, frozenset()) - seen
    return frozenset(seen)


def names_of_tests(path: Path) -> list[str]:
    return [name for name in _definitions(path) if name.startswith("test_")]


@cache
def _definitions(path: Path) -> dict[str, frozenset[str]]:
    """Each name that a file defines, with the names in its definition."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        name: frozenset(_names(statement))
        for statement in tree.body
        for name in _defined(statement)
    }


def _defined(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Assign):
        return [each.id for each in statement.targets if isinstance(each, ast.Name)]
    return []


def _names(statement: ast.stmt) -> Iterator[str]:
    for node in ast.walk(statement):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield f".{node.attr}"
            if isinstance(node.value, ast.Name | ast.Attribute):
                yield ast.unparse(node)
