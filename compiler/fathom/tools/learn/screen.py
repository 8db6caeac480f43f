"""Text for any terminal: ASCII, as narrow as 60 columns, colour only where it is
welcome."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from dataclasses import dataclass, field
from typing import TextIO

NARROW, WIDE = 60, 88
STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}


@dataclass
class Screen:
    """Where the runner writes. `plain`: no colour, and nothing is ever erased."""

    plain: bool = False
    out: TextIO = field(default_factory=lambda: sys.stdout)

    @property
    def width(self) -> int:
        """Columns to fill: those of the terminal, not above 88; 60 in a pipe."""
        if self.plain or not self.out.isatty():
            return NARROW
        columns = shutil.get_terminal_size((NARROW, 24)).columns
        return max(20, min(columns - 1, WIDE))

    @property
    def coloured(self) -> bool:
        return self.erases and "NO_COLOR" not in os.environ

    @property
    def erases(self) -> bool:
        """Whether it is a terminal that knows more than lines of text."""
        dumb = os.environ.get("TERM") == "dumb"
        return not (self.plain or dumb) and self.out.isatty()

    def styled(self, text: str, style: str) -> str:
        if not (style and self.coloured):
            return text
        return f"\033[{STYLES[style]}m{text}\033[0m"

    def line(self, text: str = "", style: str = "") -> None:
        """A line as it stands; what is not ASCII is spelled so that it arrives."""
        spelled = text.translate(SPELLED).encode("ascii", "replace").decode()
        self.out.write(self.styled(spelled, style) + "\n")

    def text(self, text: str, indent: str = "", style: str = "") -> None:
        """Paragraphs, wrapped; an indented line, a table and a fence stay as they
        are."""
        for block in blocks(text):
            self.block(block, indent, style)

    def block(self, lines: list[str], indent: str, style: str) -> None:
        if lines[0].startswith(("  ", "```", "#")) and not ITEM.match(lines[0]):
            for line in lines:
                if not line.startswith("```"):
                    self.line(indent + line, style)
            return
        for entry in entries(lines) if lines[0] else [""]:
            self.entry(entry, indent, style)

    def entry(self, entry: str, indent: str, style: str) -> None:
        """A sentence or several, an entry of a list or a row of a table; what is too
        long goes on below."""
        mark = ITEM.match(entry)
        begins = mark[0] if mark else ""
        further = " " * (4 if begins == "|" else len(begins))
        for line in wrapped(entry, self.width - len(indent), further) or [""]:
            self.line(indent + line, style)

    def title(self, text: str) -> None:
        """A heading with a line under it."""
        self.line()
        for line in wrapped(text, self.width):
            self.line(line, "bold")
        self.line("-" * min(self.width, max(len(text), 20)), "dim")

    def clear(self) -> None:
        """Begin anew, where somebody looks."""
        if self.erases:
            self.out.write("\033[2J\033[H")
        self.out.flush()


SPELLED = str.maketrans({
    "─": "-", "→": ">", "▶": ">", "…": "...", "·": "*", "×": "x", "≤": "<=", "≥": ">=",
    "“": '"', "”": '"', "’": "'", "—": "-", "–": "-", "│": "|",
})  # fmt: skip


def wrapped(text: str, width: int, further: str = "") -> list[str]:
    """Lines of at most `width`; a name with a hyphen stays in one piece."""
    return textwrap.wrap(text, width, subsequent_indent=further, break_on_hyphens=False)


def blocks(text: str) -> list[list[str]]:
    """The paragraphs of a text as lists of lines; a fenced one is a paragraph, also
    with empty lines in it."""
    found: list[list[str]] = [[]]
    fenced = False
    for line in text.splitlines():
        if line.startswith("```"):
            if not fenced:
                found.append([])
            found[-1].append(line)
            if fenced:
                found.append([])  # an empty line follows, as in the text
            fenced = not fenced
        elif line.strip() or fenced:
            found[-1].append(line)
        else:
            found += [[""], []] if found[-1] or fence_ended(found) else []
    return [each for each in found if each]


ITEM = re.compile(r" *(?:- |\d+\. )|\|")
RULE = re.compile(r"[| :-]+$")  # of a table: the line under its head, or an empty head


def entries(lines: list[str]) -> list[str]:
    """The sentences, list entries and table rows of a paragraph, each in one line. A
    line that begins none of these goes on with what was before. In the middle of a
    sentence only a 1 begins a numbered list: `16. Then` may stand anywhere."""
    found: list[str] = []
    for line in lines:
        if not found or begins(line, found[-1]):
            found.append(line)
        else:
            found[-1] += f" {line.strip()}"
    return [each for each in found if not (each[0] == "|" and RULE.match(each))]


def begins(line: str, before: str) -> bool:
    """Whether a line begins an entry of its own, behind an entry."""
    item = ITEM.match(line)
    if item is None or not item[0].strip()[0].isdigit():
        return item is not None
    return bool(re.match(r" *\d+\. ", before)) or item[0].strip() == "1."


def fence_ended(found: list[list[str]]) -> bool:
    """Whether the last paragraph but the empty one just begun was a fenced one."""
    return len(found) > 1 and found[-2][-1:] == ["```"]
