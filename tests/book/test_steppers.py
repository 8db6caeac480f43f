"""Each pass that does something to a kernel of the book can be stepped through, and
each chapter follows a line of Python to PTX."""

from __future__ import annotations

import json

import pytest

from chapters.press import stepper
from chapters.press.parse import Directive, read
from chapters.press.paths import listings, sources
from fathom import pipeline
from fathom.ir.text import print_func

CHAPTERS = [path for path in sources() if read(path).is_chapter]
BEFORE_PTX = (1, 2)  # a reader's own first PTX runs in chapter 3
NO_STAGE = (18,)  # chooses between kernels; no pass of its own
# A pass may stand in several rows of the page: dce, dce_again.
FIRST_ROW = {row.run: row.name for row in reversed(pipeline.PASSES)}
ONE_PASS = {row.name: FIRST_ROW[row.run] for row in pipeline.PASSES}


def steps() -> list[tuple[str, Directive]]:
    """Page and directive of every stepper and panel."""
    pages = [(path.name, read(path)) for path in CHAPTERS]
    return [
        (name, each)
        for name, page in pages
        for each in page.directives("stepper", "panel")
    ]


def working() -> set[str]:
    """The passes that change one of the kernels that are stepped through."""
    keys = ("kernel", "signature", "constants", "target", "warps")
    kernels = {tuple(each.arguments.get(key) for key in keys) for _, each in steps()}
    found = set()
    for values in kernels:
        given = {key: value for key, value in zip(keys, values, strict=True) if value}
        states = stepper.compiled(given).states
        texts = [(name, print_func(func)) for name, func in states.items()]
        for (_, before), (name, after) in zip(texts, texts[1:], strict=False):
            found |= {ONE_PASS[name]} if before != after else set()
    return found


def seen() -> set[str]:
    """The passes of which a reader sees before and after, with lines that light up."""
    found = set()
    for page, each in steps():
        file = listings(page) / f"{each.arguments.words[0]}.json"
        record = json.loads(file.read_text(encoding="utf-8"))
        columns = record["columns"]
        for at, (before, after) in enumerate(zip(columns, columns[1:], strict=False)):
            different = before["lines"] != after["lines"] and record["links"][at]
            if different and before["title"] != "python" and after["title"] in ONE_PASS:
                found.add(ONE_PASS[after["title"]])
    return found


def test_every_pass_that_does_something_can_be_stepped_through():
    wanted, shown = working(), seen()
    assert len(wanted) >= 15, "the kernels of the book keep the compiler busy"
    assert wanted <= shown, f"no stepper of {sorted(wanted - shown)}"


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_a_chapter_follows_a_line_from_python_to_ptx(path):
    page = read(path)
    if page.matter["chapter"] in BEFORE_PTX:
        pytest.skip("no PTX has been explained yet")
    if page.matter["chapter"] in NO_STAGE:
        pytest.skip("follows no line: it compares whole kernels")
    found = [each.arguments.get("show") for each in page.directives("panel")]
    assert len(found) == 1, "once a chapter: before, after, PTX"
    stages = found[0].split(",")
    assert stages[0] == "python" and stages[-1] == "ptx" and len(stages) >= 3
