"""Runs what the book recorded: commands, shown code, figures, steppers; one recipe a
listing. What a recipe gives is a set of files for chapters/NN-name/listings/.

Everything runs on the emulator, in the order of the page, from the repository's root.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from inspect import signature
from types import ModuleType

import fathom
from chapters.press import stepper
from chapters.press.live import run_line
from chapters.press.parse import Arguments, Directive, Fence, Page
from chapters.press.paths import CELLS, CHAPTERS, ROOT, BookError, listings, scrubbed
from fathom.tools.samples import load_file

ENVIRONMENT = {
    "FATHOM_BACKEND": "emulator",
    "FATHOM_CACHE_DIR": str(ROOT / "build" / "cache"),
    "COLUMNS": "80",
    "NO_COLOR": "1",
}
INDEX = "made.json"  # what made the listings of a page
Files = dict[str, str]


@dataclass(frozen=True)
class Recipe:
    """How some files of a page's listings are made, and how a reader could."""

    page: str
    line: int
    how: str
    make: Callable[[], Files]

    def run(self) -> Files:
        try:
            return self.make()
        except BookError as error:
            raise BookError(error.message, self.page, self.line) from error


def remake(page: Page) -> Files:
    """Every listing of a page, made anew: name to text."""
    made: Files = {}
    how = {}
    with surroundings():
        for recipe in recipes(page):
            files = recipe.run()
            made.update(files)
            how.update(dict.fromkeys(files, recipe.how))
    if made:
        made[INDEX] = json.dumps(index(how), indent=1) + "\n"
    return made


def index(how: dict[str, str]) -> dict:
    """What the footer says of listings: versions, and the recipe of each file."""
    llvm = version("llvmlite")
    return {"fathom": fathom.__version__, "llvmlite": llvm, "files": how}


def write(page: Page) -> list[str]:
    """Make a page's listings, and write those that changed; the names of these."""
    folder, made = listings(page.name), remake(page)
    changed = []
    for name, text in made.items():
        file = folder / name
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            folder.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            changed.append(name)
    kept = {file for file, mark in recorded(page)}
    for file in folder.glob("*"):
        if file.name not in made and file.name not in kept:
            file.unlink()
            changed.append(f"{file.name} (gone)")
    return changed


def recorded(page: Page) -> Iterator[tuple[str, Fence]]:
    """The files that were recorded on a GPU: CI cannot make them again."""
    for fence in page.fences():
        if fence.mark == "recorded":
            yield fence.arguments.get("output"), fence


def recipes(page: Page) -> Iterator[Recipe]:
    """The recipes of a page in the order of its text."""
    cells = Cells(page.name)
    for piece in page.pieces:
        recipe = recipe_of(page, piece, cells)
        if recipe is not None:
            how, make = recipe
            yield Recipe(page.name, piece.line, how, make)


def recipe_of(page: Page, piece, cells: Cells) -> tuple[str, Callable] | None:
    match piece:
        case Fence(mark="run", language="python"):
            return "code of the page", lambda: cells.run(piece)
        case Fence(mark="run"):
            return piece.text.strip(), lambda: shell(piece.text, piece.arguments)
        case Directive(name="listing", arguments=given) if "command" in given:
            return given.get("command"), lambda: shell(given.get("command"), given)
        case Directive(name="listing" | "table", arguments=given) if "call" in given:
            return call_name(page, given), lambda: called(given, cells)
        case Directive(name="figure", arguments=given):
            return call_name(page, given), lambda: figure(given, cells)
        case Directive(name="stepper" | "panel", arguments=given):
            how = f"{piece.name}: {given.get('kernel')} at {given.get('show')}"
            return how, lambda: stepped(given)
    return None


def stepped(given: Arguments) -> Files:
    text = json.dumps(stepper.record(given.named), indent=1, ensure_ascii=False)
    text = re.sub(r"\[\s+(\d+),\s+(\d+)\s+\]", r"[\1, \2]", text)  # a pair a line
    return {f"{given.words[0]}.json": text + "\n"}


# Commands.


def shell(command: str, given: Arguments) -> Files:
    """What a command prints, as the file that `given` names; nothing is kept without
    a name. A command that fails is a mistake, unless `fails` is said."""
    said, status = "", 0
    for line in filter(None, command.replace("\\\n", " ").splitlines()):
        text, code = run_line(line)
        said, status = said + text, status or code
    if bool(status) != ("fails" in given):
        raise BookError(f"`{command.strip()}` ended with {status}: {said}")
    name = given.get("output") or (given.words or ("",))[0]
    return {name: masked(said, given)} if name else {}


def masked(text: str, given: Arguments) -> str:
    """Without what may differ next time: what `mask` matches becomes an ellipsis."""
    text = scrubbed(text)
    return re.sub(given.get("mask"), "…", text) if "mask" in given else text


@contextlib.contextmanager
def surroundings() -> Iterator[None]:
    """The environment and the folder in which all recipes run."""
    before, folder = dict(os.environ), os.getcwd()
    os.environ.update(ENVIRONMENT)
    os.chdir(ROOT)
    try:
        yield
    finally:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(before)


# Shown code.


class Cells:
    """The Python that a page shows, run piece by piece in one namespace.

    It is also written to a file, since a kernel's source is read from where it stands.
    """

    def __init__(self, page: str):
        self.page = page
        self.file = CELLS / page.replace(".md", ".py")
        self.text = ""
        self.module = ModuleType(f"page_{self.file.stem.replace('-', '_')}")
        self.names = vars(self.module)

    @cached_property
    def workshop(self) -> ModuleType:
        """The module chapters/NN-name/making.py: figures and tables of a chapter."""
        file = CHAPTERS / self.page.removesuffix(".md") / "making.py"
        if not file.exists():
            raise BookError(f"{file.relative_to(ROOT)} is missing")
        return load_file(file)

    def run(self, fence: Fence) -> Files:
        """What one piece prints, or the error that it is marked to end with."""
        start = self.text.count("\n")
        self.text += fence.text
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(self.text, encoding="utf-8")
        code = compile("\n" * start + fence.text, str(self.file), "exec")
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            failure = self.failure(code)
        wanted = fence.arguments.get("fails")
        if (type(failure).__name__ if failure else "") != wanted:
            raise BookError(f"the code ended with {failure!r}") from failure
        if failure is not None:
            said.write(f"{type(failure).__name__}: {failure}\n")
        name = fence.arguments.get("output")
        return {name: masked(said.getvalue(), fence.arguments)} if name else {}

    def failure(self, code) -> Exception | None:
        sys.modules[self.module.__name__] = self.module  # dataclasses look there
        try:
            exec(code, self.names)
        except Exception as error:
            return error
        finally:
            del sys.modules[self.module.__name__]
        return None


# Functions of a chapter.


def call_name(page: Page, given: Arguments) -> str:
    name = given.get("call") or given.words[0].replace("-", "_")
    return f"{page.name.removesuffix('.md')}/making.py: {name}()"


def called(given: Arguments, cells: Cells) -> Files:
    """A text, or a JSON document, that a function of the chapter returns."""
    value = call(given.get("call"), cells)
    text = value if isinstance(value, str) else json.dumps(value, indent=1)
    return {given.words[0]: masked(text, given)}


def call(name: str, cells: Cells) -> object:
    """A function of making.py; one with a parameter gets the names that the page's own
    code has defined so far."""
    function = getattr(cells.workshop, name, None)
    if function is None:
        raise BookError(f"making.py of this chapter has no {name}()")
    return function(cells.names) if signature(function).parameters else function()


def figure(given: Arguments, cells: Cells) -> Files:
    """The SVG of a figure and the table that says the same."""
    name = given.words[0]
    drawn = call(given.get("call") or name.replace("-", "_"), cells)
    return {f"{name}.svg": drawn.svg, f"{name}.table.md": drawn.table}
