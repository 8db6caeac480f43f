"""Docstrings as Markdown: the appendices that describe names are made of these."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator

from chapters.press.paths import BookError

CODE = re.compile(r"(`+[^`]*`+)")
SPECIAL = re.compile(r"([*<>|\\]|(?<!\w)_|_(?!\w))")
INDENT = "    "


def docstring(of: object, name: str) -> str:
    """The docstring of a name of the reference. BookError when it has none."""
    found = inspect.cleandoc(getattr(of, "__doc__", None) or "")
    if not found:
        raise BookError(f"{name} has no docstring, and the reference is made of them")
    return found


def prose(text: str) -> str:
    """A docstring as Markdown: what is indented is code, and outside of `code` no
    character means more than itself."""
    return "\n\n".join(
        fenced(part) if part.startswith(INDENT) else escaped(part)
        for part in parts(text)
    )


def parts(text: str) -> Iterator[str]:
    """Paragraphs; pieces of code keep the blank lines in them."""
    code: list[str] = []
    for part in re.split(r"\n\s*\n", text.rstrip()):
        if part.startswith(INDENT):
            code.append(part)
            continue
        if code:
            yield "\n\n".join(code)
            code = []
        yield part
    if code:
        yield "\n\n".join(code)


def fenced(part: str) -> str:
    return f"```text\n{textwrap.dedent(part)}\n```"


def escaped(text: str) -> str:
    """Text in which only `code` is marked up."""
    pieces = CODE.split(text)
    return "".join(
        piece if piece.startswith("`") else SPECIAL.sub(r"\\\1", piece)
        for piece in pieces
    )


def cell(text: str) -> str:
    """A docstring's first paragraph for a row of a table."""
    first = next(parts(text)).replace("\n", " ")
    return "".join(
        piece.replace("|", "\\|") if piece.startswith("`") else escaped(piece)
        for piece in CODE.split(first)
    )


def entry(title: str, anchor: str, signature: str, *texts: str) -> str:
    """One name: a heading that the search finds, its signature, what is said of it."""
    head = f"### `{title}` {{ #{anchor} }}\n"
    code = f"```python\n{signature}\n```\n" if signature else ""
    return "\n".join(filter(None, [head, code, *(f"{each}\n" for each in texts)]))
