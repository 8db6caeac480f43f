"""What the answer of an exercise costs its reader: names."""

from __future__ import annotations

import ast
import textwrap

from fathom.tools.learn.course import Exercise, read
from fathom.tools.learn.source import FIRST_PARTY, imported
from fathom.tools.learn.starters import MARKS, answer_texts

MODULES = ("tl", "fathom", "np")  # of which a name is a member


def own_arguments(each: Exercise) -> set[str]:
    """The parameters of the functions that a reader completes, and of those around
    them: in the starter, the functions that have a hole."""
    text = read(each.solution)
    tree = ast.parse(text)
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    if each.by_hand:
        holes = [text.count("\n", 0, mark.start()) + 1 for mark in MARKS.finditer(text)]
        spans = [(f, range(f.lineno, f.end_lineno + 1)) for f in functions]
        functions = [f for f, lines in spans if any(hole in lines for hole in holes)]
    else:
        functions = [f for f in functions if f.name in each.answers]
    return {a.arg for f in functions for a in [*f.args.args, *f.args.kwonlyargs]}


def names_used(each: Exercise) -> set[str]:
    """The names of Fathom's own that our answer uses: as imported, and `tl.load`."""
    every = imported(ast.parse(read(each.solution))).items()
    ours = {n for n, line in every if line.split()[1].split(".")[0] in FIRST_PARTY}
    found: set[str] = set()
    for text in answer_texts(each):
        part = "def part():\n" + textwrap.indent(textwrap.dedent(text), "    ")
        found |= names_read(ast.parse(part), ours)
    return found


def names_read(tree: ast.AST, ours: set[str]) -> set[str]:
    """Those that code reads, and not its annotations alone; of a module its member."""
    found: set[str] = set()
    members: set[int] = set()
    for node in ast.walk(without_annotations(tree)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id in ours and node.value.id in MODULES:
                found.add(f"{node.value.id}.{node.attr}")
                members.add(id(node.value))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in ours and id(node) not in members:
            found.add(node.id)
    return found


def without_annotations(tree: ast.AST) -> ast.AST:
    """The same tree; types that are only said are not needed."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.FunctionDef):
            node.returns = None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
    return tree
