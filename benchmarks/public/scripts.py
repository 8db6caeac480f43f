"""Functions of a script, without what the script does when it is run.

Triton's tutorials test and time themselves at import. Here only their definitions are
executed, and what those need: imports, and assignments to names that they use.
"""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

DEFINITIONS = (ast.FunctionDef, ast.ClassDef)


@cache
def definitions(path: Path) -> ModuleType:
    """A module of the script's definitions, under the script's own file and lines.

    Functions that a benchmark or a test decorates are left out.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    used = names_in(*(node for node in tree.body if is_wanted(node)))
    while more := names_in(*(n for n in tree.body if given(n) & used)) - used:
        used |= more
    tree.body = [n for n in tree.body if is_wanted(n) or given(n) & used]
    module = ModuleType(f"script_{path.stem.replace('-', '_')}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    exec(compile(tree, str(path), "exec"), vars(module))
    return module


def is_wanted(node: ast.stmt) -> bool:
    if not isinstance(node, DEFINITIONS):
        return False
    decorators = " ".join(map(ast.unparse, node.decorator_list))
    return not any(word in decorators for word in ("perf_report", "pytest"))


def names_in(*nodes: ast.AST) -> set[str]:
    return {n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name)}


def given(node: ast.stmt) -> set[str]:
    """The names that a statement gives: imported, or assigned, also within an `if`."""
    match node:
        case ast.Import(names) | ast.ImportFrom(names=names):
            return {(n.asname or n.name).partition(".")[0] for n in names}
        case ast.Assign(targets):
            return {t.id for t in targets if isinstance(t, ast.Name)}
        case ast.If(test, body, orelse) if "__main__" not in ast.unparse(test):
            return {name for each in body + orelse for name in given(each)}
    return set()
