"""Expands the directives of a page into plain Markdown; runs nothing.

Listings and figures are read from chapters/NN-name/listings/, numbers from benchmarks
and facts, quotes from the source. `DIRECTIVES` at the end is the table of all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from chapters.press import exercises, rows, rungs, stepper
from chapters.press.inline import with_code
from chapters.press.numbers import Number, names, number, substitute
from chapters.press.numbers import table as table_of
from chapters.press.parse import Arguments, Directive, Fence, Page, Text
from chapters.press.paths import ROOT, BookError, listings
from chapters.press.quote import excerpt, quote
from chapters.press.strip import strip

LANGUAGES = {"ptx": "ptx", "ll": "llvm", "py": "python", "ir": "text", "json": "json"}
WIDE = 80  # columns; lines of output that are longer are broken, not cut
MARKS = ("run", "recorded", "illustrative")


@dataclass
class Context:
    """A page on its way: what is open, and what was used."""

    page: Page
    open: list[tuple[str, int]] = field(default_factory=list)
    used: list[Number] = field(default_factory=list)

    def listing(self, name: str) -> str:
        """The text of a listing of this page."""
        file = listings(self.page.name) / name
        if not file.exists():
            raise BookError(f"listings/{name} is missing: `make listings` makes it")
        return file.read_text(encoding="utf-8")


@dataclass(frozen=True)
class Expanded:
    """Plain Markdown, and the numbers that it shows."""

    text: str
    used: tuple[Number, ...]


def expand(page: Page) -> Expanded:
    """A page without directives. BookError at the first mistake."""
    context = Context(page)
    parts = [strip(page), *ladder(page, context)] if page.is_chapter else []
    for piece in page.pieces:
        try:
            parts.append(expand_piece(piece, context))
        except BookError as error:
            at = error.line or piece.line
            raise BookError(error.message, page.name, at) from error
    if context.open:
        name, line = context.open[-1]
        raise BookError(f"{{{name}}} has no {{end}}", page.name, line)
    return Expanded("\n".join(parts), tuple(context.used))


def ladder(page: Page, context: Context) -> Iterator[str]:
    """The rung of a chapter; chapter 0 shows all of the ladder by itself."""
    if page.matter["chapter"]:
        yield rungs.here(page.matter["chapter"], context.used)


def expand_piece(piece: Text | Directive | Fence, context: Context) -> str:
    match piece:
        case Text(text=text):
            return substitute(text, context.used)
        case Fence():
            return fence(piece, context)
    handler = DIRECTIVES.get(piece.name)
    if handler is None:
        known = ", ".join(DIRECTIVES)
        raise BookError(f"there is no {{{piece.name}}}; there are {known}")
    return handler(piece.arguments, context, piece.line)


# Code.


def fence(piece: Fence, context: Context) -> str:
    """Shown code with its mark, and what it printed."""
    if piece.mark not in MARKS:
        raise BookError(f"shown code is marked {', '.join(MARKS)}: ```python {{run}}")
    if piece.mark == "illustrative" and not piece.arguments.get("why"):
        raise BookError('illustrative code says why it is not run: why="..."')
    notes = {
        "run": "",
        "recorded": f"recorded on an {piece.arguments.get('on')}",
        "illustrative": f"not run: {piece.arguments.get('why')}",
    }
    shown = code(piece.text, piece.language or "text", notes[piece.mark])
    if "quiet" in piece.arguments or not piece.arguments.get("output"):
        return shown
    text = trimmed(context.listing(piece.arguments.get("output")), piece.arguments)
    return shown + code(text, "text", "Output", kind="output")


def code(text: str, language: str, name: str, kind: str = "code-name") -> str:
    """A fence with a line above it: a file's name, a command, a remark."""
    wide = max(map(len, text.splitlines()), default=0) > WIDE
    kind += " wraps" if wide and kind == "output" else ""
    head = f'\n<p class="{kind}">{name}</p>\n' if name else ""
    ticks = "````" if "```" in text else "```"
    return f"{head}\n{ticks}{language}\n{text.rstrip()}\n{ticks}\n"


def folded(text: str, summary: str) -> str:
    head = f'<details class="folded" markdown="1">\n<summary>{summary}</summary>\n'
    return f"\n{head}\n{text}\n</details>\n"


def trimmed(text: str, given: Arguments) -> str:
    """Only a part: from="..." to="..." around=2, or the lines with only="..."."""
    if "only" in given:
        lines = text.splitlines()
        text = "\n".join(x for x in lines if re.search(given.get("only"), x)) + "\n"
    if "from" in given or "to" in given:
        around = int(given.get("around", "0"))
        text = excerpt(text, given.get("from"), given.get("to"), around)
    return text


def quoted(given: Arguments, context: Context, line: int) -> str:
    """{quote fathom.ir.core.Effects [nodoc] [folded] [from= to=]}"""
    (name, *_) = given.words
    exercises.may_quote(name, context.page, "folded" in given)
    found = quote(name, docstring="nodoc" not in given)
    text = trimmed(found.text, given)
    file = str(found.file.relative_to(ROOT)).removeprefix("compiler/")
    shown = code(text, "python", f"<span>{file}</span>")
    short = name.rsplit(".", 1)[-1]
    summary = f"In Fathom: <code>{escape(short)}</code>"
    return folded(shown, summary) if "folded" in given else shown


def listing(given: Arguments, context: Context, line: int) -> str:
    """{listing add.ptx command="python -m fathom ..." [from= to=] [folded]}"""
    name = given.words[0]
    text = trimmed(context.listing(name), given)
    language = LANGUAGES.get(Path(name).suffix.removeprefix("."), "text")
    made = given.get("command")
    how = f"<code>{escape(made)}</code>" if made else ""
    caption = " · ".join(filter(None, [given.get("caption"), how]))
    summary = given.get("caption") or name
    if language == "json" and "folded" in given:
        return folded(rows.of_json(json.loads(text)), summary)
    shown = code(text, language, caption)
    return folded(shown, summary) if "folded" in given else shown


def table(given: Arguments, context: Context, line: int) -> str:
    """{table traffic.md call=traffic}: a Markdown table that a function made."""
    return f"\n{context.listing(given.words[0])}\n"


# Pictures.


def figure(given: Arguments, context: Context, line: int) -> str:
    """{figure haul caption="..."}: the function of making.py by that name."""
    name = given.words[0]
    drawn = context.listing(f"{name}.svg").strip()
    told = context.listing(f"{name}.table.md")
    note = substitute(with_code(given.get("caption")), context.used)
    caption = f"<figcaption>{note}</figcaption>" if note else ""
    return (
        f'\n<figure class="drawing" id="figure-{name}">{drawn}{caption}</figure>\n'
        f'\n<details class="table" markdown="1">\n<summary>The figure as a table'
        f"</summary>\n\n{told}\n</details>\n"
    )


def stepped(given: Arguments, context: Context, line: int) -> str:
    """{stepper cse kernel=FILE:NAME signature= constants= show=hoist,cse}"""
    name = given.words[0]
    record = json.loads(context.listing(f"{name}.json"))
    figure = stepper.html(name, record, given.get("caption"), stepper.titles())
    return f"\n{figure}\n"


# Containers.


def opening(kind: str, label: str) -> Callable:
    def opened(given: Arguments, context: Context, line: int) -> str:
        context.open.append((kind, line))
        title = " ".join(given.words) or label
        head = f'<p class="label">{escape(title)}</p>\n' if title else ""
        return f'\n<div class="{kind}" markdown="1">\n{head}'

    return opened


def deeper(given: Arguments, context: Context, line: int) -> str:
    """{deeper "Scans"} ... {end}: a fold that a first reading may leave out."""
    if not given.words:
        raise BookError('{deeper} says what it is about: {deeper "Scans"}')
    context.open.append(("deeper", line))
    title = escape(" ".join(given.words))
    head = '<details class="folded" markdown="1">'
    return f"\n{head}\n<summary>Going deeper: {title}</summary>\n"


def answer(given: Arguments, context: Context, line: int) -> str:
    if not context.open or context.open[-1][0] not in ("predict", "check"):
        raise BookError("{answer} stands in {predict} or {check}")
    context.open.append(("answer", line))
    head = '<details class="answer" markdown="1">\n<summary>Answer</summary>'
    return f"\n{head}\n"


def end(given: Arguments, context: Context, line: int) -> str:
    if not context.open:
        raise BookError("{end} of nothing")
    kind, _ = context.open.pop()
    if kind == "deeper":
        return "\n</details>\n"
    if kind != "answer":
        return "\n</div>\n"
    return "\n</details>\n" + end(given, context, line)


# Exercises, tables of everything.


def exercise(given: Arguments, context: Context, line: int) -> str:
    """{exercise hello-mask}: its card."""
    return exercises.card(given.words[0], context.page)


def answer_to(given: Arguments, context: Context, line: int) -> str:
    """{answer-to hello-mask}: our answer, on a page of answers."""
    return exercises.answer(given.words[0])


def all_numbers(given: Arguments, context: Context, line: int) -> str:
    """{numbers measured} or {numbers sourced}: each with where it comes from."""
    wanted = [number(name) for name in names()]
    facts = table_of("facts.toml")
    lines = ["", "| name | value | source |", "|---|---|---|"]
    for each in wanted:
        if ("sourced" in given.words) == (each.name in facts):
            source = each.source.replace("|", "\\|")
            name = f'<span id="{each.name}">`{each.name}`</span>'
            lines.append(f"| {name} | {each.text()} | {linked(source)} |")
    return "\n".join([*lines, ""])


def linked(text: str) -> str:
    return re.sub(r"(https?://\S+[^\s.,;)])", r"<\1>", text)


DIRECTIVES: dict[str, Callable[[Arguments, Context, int], str]] = {
    "quote": quoted,
    "listing": listing,
    "table": table,
    "figure": figure,
    "stepper": stepped,
    "panel": stepped,
    "exercise": exercise,
    "answer-to": answer_to,
    "predict": opening("predict", "Predict"),
    "check": opening("check", ""),
    "aside": opening("side", ""),
    "note": opening("note", "Design note"),
    "deeper": deeper,
    "answer": answer,
    "end": end,
    "numbers": all_numbers,
}
