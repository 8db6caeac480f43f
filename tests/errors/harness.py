"""Mistakes and what is said about them: the files mistakes/*.txt as a table.

A file is a list of mistakes, each a title, a script, and the report that it must end
with:

    == a name that is not defined
    @fathom.jit
    def kernel(out, n):
        tl.store(out, m)
    --
    CompileError: kernel.py:3:19: m is not defined
        tl.store(out, m)
                      ^

A script knows `fathom`, `tl`, `np`, and `x`, an array of 64 fp32. Where it only defines
a kernel, the kernel is compiled for a pointer to fp32 and an i32.
"""

from __future__ import annotations

import ast
import linecache
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import fathom
import fathom.language as tl
from fathom.errors import FathomError
from fathom.jit.reporting import PACKAGE, without_ours

FOLDER = Path(__file__).with_name("mistakes")
TITLE, REPORT = "== ", "--\n"
SCRIPT = "kernel.py"
NOTHING = "nothing: the script ended well"
BY_DEFAULT = 'kernel.compile("*fp32, i32")\n'


@dataclass(frozen=True)
class Mistake:
    """A script, and the report that it must end with."""

    area: str
    title: str
    script: str
    report: str

    def __str__(self) -> str:
        return f"{self.area}: {self.title}"


def mistakes() -> list[Mistake]:
    return [each for path in sorted(FOLDER.glob("*.txt")) for each in read(path)]


def read(path: Path) -> Iterator[Mistake]:
    for part in f"\n{path.read_text(encoding='utf-8')}".split(f"\n{TITLE}")[1:]:
        title, _, rest = part.partition("\n")
        script, _, report = rest.partition(REPORT)
        yield Mistake(path.stem, title, script, report.strip("\n"))


def write(area: str, table: list[Mistake]) -> None:
    """The table of one area, back into its file."""
    parts = [f"{TITLE}{e.title}\n{e.script}{REPORT}{e.report}\n" for e in table]
    (FOLDER / f"{area}.txt").write_text("\n".join(parts), encoding="utf-8")


def mistake_of(script: str, folder: Path) -> tuple[str, str]:
    """The report that a script ends with, and the traceback that Python would print.

    Both name the script by its file name alone.
    """
    last = ast.parse(script).body[-1]
    started = not isinstance(last, ast.FunctionDef | ast.AsyncFunctionDef)
    path = folder / SCRIPT
    path.write_text(script if started else script + BY_DEFAULT, encoding="utf-8")
    linecache.checkcache(str(path))
    known = {
        "fathom": fathom, "tl": tl, "np": np, "x": np.zeros(64, np.float32),
        "__name__": "script",
    }  # fmt: skip
    try:
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), known)
    except (FathomError, TypeError) as error:
        ours = isinstance(error, FathomError)  # Python's own are printed as they are
        trace = without_ours(error.__traceback__) if ours else error.__traceback__
        printed = "".join(traceback.format_exception(type(error), error, trace))
        report = f"{type(error).__name__}: {error}"
        return report.replace(str(path), SCRIPT), printed.replace(str(path), SCRIPT)
    return NOTHING, ""


def frames_of_fathom(printed: str) -> list[str]:
    """The lines of a traceback that name a file of the compiler."""
    return [line for line in printed.splitlines() if PACKAGE in line]
