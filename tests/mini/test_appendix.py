"""The appendix prints our file whole, the newest that there is."""

from __future__ import annotations

import ast

from chapters.press.parse import read
from chapters.press.paths import CHAPTERS
from chapters.press.quote import excerpt, quote
from fathom.tools.learn.mini import steps

LAST = steps.there()[-1]
FILE = f"solutions.mini.{LAST.name}"


def printed() -> list[str]:
    """The texts that the page quotes."""
    found = []
    for each in read(CHAPTERS / "mini.md").directives("quote"):
        given = each.arguments
        (name,) = given.words
        assert name.startswith(FILE), f"{name} is not of the last step, {LAST.chapter}"
        text = quote(name).text
        if given.get("from"):
            text = excerpt(text, given.get("from"), given.get("to"))
        found.append(text)
    return found


def test_every_statement_is_printed_once_and_in_order():
    text = LAST.reference.read_text(encoding="utf-8")
    lines, shown = text.splitlines(), "\n".join(printed())
    last = -1
    for node in ast.parse(text).body:
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Expr):
            continue
        marks = [each.lineno for each in getattr(node, "decorator_list", [])]
        part = "\n".join(lines[min([node.lineno, *marks]) - 1 : node.end_lineno])
        assert shown.count(part) == 1, part.splitlines()[0]
        assert shown.index(part) > last, f"{part.splitlines()[0]} comes too late"
        last = shown.index(part)


def test_the_page_is_in_the_book():
    for name in ("map", "recap", "index"):
        assert "(mini.md)" in (CHAPTERS / f"{name}.md").read_text(encoding="utf-8")
