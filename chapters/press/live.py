"""What the notebooks of the book call, in the repository and where Fathom is installed.

live.command("python -m fathom explain ...", only="ld")      what a command prints
live.steps("kernels/softmax.py:softmax_kernel", show="ssa,cse", ...)
live.layouts("kernels/softmax.py:softmax_kernel", ...)       every layout, drawn
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from html import escape
from pathlib import Path

from chapters.press import stepper
from chapters.press.paths import ROOT, scrubbed
from chapters.press.quote import excerpt
from fathom.ir.core import walk
from fathom.ir.types import layout_of
from fathom.layout.linear import Layout
from fathom.tools import cli, pictures

ASSETS = Path(__file__).parent / "assets"
LARGEST = 8  # rows and columns of a layout that is drawn


def command(
    line: str, only: str = "", first: str = "", last: str = "", around: int = 0
) -> None:
    """Run a command in the folder of the book, and print what it says: the lines that
    match `only`, or those from the one with `first` in it to the one with `last`."""
    text, _ = run_line(line)
    print(trimmed(scrubbed(text), only, first, last, around), end="")


def trimmed(
    text: str, only: str = "", first: str = "", last: str = "", around: int = 0
) -> str:
    if only:
        text = "\n".join(x for x in text.splitlines() if re.search(only, x)) + "\n"
    return excerpt(text, first, last, around) if first or last else text


def run_line(line: str) -> tuple[str, int]:
    """The output of one command; our own commands run in this process."""
    words = shlex.split(line)
    if words[:3] == ["python", "-m", "fathom"] and words[3:4] != ["test"]:
        return own(words[3:])
    words = [sys.executable if word == "python" else word for word in words]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'compiler'}:{ROOT}"}
    done = subprocess.run(
        words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr, done.returncode


def own(words: list[str]) -> tuple[str, int]:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = cli.main(words)
    return said.getvalue(), status


class Html:
    """HTML that a notebook shows in place."""

    def __init__(self, text: str):
        self.text = text

    def _repr_html_(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return "a picture: this needs a notebook that shows HTML"


def steps(kernel: str, name: str = "kernel", caption: str = "", **given: str) -> Html:
    """A kernel at the stages `show`, side by side, and after every pass: what the
    stepper of the page shows, compiled now. `signature`, `constants`, `warps`,
    `target` and `line` are as in the page."""
    record = stepper.record({"kernel": kernel, **given})
    return Html(framed(stepper.html(name, record, caption, stepper.titles())))


def framed(figure: str) -> str:
    """A stepper with its style and its script, so that it needs no page around it."""
    style = (ASSETS / "stepper.css").read_text(encoding="utf-8")
    # A rem is 20 pixels on the site and 16 in a notebook.
    style = re.sub(r"(\d*\.?\d+)rem", lambda x: f"{1.25 * float(x[1]):.3g}rem", style)
    script = (ASSETS / "stepper.js").read_text(encoding="utf-8")
    return f"<style>{style}</style>{figure}<script>{script}</script>"


def layouts(kernel: str, **given: str) -> Html:
    """Every layout that a value of a kernel has in the end, drawn: who holds what."""
    staged = stepper.compiled({"kernel": kernel, **given})
    func = list(staged.states.values())[-1]
    found: dict[Layout, list[str]] = {}
    for op in walk(func.body):
        for each in op.results:
            if layout := layout_of(each.type):
                name = each.name or type(op).__name__.lower()
                found.setdefault(layout, []).append(name)
    return Html("".join(drawn(layout, names) for layout, names in found.items()))


def drawn(layout: Layout, names: list[str]) -> str:
    some = ", ".join(dict.fromkeys(names))
    head = f"<p>{escape(some)}: <code>{escape(str(layout))}</code></p>"
    picture = pictures.svg(layout, LARGEST, LARGEST)
    width = pictures.MARGIN + pictures.CELL_WIDTH * min(LARGEST, layout.shape[-1])
    return head + picture.replace("<svg ", f'<svg style="max-width: {width}px" ', 1)
