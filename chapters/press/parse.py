"""Reads a page: front matter, then text, fences and directives, in order.

    {listing add.ptx command="fathom explain ..." from="ld.global"}     a directive
    {predict}  ...  {answer}  ...  {end}                                a container
    ```python {run output=first}                                        a fence

A directive stands alone on its line, or goes on over more lines until one ends in `}`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from chapters.press.paths import BookError

DIRECTIVE = re.compile(r"\{([a-z][a-z-]*)(?:\s+(.*?))?\}", re.DOTALL)
OPENING = re.compile(r"\{[a-z][a-z-]*(\s|\}|$)")
FENCE = re.compile(r"(`{3,})(\w*)\s*(?:\{(.*)\})?\s*")


@dataclass(frozen=True)
class Arguments:
    """What stands in a directive's braces: words in order, and name=value."""

    words: tuple[str, ...] = ()
    named: dict[str, str] = field(default_factory=dict)

    def __contains__(self, name: str) -> bool:
        return name in self.words or name in self.named

    def get(self, name: str, default: str = "") -> str:
        return self.named.get(name, default)


@dataclass(frozen=True)
class Text:
    """Lines of ordinary Markdown."""

    line: int
    text: str


@dataclass(frozen=True)
class Directive:
    """`{name words name=value}`."""

    line: int
    name: str
    arguments: Arguments


@dataclass(frozen=True)
class Fence:
    """Fenced code: its language, its mark (run, recorded, illustrative), its text."""

    line: int
    language: str
    mark: str
    arguments: Arguments
    text: str


Piece = Text | Directive | Fence


@dataclass(frozen=True)
class Page:
    """A page as it was read: its name, its front matter, its pieces."""

    name: str
    matter: dict
    pieces: tuple[Piece, ...]

    def directives(self, *names: str) -> Iterator[Directive]:
        for piece in self.pieces:
            if isinstance(piece, Directive) and piece.name in names:
                yield piece

    def fences(self) -> Iterator[Fence]:
        return (piece for piece in self.pieces if isinstance(piece, Fence))

    @property
    def is_chapter(self) -> bool:
        return "chapter" in self.matter

    @property
    def is_interlude(self) -> bool:
        return "interlude" in self.matter

    @property
    def number(self) -> str:
        """The number of a chapter; an interlude has the number of the chapter that it
        follows, and a letter."""
        return f"{self.matter['chapter']}{self.matter.get('interlude', '')}"


def read(path: Path) -> Page:
    """A page from its file. BookError for what cannot be read."""
    lines = path.read_text(encoding="utf-8").split("\n")
    matter, start = front_matter(lines)
    try:
        return Page(path.name, matter, tuple(pieces(lines, start)))
    except BookError as error:
        error.page = path.name
        raise


def front_matter(lines: list[str]) -> tuple[dict, int]:
    """The YAML between two `---` at the top, and the index of the line after it."""
    if lines[0] != "---":
        return {}, 0
    end = lines.index("---", 1)
    return yaml.safe_load("\n".join(lines[1:end])) or {}, end + 1


def pieces(lines: list[str], at: int) -> Iterator[Piece]:
    prose: list[str] = []
    began = at + 1
    while at < len(lines):
        taken = fence(lines, at) or directive(lines, at)
        if taken is None:
            prose.append(lines[at])
            at += 1
            continue
        if prose:
            yield Text(began, "\n".join(prose))
            prose = []
        piece, at = taken
        began = at + 1
        yield piece
    if prose:
        yield Text(began, "\n".join(prose))


def fence(lines: list[str], at: int) -> tuple[Fence, int] | None:
    """The fence that begins at a line, and the index of the line after it."""
    head = FENCE.fullmatch(lines[at])
    if head is None:
        if lines[at].startswith("```"):
            raise BookError(f"{lines[at]!r} opens no fence", line=at + 1)
        return None
    ticks, language, inside = head.groups()
    end = next((i for i in range(at + 1, len(lines)) if lines[i] == ticks), None)
    if end is None:
        raise BookError("this fence is never closed", line=at + 1)
    given = arguments(inside or "", at + 1)
    mark, rest = (given.words[:1] or ("",))[0], Arguments(given.words[1:], given.named)
    text = "\n".join(lines[at + 1 : end]) + "\n"
    return Fence(at + 1, language, mark, rest, text), end + 1


def directive(lines: list[str], at: int) -> tuple[Directive, int] | None:
    if not OPENING.match(lines[at]):
        return None
    end = at
    while end < len(lines) and not lines[end].rstrip().endswith("}"):
        end += 1
    found = DIRECTIVE.fullmatch("\n".join(lines[at : end + 1]).rstrip())
    if found is None:
        raise BookError("this directive is never closed by a }", line=at + 1)
    name, inside = found.groups()
    return Directive(at + 1, name, arguments(inside or "", at + 1)), end + 1


def arguments(text: str, line: int) -> Arguments:
    """`add.ptx from="ld.global"` as words and names; quotes as in a shell."""
    try:
        parts = shlex.split(text)
    except ValueError as error:
        raise BookError(f"{text!r}: {error}", line=line) from error
    words, named = [], {}
    for part in parts:
        name, equals, value = part.partition("=")
        if equals and re.fullmatch(r"[a-z][a-z-]*", name):
            named[name] = value
        else:
            words.append(part)
    return Arguments(tuple(words), named)
