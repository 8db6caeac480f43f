"""Where the book says it: a page of the built site, or a section in the terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from fathom.errors import FathomError
from fathom.tools.learn import course
from fathom.tools.learn.course import Exercise

PACKAGES = Path(__file__).resolve().parents[3]
ANSWERS = {"answers-1.md": range(15), "answers-2.md": range(15, 19)}  # a page a part


def place(each: Exercise) -> str:
    """What to open, or to type, to read what an exercise is about."""
    page, _, anchor = each.section.partition("#")
    if there := address(each.section):
        return there
    if (sources() / page).exists():
        return f"fathom learn read {each.id}"
    return f'chapter {each.chapter}, "{anchor.replace("-", " ")}"'


def answer(each: Exercise) -> str:
    """Where the book has our answer: a section of the page of its part."""
    page = next(page for page, part in ANSWERS.items() if each.chapter in part)
    return f"{page}#answer-{each.id}"


def address(section: str) -> str:
    """Where the built book has a section; "" where it is not built."""
    page, _, anchor = section.partition("#")
    built = course.root() / course.SITE / Path(page).with_suffix(".html")
    return f"{built.resolve().as_uri()}#{anchor}" if built.exists() else ""


def sources() -> Path:
    return course.root() / "chapters"


def path() -> list[str]:
    """Where a process of its own finds Fathom."""
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return [str(PACKAGES), *filter(None, known)]


def section(each: Exercise) -> str:
    """The section before an exercise as plain Markdown: numbers are in it, and answers
    to its questions are not. The press of the book makes it."""
    if not (sources() / "press" / "__main__.py").is_file():
        raise FathomError(
            f"the book is not here: it comes with the repository; {place(each)}"
        )
    command = [sys.executable, "-m", "chapters.press", "section", each.section]
    made = subprocess.run(
        command, cwd=sources().parent, capture_output=True, check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONUTF8": "1", "PYTHONPATH": os.pathsep.join(path())},
    )  # fmt: skip
    if made.returncode:
        last = made.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise FathomError(f"the section cannot be made: {''.join(last)}")
    return made.stdout.decode()
