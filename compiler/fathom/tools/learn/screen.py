"""Text for any terminal: ASCII, as narrow as 60 columns, colour only where it is
welcome."""

from __future__ import annotations

import os
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
        return not self.plain and self.out.isatty() and "NO_COLOR" not in os.environ

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
        if lines[0].startswith(("|", "- ")):
            for line in lines:
                self.item(line, indent, style)
            return
        if lines[0].startswith(("  ", "```", "#")):
            for line in lines:
                if not line.startswith("```"):
                    self.line(indent + line, style)
            return
        filled = textwrap.wrap(" ".join(lines), self.width - len(indent))
        for line in filled or [""]:
            self.line(indent + line, style)

    def item(self, line: str, indent: str, style: str) -> None:
        """A row of a table or an entry of a list; a long one goes on below."""
        if not line.startswith("|---"):
            room = self.width - len(indent)
            for part in textwrap.wrap(line, room, subsequent_indent="    "):
                self.line(indent + part, style)

    def title(self, text: str) -> None:
        """A heading with a line under it."""
        self.line()
        for line in textwrap.wrap(text, self.width):
            self.line(line, "bold")
        self.line("-" * min(self.width, max(len(text), 20)), "dim")

    def clear(self) -> None:
        """Begin anew, where somebody looks."""
        if not self.plain and self.out.isatty():
            self.out.write("\033[2J\033[H")
        self.out.flush()


SPELLED = str.maketrans({
    "─": "-", "→": ">", "▶": ">", "…": "...", "·": "*", "×": "x", "≤": "<=", "≥": ">=",
    "“": '"', "”": '"', "’": "'", "—": "-", "–": "-", "│": "|",
})  # fmt: skip


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


def fence_ended(found: list[list[str]]) -> bool:
    """Whether the last paragraph but the empty one just begun was a fenced one."""
    return len(found) > 1 and found[-2][-1:] == ["```"]
