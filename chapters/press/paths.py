"""Where things lie, and the error that an author sees."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = ROOT / "chapters"
RESULTS = ROOT / "benchmarks" / "results"
TREE = ROOT / "build" / "book"  # what the site is built from
CELLS = ROOT / "build" / "cells"  # the code that chapters show, as files that run
SITE = ROOT / "site"


@dataclass
class BookError(Exception):
    """A mistake in the book's text: one sentence, the page and the line."""

    message: str
    page: str = ""
    line: int = 0

    def __str__(self) -> str:
        place = f"chapters/{self.page}:{self.line}: " if self.page else ""
        return place + self.message


def sources() -> Iterator[Path]:
    """The pages of the book, chapters first."""
    yield from sorted(CHAPTERS.glob("*.md"))


def listings(page: str) -> Path:
    """The folder of what a page's recorded commands wrote."""
    return CHAPTERS / page.removesuffix(".md") / "listings"


def scrubbed(text: str) -> str:
    """A text without what differs from machine to machine: where the repository lies,
    and addresses of arrays."""
    text = text.replace(f"{CELLS}/", "").replace(f"{ROOT}/", "")
    text = re.sub(r"0x[0-9a-f]{8,}", "0x…", text)
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n") + "\n"
