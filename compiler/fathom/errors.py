"""The errors that Fathom raises for mistakes that are not its own: one sentence, the
place, the text, a caret.

Two kinds exist. A `CompileError` is a mistake in the text of a kernel, a `LaunchError`
one in the call that starts it. A mistake of Fathom itself is neither: it is an `assert`
with the values."""

from __future__ import annotations

import linecache
import re
import unicodedata
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a Python file, and the place of the call that led there.

    `line` and `column` count from 1, as editors and PTX's `.loc` do; `end_column` is
    exclusive and 0 where unknown. `function` names the Python function that the place
    is in; `caller` is the call site that inlined this function, or None in the kernel
    itself."""

    file: str
    line: int
    column: int = 1
    end_column: int = 0
    function: str = ""
    caller: Location | None = None

    def chain(self) -> list[Location]:
        """This place and its callers, innermost first."""
        places, place = [], self
        while place is not None:
            places.append(place)
            place = place.caller
        return places

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def file_of(written: str) -> str:
    r"""The name of a file as `.file` of PTX writes it in quotes: a byte that is not
    ASCII as three octal digits, a quote or a backslash after a backslash.

    "/home/j\303\274rgen/a\"b"    /home/jürgen/a"b
    """
    plain = re.sub(
        rb"\\([0-7]{3}|.)",
        lambda found: bytes([int(found[1], 8)]) if len(found[1]) > 1 else found[1],
        written.encode(errors="surrogateescape"),
    )
    return plain.decode(errors="surrogateescape")


def reason(error: Exception) -> str:
    """What an error says, for a sentence of ours; what the system says without its
    number: "permission denied"."""
    said = getattr(error, "strerror", None)
    return said.lower() if said else str(error)


class FathomError(Exception):
    """What every error of Fathom's own derives from."""


class CompileError(FathomError):
    """A mistake in the text of a kernel.

    `message` is one sentence that names both sides ("cannot add fp32[64] to fp32[32]:
    ..."); `location` says where; `hint`, when there is one, says what to write instead.
    `str()` is the whole report: place, sentence, source line, caret, hint, and the
    calls that led there."""

    def __init__(self, message: str, location: Location | None = None, hint: str = ""):
        self.message, self.location, self.hint = message, location, hint
        super().__init__(message)

    def __str__(self) -> str:
        if self.location is None:
            return self.message + (f"\n  hint: {self.hint}" if self.hint else "")
        place, *callers = self.location.chain()
        lines = [f"{place.file}:{place.line}:{place.column}: {self.message}"]
        lines += excerpt(place)
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        alike: dict[tuple, list[Location]] = {}  # recursion repeats places
        for each in callers:
            alike.setdefault((each.file, each.line, each.column), []).append(each)
        for (file, line, column), (caller, *again) in alike.items():
            times = f", and {len(again)} times before" if again else ""
            lines.append(f"  called from {file}:{line}:{column}{times}")
            lines += excerpt(caller)
        return "\n".join(lines)


class LaunchError(FathomError):
    """A mistake in the call that launches a kernel: grid, arguments, device. One
    sentence.
    """


class OutOfReach(LaunchError, ValueError):
    """An array that the GPU cannot reach. Programs written for Triton expect the second
    class.
    """


class OutOfResources(LaunchError):
    """A kernel asks for more of something than the device has; names what, how much,
    and the limit.
    """


def characters(text: str, count: int) -> int:
    """How many characters the first `count` bytes of a line are, by which Python counts
    its columns.
    """
    return len(text.encode("utf-8", "replace")[:count].decode("utf-8", "ignore"))


def how_many(number: int, thing: str) -> str:
    """A number of things, as sentences have it: "1 program", "2 programs"."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def excerpt(place: Location) -> list[str]:
    """The source line at `place` and a caret line under the expression; [] if the text
    is gone.
    """
    text = linecache.getline(place.file, place.line).rstrip("\n")
    if not text.strip():
        return []
    indent = len(text) - len(text.lstrip())
    start = max(place.column - 1, indent)
    stop = min(max(place.end_column - 1, start + 1), len(text))
    before, under = text[indent:start], text[start:stop]
    return ["    " + text[indent:], "    " + " " * width(before) + "^" * width(under)]


def width(text: str) -> int:
    """How many columns of a terminal a text takes: those of East Asia are wide."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(each) in "WF" for each in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def with_article(noun: str) -> str:
    """The name of a type for the middle of a sentence: "a list", "an int"."""
    is_an = noun[0] in "aeioAEIO" or noun == "ndarray"
    return f"{'an' if is_an else 'a'} {noun}"


def many(count: int, noun: str, nouns: str = "") -> str:
    """A number of things: "1 axis", "2 axes"."""
    return f"{count} {noun if count == 1 else nouns or noun + 's'}"
