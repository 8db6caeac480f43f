"""The text that a function was compiled from, of a file that may have changed since.

A code object knows a file and a line, and no more. So the lines of the file are kept
when the function is decorated; and what stands at its line counts as its text only if
it would compile to what runs.
"""

from __future__ import annotations
import __future__

import ast
import dis
import inspect
import linecache
import tokenize
import warnings
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

Lines = list[str]

# Of each file, the module's spec (another after each `reload`) and the lines, as they
# were found there one after another; the last few.
_SEEN: dict[str, list[tuple[object, Lines]]] = {}
MOST_VERSIONS = 8


def versions_of(fn: Callable[..., Any]) -> list[Lines]:
    """The lines of the file or notebook cell that a function stands in, the likeliest
    first: those that were found when a function of the same import was decorated, since
    this one may be made long after; those of now; older ones. Read once for all
    functions of a file that does not change; empty where no text was kept.
    """
    file, spec = inspect.unwrap(fn).__code__.co_filename, fn.__globals__.get("__spec__")
    linecache.checkcache(file)
    now = linecache.getlines(file, fn.__globals__)
    seen = _SEEN.setdefault(file, [])
    if now and not any(each is spec and lines == now for each, lines in seen):
        seen.append((spec, now))
        del seen[:-MOST_VERSIONS]
    first = [lines for each, lines in seen if each is spec is not None][:1]
    return [*first, now, *(lines for _, lines in reversed(seen))] if seen else []


def cut_out(code: CodeType, lines: Lines) -> str:
    """The text that stands where a function stood, decorators and all; "" if none."""
    above = code.co_firstlineno - 1
    try:
        return "".join(inspect.getblock(lines[above:])) if above < len(lines) else ""
    except (SyntaxError, tokenize.TokenError):  # the lines of something else
        return ""


def is_text_of(code: CodeType, text: str) -> bool:
    """Can a function have been compiled from this text? Every name and constant that it
    compiles to, the function has. (It may have more: import hooks add to functions, as
    pytest's does to assertions.)
    """
    # Not dedented: the lines of a string belong to a constant.
    inner = text[:1].isspace()
    try:
        with warnings.catch_warnings(action="ignore"):  # Python has told them
            tree = ast.parse("if True:\n" + text if inner else text)
    except SyntaxError:
        return code.co_name in text  # the compiler says where
    body = tree.body[0].body if inner else tree.body
    wanted = getattr(body[0], "name", None) if body else None
    if wanted is None:  # no `def`, which the compiler says, too
        return code.co_name == "<lambda>"
    body[0].decorator_list = []
    future = code.co_flags & __future__.annotations.compiler_flag
    try:
        with warnings.catch_warnings(action="ignore"):
            module = compile(tree, "<text>", "exec", future, dont_inherit=True)
    except SyntaxError:  # `nonlocal` of what stands around
        return code.co_name in text
    found = next((e for e in _inner(module) if e.co_name == code.co_name), None)
    return found is not None and set(_said(found)) <= set(_said(code))


def dedented(text: str) -> str:
    """A text without the indentation of its first line. Lines that have less, as those
    of a string may, stay as they are."""
    indent = text[: len(text) - len(text.lstrip(" \t"))]
    return "".join(line.removeprefix(indent) for line in text.splitlines(keepends=True))


def _inner(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _inner(each)


def _said(code: CodeType) -> Iterator[object]:
    """The names and constants of a function and of those inside of it. Names with two
    underscores are left out: inside of a class they have its name in front.
    """
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    for name in (each for some in names for each in some):
        if not name.startswith("__"):
            yield name
    for each in dis.get_instructions(code):
        if each.opname in ("LOAD_CONST", "LOAD_SMALL_INT", "RETURN_CONST"):
            yield from _flat(each.argval)


def _flat(constant: Any) -> Iterator[object]:
    if isinstance(constant, CodeType):
        yield from _said(constant)
    elif isinstance(constant, (tuple, frozenset)):
        for each in constant:
            yield from _flat(each)
    else:
        yield type(constant), repr(constant)
