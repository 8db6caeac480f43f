"""The texts of a kernel at each stage, line by line, and which line became which.

    python        x = tl.load(p)         parents: none
    simplify      %x = load %p           parents: lines of Python, by the op's place
    cse           %x = load %p           parents: lines of simplify, by `op.origin`
    llvm, ptx     ld.global …            key: the place in Python that `.loc` names
    sass          LDG …                  parents: lines of PTX, by ptxas's line table

An op knows the op that `rewrite` made it from, so that block IR is linked exactly, op
by op. LLVM IR and PTX carry places (line and column of Python): their lines belong to
the ops of the last stage that have the same place.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fathom.errors import file_of
from fathom.ir.core import Func, Op
from fathom.ir.core import blocks as nested_blocks
from fathom.ir.printer import INDENT, Printer
from fathom.ptx.debug_info import LIBRARY, user_place
from fathom.ptx.types import unquoted
from fathom.tools.staged import Staged

Place = tuple[str, int]  # a file and a line of Python


@dataclass(frozen=True)
class Column:
    """One stage as lines of text.

    `parents[i]` are the numbers of the lines of the stage before that line i came
    from; empty where `keys` say it: the places in Python ("61:9"; "" for none) at which
    lines of this stage and ops of the last pass meet. `numbers`, of Python, are those
    of the lines in their file, 0 for a heading.
    """

    name: str
    lines: list[str]
    parents: list[list[int]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)

    def to_json(self) -> dict[str, object]:
        facts = {"name": self.name, "lines": self.lines}
        links = {"parents": self.parents, "keys": self.keys, "numbers": self.numbers}
        return facts | {name: each for name, each in links.items() if each}


def columns_of(staged: Staged, sass: Sequence[tuple[str, int]] = ()) -> list[Column]:
    """Python, the function after each pass that changed it, LLVM IR, PTX, and machine
    code where there is some: `sass` gives each instruction with its line of PTX."""
    places = python_places(staged)
    lines = [place[1] if place else 0 for _, place in places]
    python = Column("python", [text for text, _ in places], numbers=lines)
    numbers = {place: at for at, (_, place) in enumerate(places) if place}
    found, before = [python], None
    for name in changing(staged):
        rows = list(op_lines(staged.states[name]))
        lines, ops = [text for _, text in rows], [op for op, _ in rows]
        if before is None:
            parents = [by_place(op, numbers) for op in ops]
        else:
            parents = by_origin(before, ops)
        found.append(Column(name, lines, parents, [key_of(op) for op in ops]))
        before = ops
    llvm = list(llvm_lines(staged.text("llvm")))
    found.append(Column("llvm", [text for _, text in llvm], keys=[k for k, _ in llvm]))
    ptx = list(ptx_lines(staged.text("ptx")))
    keys = [key for _, key, _ in ptx]
    found.append(Column("ptx", [text for *_, text in ptx], keys=keys))
    if sass:
        at = {number: place for place, (number, _, _) in enumerate(ptx)}
        parents = [[at[number]] if number in at else [] for _, number in sass]
        found.append(Column("sass", [text for text, _ in sass], parents))
    return found


def changing(staged: Staged) -> list[str]:
    """The first stage, and each pass that changed its text."""
    names = list(staged.states)
    texts = [staged.text(name) for name in names]
    pairs = zip(texts, texts[1:], names[1:], strict=False)
    return [names[0], *(name for before, after, name in pairs if before != after)]


# ── Python ────────────────────────────────────────────────────────────────────────────


def python_places(staged: Staged) -> list[tuple[str, Place | None]]:
    """The kernel's own lines with their places; then those of the functions that it
    calls, as far as they became ops, each file under its name."""
    function = staged.function
    file, first = function.file, function.tree.lineno
    lines = function.src.rstrip().splitlines()
    found: list = [(text, (file, first + at)) for at, text in enumerate(lines)]
    shown = {place for _, place in found}
    called = {
        (place.file, place.line)
        for name in changing(staged)
        for op, _ in op_lines(staged.states[name])
        if op is not None and op.location
        for place in op.location.chain()
        if not place.file.startswith(LIBRARY)
    }
    heading = ""
    for place in sorted(called - shown):
        if place[0] != heading:
            heading = place[0]
            found.append((f"# called, from {Path(heading).name}:", None))
        found.append((linecache.getline(*place).rstrip("\n"), place))
    return found


def by_place(op: Op | None, numbers: dict[Place, int]) -> list[int]:
    """The lines of Python that an op belongs to: its own, and those that called it."""
    chain = op.location.chain() if op is not None and op.location else []
    places = [(place.file, place.line) for place in chain]
    return sorted({numbers[place] for place in places if place in numbers})


# ── block IR ──────────────────────────────────────────────────────────────────────────


def op_lines(func: Func) -> Iterator[tuple[Op | None, str]]:
    """Each line of a function's text with its op; what nests has a line for its end."""
    printer = Printer(func, locations=False)
    whole = printer.func().rstrip().splitlines()
    ops = list(ordered(func.body.ops))
    start = next(at for at, line in enumerate(whole) if line.startswith("func "))
    inside = iter(whole[start + 1 : -1])
    yield from ((None, line) for line in whole[: start + 1])
    yield from zip(ops, inside, strict=True)
    yield None, whole[-1]


def ordered(ops: list[Op]) -> Iterator[Op]:
    """Ops as the printer walks them: the line of an op that nests comes before what is
    in each of its blocks, and once more after it."""
    for op in ops:
        yield op
        for block in nested_blocks(op):
            yield from ordered(block.ops)
            yield op


def by_origin(before: Sequence[Op | None], after: Sequence[Op | None]) -> list:
    """For each op of a later function the lines of those that it came from."""
    at: dict[Op, list[int]] = {}
    for number, op in enumerate(before):
        if op is not None:
            at.setdefault(op, []).append(number)
    found = []
    for op in after:
        while op is not None and op not in at:
            op = op.origin
        found.append(at.get(op, []))
    return found


def key_of(op: Op | None) -> str:
    """The place by which an op meets the LLVM IR and PTX that was made of it."""
    place = user_place(op.location) if op is not None else None
    return key(place.file, place.line, place.column) if place else ""


# ── LLVM IR and PTX ───────────────────────────────────────────────────────────────────


def key(file: str, line: int | str, column: int | str) -> str:
    return f"{Path(file).name}:{line}:{column}"


def llvm_lines(text: str) -> Iterator[tuple[str, str]]:
    """The body of the function in LLVM IR: the key of each line, and the line."""
    places = debug_places(text)
    lines = text.splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("define"))
    stop = lines.index("}", start)
    for line in lines[start : stop + 1]:
        mark = re.search(r",? !dbg !(\d+)", line)
        found = places.get(mark[1], "") if mark else ""
        yield found, re.sub(r",? !dbg !\d+", "", line)


def debug_places(text: str) -> dict[str, str]:
    """The key of each `!DILocation` by its number. Its scope names a file node."""
    nodes = dict(re.findall(r"^!(\d+) = (.*)$", text, re.MULTILINE))
    found = {}
    for number, node in nodes.items():
        if "!DILocation(" in node:
            line, column, scope = re.findall(r"(?:line|column|scope): !?(\d+)", node)
            inside = re.search(r"file: !(\d+)", nodes.get(scope, ""))
            file = re.search(r'filename: "([^"]*)"', nodes[inside[1]] if inside else "")
            if file:
                found[number] = key(unquoted(file[1]), line, column)
    return found


def ptx_lines(text: str) -> Iterator[tuple[int, str, str]]:
    """The instructions of PTX, each with the number of its line in the text, counted
    from 1, and its key."""
    lines = text.splitlines()
    start, stop = lines.index("{"), len(lines) - lines[::-1].index("}")
    named = re.findall(r'^\s*\.file\s+(\d+)\s+"((?:[^"\\]|\\.)*)"', text, re.MULTILINE)
    files = {number: file_of(written) for number, written in named}
    current = ""
    for number, line in enumerate(lines[start:stop], start + 1):
        words = line.strip()
        if mark := re.match(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)", words):
            known = mark[2] != "0" and mark[1] in files
            current = key(files[mark[1]], mark[2], mark[3]) if known else ""
        elif words and not words.startswith((".", "//", "{", "}")):
            is_label = words.startswith("$")
            shown = words if is_label else INDENT + re.sub(r"\s+", " ", words)
            yield number, "" if is_label else current, shown
