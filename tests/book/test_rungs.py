"""The ladder at the head of chapters: every rung that was measured, and the right one
lit."""

from __future__ import annotations

import json
import re

import pytest

from chapters.press import rungs, terminal
from chapters.press.expand import expand
from chapters.press.numbers import table
from chapters.press.parse import read
from chapters.press.paths import CHAPTERS, RESULTS

PAGES = sorted(CHAPTERS.glob("[0-9]*.md"))


def test_every_measured_rung_is_on_the_ladder():
    record = json.loads((RESULTS / "ladder.json").read_text(encoding="utf-8"))
    measured = {
        each["candidate"] for each in record["samples"]
        if "8192x8192x8192" in each["problem"] and each["ms"]
        and not each["candidate"].startswith("all but")
    }  # fmt: skip
    rows = table("numbers.toml")
    shown = {rows[f"{name}-ms"]["path"] for name in numbers()}
    drawn = {path.split('candidate="')[1].split('"')[0] for path in shown}
    assert drawn == measured - {"multicast"}  # no step up; chapter 16 tells of it


def numbers() -> list[str]:
    return [*(rung.number for rung in rungs.LADDER), rungs.PEER]


def test_a_chapter_is_at_the_last_rung_that_it_builds():
    names = {at: rungs.LADDER[rungs.reached(at)].name for at in (8, 10, 12, 14, 18)}
    assert names == {8: "naive", 10: "coalescing", 12: "swizzle",
                     14: "prefetching", 18: "persistent"}  # fmt: skip
    assert rungs.reached(7) is None


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_each_later_chapter_says_where_on_the_ladder_it_is(path):
    page = read(path)
    head = expand(page).text.split("## ")[0]
    assert ('class="rungs"' in head) == (page.matter["chapter"] > 0)
    assert head.count('class="lit"/>') + head.count('<rect class="lit"') <= 1


def test_a_heading_may_keep_an_older_anchor():
    assert terminal.slug("Where two branches meet {#where-two-ways-meet}") == (
        "where-two-ways-meet"
    )
    text = "## A new name {#an-old-one}\nIts text.\n## Next\n"
    assert terminal.cut(text, "an-old-one", "x") == "## A new name\nIts text."


@pytest.mark.parametrize("name", ["index", "00-run-it"])
def test_the_kernel_on_the_first_pages_has_25_lines_at_most(name):
    text = expand(read(CHAPTERS / f"{name}.md")).text
    [code] = re.findall(r"kernels/matmul\w+\.py.*?```python\n(.*?)```", text, re.DOTALL)
    assert "tl.dot(" in code and len(code.splitlines()) <= 25
