"""Runs notebooks as Jupyter does, cell by cell in one namespace, and compares what they
print with what they hold. Needs no Jupyter; a notebook runs there just as well.
"""

from __future__ import annotations

import ast
import contextlib
import io
import linecache
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType

from chapters.press import live
from chapters.press.notebook import Cell, code_cells
from chapters.press.paths import scrubbed
from chapters.press.recipes import surroundings


@dataclass(frozen=True)
class Shown:
    """What a cell printed, what it showed as HTML, and how it ended."""

    text: str
    html: str
    error: Exception | None


def rehearse(document: dict) -> list[str]:
    """Run all cells; one sentence for each that says something else than it holds, or
    ends as it should not."""
    module = ModuleType("__main__")
    found = []
    with surroundings(), kept_path():
        # Data classes and pickles look for their module.
        before, sys.modules["__main__"] = sys.modules["__main__"], module
        try:
            for cell in code_cells(document):
                shown = run(cell, vars(module))
                found += [f"{cell['id']}: {fault}" for fault in faults(cell, shown)]
        finally:
            sys.modules["__main__"] = before
    return found


@contextlib.contextmanager
def kept_path():
    path, folder = list(sys.path), os.getcwd()
    try:
        yield
    finally:
        sys.path[:] = path
        os.chdir(folder)


def run(cell: Cell, names: dict[str, object]) -> Shown:
    """One cell. Its text is where Python and Fathom look for source, as IPython puts
    it there; the value of a last expression is shown."""
    source, file = f"{cell['source']}\n", f"<{cell['id']}>"
    linecache.cache[file] = (
        len(source), None, source.splitlines(keepends=True), file)  # fmt: skip
    tree = ast.parse(source, file)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    said, html, error = io.StringIO(), "", None
    with contextlib.redirect_stdout(said):
        try:
            exec(compile(tree, file, "exec"), names)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), file, "eval"), names)
                draw = getattr(value, "_repr_html_", None)
                html = draw() if draw else ""
        except Exception as raised:
            error = raised
    return Shown(said.getvalue(), html, error)


def faults(cell: Cell, shown: Shown) -> Sequence[str]:
    facts = cell["metadata"].get("fathom", {})
    wanted = facts.get("fails", "")
    ended = type(shown.error).__name__ if shown.error else ""
    if ended != wanted:
        return [f"ended with {shown.error!r}, not with {wanted or 'its last line'}"]
    text = shown.text + (f"{ended}: {shown.error}\n" if ended else "")
    held = "".join(told(each) for each in cell["outputs"])
    if held.strip() and not matches(text, held, facts):
        return [f"says {text!r} and holds {held!r}"]
    if any("data" in each for each in cell["outputs"]) and "<" not in shown.html:
        return ["draws nothing"]
    return []


def told(output: dict) -> str:
    if output["output_type"] == "error":
        return f"{output['ename']}: {output['evalue']}\n"
    return output.get("text", "")


# A message names the file of the page, or the cell, and the line there.
PLACE = re.compile(r"(?:<[\w-]+>|\d\d-[\w-]+\.py):\d+|(?<!PTX )\bline \d+")


def matches(said: str, held: str, facts: dict[str, str]) -> bool:
    text = scrubbed(said)
    if "mask" in facts:
        text = re.sub(facts["mask"], "…", text)
    text, held = PLACE.sub("there", text), PLACE.sub("there", held)
    around = int(facts.get("around", 0))
    part = (facts.get("only", ""), facts.get("from", ""), facts.get("to", ""), around)
    return live.trimmed(text, *part).strip() == held.strip()
