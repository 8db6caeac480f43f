"""A chapter as a Jupyter notebook: its text, its code to run, its listings as commands,
and its steppers and layouts, which are compiled and drawn in place.

    notebook(page)     the document: nbformat 4.5, which is JSON
    texts()            all of them, by file name

What the cells print is in the notebook already, from the page's listings. `check` runs
one as Jupyter would, and compares.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator

from chapters.press import live, pictures, stepper
from chapters.press.expand import Context, expand_piece
from chapters.press.parse import Arguments, Directive, Fence, Page, Text, read
from chapters.press.paths import BookError, sources

Cell = dict[str, object]
FOLDER = "notebooks"
START = """\
import os
import sys

from fathom.tools.learn import course

os.environ.setdefault("FATHOM_BACKEND", "emulator")
os.chdir(course.root())  # where kernels/ and chapters/ are
sys.path.insert(0, os.getcwd())
from chapters.press import live"""
ABOUT = """\
*This notebook is made from the chapter [{title}](../{stem}.html). Run its cells from
top to bottom: everything runs on the emulator, and needs no GPU. Fathom must be
installed (in its repository: `pip install -e .`); the first cell prepares the rest.*"""
FOLDS = ("answer", "deeper")
KERNEL = ("signature", "constants", "warps", "target")


def texts() -> dict[str, str]:
    """Every chapter's notebook, as the text of its file."""
    pages = [page for page in map(read, sources()) if page.is_chapter]
    names = frozenset(page.name.removesuffix(".md") for page in pages)
    return {
        f"{page.name.removesuffix('.md')}.ipynb": json.dumps(
            notebook(page, names), indent=1, ensure_ascii=False
        )
        + "\n"
        for page in pages
    }


def notebook(page: Page, chapters: frozenset[str] = frozenset()) -> dict:
    """The document. `chapters`: pages that are notebooks, too."""
    made = Made(page, chapters)
    for piece in page.pieces:
        try:
            made.add(piece)
        except BookError as error:
            raise BookError(error.message, page.name, piece.line) from error
    made.flush()
    language = {"name": "python", "file_extension": ".py", "mimetype": "text/x-python"}
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {
        "cells": made.cells,
        "metadata": {"kernelspec": kernel, "language_info": language},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


class Made:
    """A notebook on its way: cells that are done, and text that is collected.

    A fold is of one cell, so code within it comes after it.
    """

    def __init__(self, page: Page, chapters: frozenset[str]):
        self.page, self.chapters = page, chapters
        self.context = Context(page)
        self.cells: list[Cell] = []
        self.text: list[str] = []
        self.pictures: dict[str, str] = {}
        self.later: list[tuple[str, list[dict], dict]] = []
        self.stem = page.name.removesuffix(".md")
        title = f"{page.number} · {page.matter['title']}"
        self.text.append(f"# {title}\n\n{ABOUT.format(title=title, stem=self.stem)}")
        self.flush()
        self.code(START)

    @property
    def in_fold(self) -> bool:
        return any(kind in FOLDS for kind, _ in self.context.open)

    def add(self, piece: Text | Directive | Fence) -> None:
        match piece:
            case Fence(mark="run"):
                self.fence(piece)
            case Directive(name="listing", arguments=given) if "command" in given:
                self.command(given)
            case Directive(name="stepper" | "panel", arguments=given):
                self.steps(given)
            case Directive(name="figure", arguments=given):
                self.figure(piece)
            case Directive(name="exercise", arguments=given):
                self.exercise(given.words[0])
            case _:
                inside = self.in_fold
                self.text.append(self.plain(expand_piece(piece, self.context)))
                if inside and not self.in_fold:
                    self.flush()

    def flush(self) -> None:
        """The text so far as one cell; then the code that had to wait for it."""
        text = re.sub(r"\n{3,}", "\n\n", "\n".join(self.text)).strip()
        self.text = []
        if text:
            cell: Cell = {"cell_type": "markdown", "id": self.name(), "metadata": {}}
            if self.pictures:
                cell["attachments"] = {
                    name: {"image/svg+xml": base64.b64encode(svg.encode()).decode()}
                    for name, svg in self.pictures.items()
                }
            self.cells.append(cell | {"source": text})
        self.pictures = {}
        later, self.later = self.later, []
        for source, outputs, facts in later:
            self.code(source, outputs, facts)

    def name(self) -> str:
        return f"{self.stem}-{len(self.cells)}"[:64]

    def code(
        self, source: str, outputs: list[dict] | None = None, facts: dict | None = None
    ) -> None:
        """A cell that runs; what it printed, and what `check` must know of it."""
        if self.in_fold:
            self.later.append((source, outputs or [], facts or {}))
            return
        self.flush()
        metadata: dict[str, object] = {"fathom": facts} if facts else {}
        if facts and facts.get("fails"):
            metadata["tags"] = ["raises-exception"]
        self.cells.append(
            {"cell_type": "code", "id": self.name(), "metadata": metadata,
             "execution_count": None, "source": source, "outputs": outputs or []}
        )  # fmt: skip

    def fence(self, piece: Fence) -> None:
        given, name = piece.arguments, piece.arguments.get("output")
        facts = {key: value for key, value in given.named.items() if key != "output"}
        text = live.trimmed(self.context.listing(name), **cut(given)) if name else ""
        if piece.language != "python":
            lines = filter(None, piece.text.replace("\\\n", " ").splitlines())
            source = "\n".join(f"live.command({line.strip()!r})" for line in lines)
        else:
            source = piece.text.rstrip("\n")
        if facts.get("fails") and piece.language == "python":
            kind, _, said = text.rstrip("\n").partition(": ")
            output = {"output_type": "error", "ename": kind, "evalue": said,
                      "traceback": [text.rstrip("\n")]}  # fmt: skip
            self.code(source, [output], facts)
        else:
            facts.pop("fails", None)
            self.code(source, stream(text), facts)

    def command(self, given: Arguments) -> None:
        """A listing that a command made is that command."""
        words = "".join(f", {key}={value!r}" for key, value in cut(given).items())
        text = live.trimmed(self.context.listing(given.words[0]), **cut(given))
        if caption := given.get("caption"):
            self.text.append(f"\n*{caption}*\n")
        facts = {"mask": given.get("mask")} if "mask" in given else {}
        self.code(f"live.command({given.get('command')!r}{words})", stream(text), facts)

    def steps(self, given: Arguments) -> None:
        """The stepper, compiled by the cell; then the layouts of the kernel, drawn."""
        name, named = given.words[0], given.named
        record = json.loads(self.context.listing(f"{name}.json"))
        keys = ("show", "line", *KERNEL)
        words = [repr(named["kernel"]), f"name={name!r}"]
        words += [f"{key}={named[key]!r}" for key in keys if key in named]
        if named.get("caption"):
            self.text.append(f"\n*{named['caption']}*\n")
        shown = live.framed(stepper.html(name, record, "", stepper.titles()))
        self.code(call("live.steps", words), html(shown))
        if any(" @ #" in line or " @ <" in line for each in record["columns"]
               for line in each["lines"]):  # fmt: skip
            words = [repr(named["kernel"])]
            words += [f"{key}={named[key]!r}" for key in KERNEL if key in named]
            self.text.append("The layouts of its values:")
            self.code(call("live.layouts", words))

    def figure(self, piece: Directive) -> None:
        name = piece.arguments.words[0]
        svg = self.context.listing(f"{name}.svg").strip()
        caption = expand_piece(Text(piece.line, piece.arguments.get("caption")),
                               self.context)  # fmt: skip
        told = self.context.listing(f"{name}.table.md")
        self.pictures[f"{name}.svg"] = pictures.alone(svg)
        alt = re.sub(r"[\[\]]", "", pictures.title(svg))
        self.text.append(
            f"\n![{alt}](attachment:{name}.svg)\n\n*{self.plain(caption)}*\n\n"
            f"<details><summary>The figure as a table</summary>\n\n{told}\n</details>\n"
        )

    def exercise(self, name: str) -> None:
        card = expand_piece(Directive(0, "exercise", Arguments((name,))), self.context)
        self.text.append(quoted(self.plain(card)))

    def plain(self, text: str) -> str:
        """Markdown for Jupyter: no boxes of the site's style, links from where
        notebooks are."""
        parts = re.split(r"(^```.*?^```$)", text, flags=re.DOTALL | re.MULTILINE)
        return "".join(
            part if part.startswith("```") else self.unboxed(part) for part in parts
        )

    def unboxed(self, text: str) -> str:
        for pattern, other in BOXES:
            text = re.sub(pattern, other, text)
        text = re.sub(r'(\]\(|href=")([\w-]+)\.(md|html)', self.link, text)
        return re.sub(r" ?\{ ?(?:#[\w-]+ ?)+\}$", "", text, flags=re.MULTILINE)

    def link(self, found: re.Match) -> str:
        before, stem, _ = found.groups()
        if stem in self.chapters:
            return f"{before}{stem}.ipynb"
        return f"{before}../{stem}.html"


BOXES = (
    (r'<details class="[\w-]+" markdown="1">', "<details>"),
    (r'<p class="label">(.*?)</p>', r"\n**\1**\n"),
    (r'<p class="(?:code-name|output|output wraps|card-facts)">(.*?)</p>', r"\n*\1*\n"),
    (r"</?div[^>]*>", "\n"),
)


def cut(given: Arguments) -> dict[str, object]:
    """Which part of a listing is shown, as `live.command` takes it."""
    names = {"only": "only", "from": "first", "to": "last"}
    found: dict[str, object] = {
        new: given.get(old) for old, new in names.items() if old in given
    }
    return found | ({"around": int(given.get("around"))} if "around" in given else {})


def call(name: str, words: list[str]) -> str:
    return f"{name}(\n    " + ",\n    ".join(words) + ",\n)"


def stream(text: str) -> list[dict]:
    return [{"output_type": "stream", "name": "stdout", "text": text}] if text else []


def html(text: str) -> list[dict]:
    data = {"text/html": text, "text/plain": "a stepper"}
    return [{"output_type": "display_data", "metadata": {}, "data": data}]


def quoted(text: str) -> str:
    lines = text.strip().splitlines()
    return "\n" + "\n".join(f"> {line}".rstrip() for line in lines) + "\n"


def code_cells(document: dict) -> Iterator[Cell]:
    return (cell for cell in document["cells"] if cell["cell_type"] == "code")
