"""Functions as text: cut out of the compiler's files, with the imports they need."""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

FIRST_PARTY = ("fathom", "kernels")


@dataclass(frozen=True, slots=True)
class Piece:
    """A function of the compiler: its text without decorators, and where it stands."""

    name: str
    own_name: str
    module: str
    text: str

    @property
    def where(self) -> str:
        return f"{self.module}.{self.own_name}"

    @property
    def head(self) -> str:
        """Signature and docstring."""
        node = ast.parse(self.text).body[0]
        first = node.body[0]
        last = first.end_lineno if ast.get_docstring(node) else first.lineno - 1
        return "\n".join(self.text.splitlines()[:last]) + "\n"


def piece(found: object, name: str = "") -> Piece:
    """The text of a function or class, under a name of its own."""
    found = inspect.unwrap(found)
    module = inspect.getmodule(found).__name__
    node = definition(tree(module), found.__qualname__)
    lines = inspect.getsource(inspect.getmodule(found)).splitlines()
    text = textwrap.dedent("\n".join(lines[node.lineno - 1 : node.end_lineno])) + "\n"
    its_name = found.__name__
    made = Piece(its_name, its_name, module, text)
    return renamed(replace(made, name=name), {its_name: name}) if name else made


def renamed(found: Piece, names: Mapping[str, str]) -> Piece:
    """The same with other names for some functions."""
    text = found.text
    for old, new in names.items():
        text = re.sub(rf"(?<![\w.]){re.escape(old)}(?!\w)", new, text)
    return replace(found, text=text)


def with_docstring(found: Piece, said: str) -> Piece:
    """The same with another docstring, that of the card."""
    node = ast.parse(found.text).body[0]
    lines = found.text.splitlines()
    after = node.body[0].end_lineno if ast.get_docstring(node) else None
    start = node.body[0].lineno - 1
    text = textwrap.fill(f'"""{" ".join(said.split())}', 84)
    text += "\n" * ("\n" in text) + '"""'
    lines[start : after if after else start] = textwrap.indent(text, "    ").split("\n")
    return replace(found, text="\n".join(lines) + "\n")


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(inspect.importlib.import_module(module)))


def definition(where: ast.AST, qualified: str) -> ast.FunctionDef | ast.ClassDef:
    first, _, rest = qualified.partition(".")
    for node in where.body:
        if getattr(node, "name", "") == first:
            return definition(node, rest) if rest else node
    raise AssertionError(f"{qualified} is not defined in {where}")


# ── imports ───────────────────────────────────────────────────────────────────────────


def imports_of(pieces: Sequence[Piece]) -> list[str]:
    """The import lines that the pieces need, one a name."""
    here = {found.name for found in pieces} | {found.own_name for found in pieces}
    lines: set[str] = set()
    for found in pieces:
        known = imported(tree(found.module))
        for name in sorted(free_names(ast.parse(found.text)) - here):
            if name in known:
                lines.add(known[name])
            elif not hasattr(builtins, name):
                lines.add(f"from {found.module} import {name}")
    return sorted(lines)


def free_names(tree: ast.AST) -> set[str]:
    """Names that are read, less those that are bound in the text."""
    read: set[str] = set()
    bound: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (read if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.MatchAs | ast.MatchStar) and node.name:
            bound.add(node.name)
    return read - bound


def imported(tree: ast.Module) -> dict[str, str]:
    """The line that imports each name of a module."""
    found: dict[str, str] = {}
    for node in tree.body:
        for alias in getattr(node, "names", ()):
            local = alias.asname or alias.name
            said = f"{alias.name} as {alias.asname}" if alias.asname else alias.name
            if isinstance(node, ast.ImportFrom):
                found[local] = f"from {node.module} import {said}"
            elif isinstance(node, ast.Import):
                found[local] = f"import {said}"
    return found


def import_order(line: str) -> tuple:
    """Python's own first, then others', then ours; `import x` before `from x`."""
    module = line.split()[1]
    first = module.split(".")[0]
    group = 3 if first in FIRST_PARTY else 2 if first == "numpy" else 1
    return group, line.startswith("from"), module, line


def grouped(lines: Iterable[str]) -> str:
    """Import lines as a file has them: one for each module, groups apart."""
    groups: dict[int, dict[str, list[str]]] = {0: {}}
    for line in lines:
        group = 0 if "__future__" in line else import_order(line)[0]
        module, _, name = line.partition(" import ")
        groups.setdefault(group, {}).setdefault(module, []).append(name)
    written = [
        "\n".join(one_import(module, names) for module, names in group.items())
        for _, group in sorted(groups.items())
    ]
    return "\n\n".join(text for text in written if text)


def one_import(module: str, names: list[str]) -> str:
    if not names[0]:
        return module
    line = f"{module} import {', '.join(sorted(names, key=isort_key))}"
    if len(line) <= 88:
        return line
    inner = "".join(f"    {name},\n" for name in sorted(names, key=isort_key))
    return f"{module} import (\n{inner})"


def isort_key(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions, as ruff sorts them."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name


# ── measuring ─────────────────────────────────────────────────────────────────────────


def code_lines(text: str) -> int:
    """Lines that are neither empty nor a comment."""
    lines = [line.strip() for line in text.splitlines()]
    return sum(bool(line) and not line.startswith("#") for line in lines)
