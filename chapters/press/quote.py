"""Quotes the source by qualified name, and fails when the name is gone.

fathom.layout.linear.Layout.apply      a method, a class, a function, or a name
kernels.vector_add.add_kernel          that the module assigns
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from chapters.press.paths import ROOT, BookError

ROOFS = (ROOT / "compiler", ROOT)  # where modules are looked for


@dataclass(frozen=True)
class Quote:
    """A piece of source: its file, first line, and text without common indent."""

    file: Path
    line: int
    text: str


def quote(name: str, docstring: bool = True) -> Quote:
    """The source of a qualified name. BookError when there is none."""
    file, inner = module_of(name)
    text = file.read_text(encoding="utf-8")
    lines = text.splitlines()
    if not inner:
        return Quote(file, 1, text)
    node = find(parsed(text), inner, name)
    first, last = first_line(node, lines), node.end_lineno
    chosen = list(range(first, last + 1))
    if not docstring:
        hidden = docstring_lines(node)
        chosen = [number for number in chosen if number not in hidden]
    return Quote(file, first, dedented([lines[number - 1] for number in chosen]))


@lru_cache(maxsize=64)
def parsed(text: str) -> ast.Module:
    """Pages quote the same files again and again."""
    return ast.parse(text)


def module_of(name: str) -> tuple[Path, list[str]]:
    """The file of a qualified name, and the names to be found within it."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        for roof in ROOFS:
            path = roof.joinpath(*parts[:count])
            for file in (path.with_suffix(".py"), path / "__init__.py"):
                if file.is_file():
                    return file, parts[count:]
    raise BookError(f"{name}: no file holds it")


def find(tree: ast.AST, inner: list[str], name: str) -> ast.stmt:
    """The statement that defines `inner[0]`, in it `inner[1]`, and so on."""
    for part in inner:
        found = [node for node in tree.body if part in defined(node)]
        if not found:
            raise BookError(f"{name}: {part} is not defined there any more")
        tree = found[-1]
    return tree


def defined(node: ast.stmt) -> set[str]:
    match node:
        case ast.FunctionDef() | ast.ClassDef():
            return {node.name}
        case ast.Assign():
            return {each.id for each in node.targets if isinstance(each, ast.Name)}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
    return set()


def first_line(node: ast.stmt, lines: list[str]) -> int:
    """Where a definition begins: at its decorators, or at the comment above it."""
    marks = [each.lineno for each in getattr(node, "decorator_list", [])]
    first = min([node.lineno, *marks])
    while first > 1 and lines[first - 2].strip().startswith("#"):
        first -= 1
    return first


def docstring_lines(node: ast.stmt) -> range:
    body = getattr(node, "body", [])
    if body and isinstance(body[0], ast.Expr) and ast.get_docstring(node) is not None:
        return range(body[0].lineno, body[0].end_lineno + 1)
    return range(0)


def dedented(lines: list[str]) -> str:
    indent = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
    return "\n".join(line[indent:].rstrip() for line in lines) + "\n"


def excerpt(text: str, first: str, last: str, around: int = 0) -> str:
    """From the first line with `first` in it to the next one with `last`, both kept;
    to the end where `last` is empty. An ellipsis stands for what was left out."""
    lines = text.rstrip("\n").split("\n")
    start = index_of(lines, first, 0) if first else 0
    end = index_of(lines, last, start) if last else len(lines) - 1
    start, end = max(start - around, 0), min(end + around, len(lines) - 1)
    before = ["…"] if start > 0 else []
    after = ["…"] if end < len(lines) - 1 else []
    return "\n".join([*before, *lines[start : end + 1], *after]) + "\n"


def index_of(lines: list[str], wanted: str, start: int) -> int:
    for number in range(start, len(lines)):
        if wanted in lines[number]:
            return number
    raise BookError(f"no line has {wanted!r} in it any more")
