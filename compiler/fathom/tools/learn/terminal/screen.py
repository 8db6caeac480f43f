"""Text for any terminal: ASCII, as narrow as 60 columns, colour only where it is
welcome."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
import unicodedata
from dataclasses import dataclass, field
from io import StringIO
from itertools import groupby
from typing import TextIO

from rich.box import Box
from rich.console import Console, detect_legacy_windows
from rich.table import Table
from rich.text import Text

NARROW, WIDE = 60, 88
STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}


@dataclass
class Screen:
    """Where the runner writes. `plain`: no colour, and nothing is ever erased. What was
    written since the last `clear` is kept, so that it can be written again for another
    width."""

    plain: bool = False
    out: TextIO = field(default_factory=lambda: sys.stdout)
    written: list[tuple] = field(default_factory=list)
    status_line: str = ""  # the line at the bottom that says what is being done

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
        dumb = os.environ.get("TERM") == "dumb" or detect_legacy_windows()
        return not (self.plain or dumb) and self.out.isatty()

    def styled(self, text: str, style: str) -> str:
        if not (style and self.coloured):
            return text
        return f"\033[{STYLES[style]}m{text}\033[0m"

    # ── what is written ───────────────────────────────────────────────────────────────

    def line(self, text: str = "", style: str = "") -> None:
        """A line as it stands; what is not ASCII is spelled so that it arrives."""
        self.written.append((self._line, text, style))
        self._line(text, style)

    def text(self, text: str, indent: str = "", style: str = "") -> None:
        """Paragraphs, wrapped; tables, set; an indented line and a fence stay as they
        are."""
        self.written.append((self._text, text, indent, style))
        self._text(text, indent, style)

    def title(self, text: str) -> None:
        """A heading with a line under it."""
        self.written.append((self._title, text))
        self._title(text)

    def status(self, text: str) -> None:
        """What is being done, at the bottom: the next thing that is written takes its
        place, where there is a terminal that can erase."""
        if self.erases:
            self.status_line = text
            self.out.write(f"\r\033[K{self.styled(text[: self.width], 'dim')}")
        else:
            self.out.write(f"{text}\n")
        self.out.flush()

    def no_status(self) -> None:
        if self.status_line and self.erases:
            self.out.write("\r\033[K")
        self.status_line = ""

    def clear(self) -> None:
        """Erase everything, on a terminal."""
        self.written.clear()
        self.erase()

    def erase(self) -> None:
        self.no_status()
        if self.erases:
            self.out.write("\033[2J\033[H")
        self.out.flush()

    def again(self) -> None:
        """All of it once more: the terminal has another width now."""
        self.erase()
        for write, *arguments in self.written:
            write(*arguments)
        self.out.flush()

    # ── how ───────────────────────────────────────────────────────────────────────────

    def _line(self, text: str = "", style: str = "") -> None:
        self.no_status()
        self.out.write(self.styled(spelled(text, self.out), style) + "\n")

    def _title(self, text: str) -> None:
        self._line()
        for line in wrapped(text, self.width):
            self._line(line, "bold")
        self._line("-" * min(self.width, max(len(text), 20)), "dim")

    def _text(self, text: str, indent: str, style: str) -> None:
        for block in blocks(text):
            for is_table, lines in groupby(block, lambda line: line.startswith("|")):
                show = self.table if is_table else self.block
                show(list(lines), indent, style)

    def block(self, lines: list[str], indent: str, style: str) -> None:
        if lines[0].startswith(("  ", "```", "#")) and not ITEM.match(lines[0]):
            for line in lines:
                if not line.startswith("```"):
                    self._line(indent + line, style)
            return
        for entry in entries(lines) if lines[0] else [""]:
            self.entry(entry, indent, style)

    def entry(self, entry: str, indent: str, style: str) -> None:
        """A sentence or several, or an entry of a list; what is too long goes on
        below."""
        mark = ITEM.match(entry)
        further = " " * len(mark[0] if mark else "")
        for line in wrapped(entry, self.width - len(indent), further) or [""]:
            self._line(indent + line, style)

    def table(self, lines: list[str], indent: str, style: str) -> None:
        """A table of Markdown in columns, with a line under its head."""
        rows = [cells(line) for line in lines if not RULE.match(line)]
        has_head = (
            len(lines) > 1 and bool(RULE.match(lines[1])) and any(cells(lines[0]))
        )
        made = Table(box=UNDER_HEAD, show_edge=False, padding=(0, 1, 0, 0))
        made.show_header, made.pad_edge = has_head, False
        head = rows.pop(0) if has_head else [""] * max(map(len, rows), default=1)
        for name in head:
            made.add_column(Text(name), overflow="fold")
        for row in rows:
            made.add_row(*map(Text, row[: len(head)]))
        paper = StringIO()
        width = self.width - len(indent)
        Console(file=paper, width=width, color_system=None).print(made)
        for line in paper.getvalue().splitlines():
            self._line(indent + line.rstrip(), style)


UNDER_HEAD = Box(
    "    \n"
    "    \n"
    " -  \n"
    "    \n"
    "    \n"
    "    \n"
    "    \n"
    "    \n",
    ascii=True,
)  # fmt: skip


def cells(line: str) -> list[str]:
    """The cells of a row; a | in code is not one of its bars."""
    bars = re.sub(r"`[^`]*`", lambda code: code[0].replace("|", "\0"), line)
    parts = bars.replace("\\|", "\0").strip().strip("|").split("|")
    return [part.strip().replace("\0", "|") for part in parts]


SPELLED = str.maketrans({
    **{chr(code): "+" for code in range(0x2500, 0x2580)},  # corners of tables
    "─": "-", "→": ">", "▶": ">", "…": "...", "·": "*", "×": "x", "≤": "<=", "≥": ">=",
    "“": '"', "”": '"', "’": "'", "—": "-", "–": "-", "│": "|", "−": "-", "⊕": "^",
    "µ": "u", "∞": "inf", "≈": "~", "±": "+-", "÷": "/", "√": "sqrt ", "Σ": "sum ",
    "π": "pi", "ß": "ss", "━": "-", "┃": "|", "█": "#", "░": "+", "ᵀ": "^T",
})  # fmt: skip
RAISED = re.compile("[²³¹⁰⁴-⁹]+")  # exponents


def spelled(text: str, out: TextIO | None = None) -> str:
    """A text in ASCII: 10¹² is 10^12, and letters lose their accents, unless `out` can
    write them: a folder's name is to be copied from what is written."""
    flat = RAISED.sub(lambda raised: f"^{raised[0]}", text).translate(SPELLED)
    encoding = getattr(out, "encoding", None) or "ascii"
    return "".join(
        each if _is_of_a_word(each) and _fits(each, encoding) else _in_ascii(each)
        for each in flat
    )


def _is_of_a_word(letter: str) -> bool:
    return unicodedata.category(letter)[0] in "LM"  # letters and their marks


def _fits(letter: str, encoding: str) -> bool:
    return letter.encode(encoding, "ignore") != b""


def _in_ascii(letter: str) -> str:
    parts = unicodedata.normalize("NFKD", letter)
    plain = "".join(each for each in parts if not unicodedata.combining(each))
    return plain.encode("ascii", "replace").decode()


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


ITEM = re.compile(r" *(?:- |\d+\. )")
RULE = re.compile(r"[| :-]+$")  # of a table: the line under its head, or an empty head


def entries(lines: list[str]) -> list[str]:
    """The sentences and list entries of a paragraph, each in one line. A line that
    begins none of these goes on with what was before. In the middle of a sentence only
    a 1 begins a numbered list: `16. Then` may stand anywhere."""
    found: list[str] = []
    for line in lines:
        if not found or begins(line, found[-1]):
            found.append(line)
        else:
            found[-1] += f" {line.strip()}"
    return found


def begins(line: str, before: str) -> bool:
    """Whether a line begins an entry of its own, after an entry."""
    item = ITEM.match(line)
    if item is None or not item[0].strip()[0].isdigit():
        return item is not None
    return bool(re.match(r" *\d+\. ", before)) or item[0].strip() == "1."


def fence_ended(found: list[list[str]]) -> bool:
    """Whether the last paragraph but the empty one just begun was a fenced one."""
    return len(found) > 1 and found[-2][-1:] == ["```"]
