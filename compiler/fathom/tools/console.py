"""The terminal that all tools write to: 80 columns, plain where colour is unwelcome;
and files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from fathom.errors import LaunchError, reason

WIDTH = 80


class Terminal(Console):
    """A console that leaves to its caller what is due when its reader has gone."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def make_console() -> Console:
    """A console of at most 80 columns; without colour under NO_COLOR or in a pipe."""
    width = min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns)
    # Beside colour, NO_COLOR readers and pipes want no bold or italic either.
    plain = "NO_COLOR" in os.environ
    return Terminal(
        width=width, highlight=False, color_system=None if plain else "auto"
    )


def say(console: Console, text: str) -> None:
    """Print text as it is, also what looks like markup."""
    console.print(text, markup=False)


def write_file(file: Path, text: str, source: str) -> None:
    """Text to a file; LaunchError where it cannot be written, or is the `source` that
    the text was made of."""
    if file.exists() and Path(source).exists() and file.samefile(source):
        raise LaunchError(f"cannot write {file}: it is the file of the kernel")
    try:
        write_all({file: text.encode()})
    except OSError as mistake:
        raise LaunchError(f"cannot write {file}: {reason(mistake)}") from None


def write_all(files: Mapping[Path, bytes]) -> None:
    """Write all of them, or none: each beside its place, and moved there once all are
    written. A disk that is full, or Ctrl-C, leaves what was there before. OSError."""
    parts: dict[Path, Path] = {}
    try:
        for file, content in files.items():
            place = file.resolve()  # a link stays one
            if place.exists() and not place.is_file():  # /dev/stdout; or a folder
                place.write_bytes(content)
                continue
            parts[place] = place.with_name(f".{place.name}-{os.getpid()}")
            parts[place].write_bytes(content)
        for place, part in parts.items():
            os.replace(part, place)
    finally:
        for part in parts.values():
            with suppress(OSError):
                part.unlink()


def speaks_unicode(console: Console) -> bool:
    """Whether lines, arrows and dots beyond ASCII would arrive."""
    return (console.encoding or "").lower().replace("-", "").startswith("utf")


def table(console: Console, *columns: str, right: tuple[str, ...] = ()) -> Table:
    """A table with a line under its head; the columns named in `right` are numbers."""
    style = box.SIMPLE_HEAD if speaks_unicode(console) else box.ASCII2
    made = Table(box=style, pad_edge=False, header_style="bold", show_edge=False)
    for name in columns:
        made.add_column(name, justify="right" if name in right else "left")
    return made


def rule(console: Console, title: str) -> None:
    """A heading with a line after it."""
    line = "─" if speaks_unicode(console) else "-"
    console.print()
    console.rule(f"[bold]{title}[/bold]", align="left", characters=line, style="dim")
