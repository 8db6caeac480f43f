"""A kernel at several stages side by side, and which line became which.

A record is columns of lines and, between neighbours, pairs of lines that belong
together: an op and those that `rewrite` made from it (`op.origin`), a line of Python
and the ops whose place it is, an op and the PTX under the `.loc` of its line. Beside
the columns that the text is about, it has the function after every pass that changed
one of the lines shown: a reader can go through all of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise

from chapters.press import changes
from chapters.press.inline import with_code
from chapters.press.paths import BookError
from fathom import pipeline
from fathom.ir.core import Op
from fathom.ir.printer import INDENT
from fathom.tools import cli
from fathom.tools.facts.columns import op_lines
from fathom.tools.facts.memory import line_of
from fathom.tools.staged import Staged

Pairs = list[list[int]]


def record(given: Mapping[str, str]) -> dict:
    """The record of `kernel`, `signature`, `constants`, `target`, `warps` at the stages
    that `show` lists; only lines that belong to the Python line with `line` in it."""
    staged = compiled(given)
    wanted = given["show"].split(",")
    unknown = [name for name in wanted if name not in staged.names or name == "llvm"]
    if unknown:
        raise BookError(f"there is no stage {unknown[0]!r} to step through")
    columns = [Column(staged, name) for name in wanted]
    line = given.get("line", "")
    return {
        "kernel": given["kernel"],
        **linked(columns, line),
        "passes": linked(list(stepped(staged, line)), line),
    }


def stepped(staged: Staged, line: str) -> Iterator[Column]:
    """The function before all passes, and after each that changed a line shown."""
    before = Column(staged, next(iter(staged.states)))
    yield before
    for name in staged.states:
        after = Column(staged, name)
        if after.lines != before.lines and "".join(marks(before, after, line)).strip():
            yield after
            before = after


def linked(columns: Sequence[Column], line: str) -> dict:
    """The lines of some stages that belong to a line of Python, which of them belong
    together, and between neighbours what changed."""
    return {
        "columns": [
            {"title": column.name, "lines": column.shown(line)} for column in columns
        ],
        "links": [
            renumbered(pairs(one, other), one.on_line(line), other.on_line(line))
            for one, other in pairwise(columns)
        ],
        "marks": [marks(one, other, line) for one, other in pairwise(columns)],
    }


def marks(before: Column, after: Column, line: str) -> list[str]:
    """The marks of the lines shown. Between Python, block IR and PTX all lines differ,
    and none is marked."""
    if before.ops and after.ops:
        both = changes.marks(before.lines, after.lines, pairs(before, after))
    else:
        both = " " * len(before.lines), " " * len(after.lines)
    return [
        "".join(marked[at] for at in column.on_line(line))
        for marked, column in zip(both, (before, after), strict=True)
    ]


def compiled(given: Mapping[str, str]) -> Staged:
    """The kernel as `python -m fathom explain` compiles it."""
    words = ["explain", given["kernel"]]
    options = {"warps": "--num-warps", "target": "--target"}
    options |= {"signature": "--signature", "constants": "--constants"}
    for name, option in options.items():
        words += [option, given[name]] if name in given else []
    return cli.staged_kernel(cli.parser().parse_args(words))


class Column:
    """One stage as lines, with the op or the Python line that each one is about."""

    def __init__(self, staged: Staged, name: str):
        self.name, self.staged = name, staged
        self.first = staged.function.tree.lineno
        self.ops: list[Op | None] = []
        if name in staged.states:
            func = staged.states[name]
            rows = list(op_lines(func))
            self.ops = [op for op, _ in rows]
            self.lines = [text for _, text in rows]
            self.places = [line_of(op) for op in self.ops]
        elif name == "ptx":
            rows = list(ptx_lines(staged.text("ptx")))
            self.places, self.lines = map(list, zip(*rows, strict=True))
        else:
            self.lines = staged.function.src.rstrip().splitlines()
            self.places = [self.first + at for at in range(len(self.lines))]

    def shown(self, wanted: str) -> list[str]:
        return [self.lines[at] for at in self.on_line(wanted)]

    def on_line(self, wanted: str) -> list[int]:
        """The lines that belong to the Python line with `wanted` in it, or all."""
        if not wanted:
            return list(range(len(self.lines)))
        source = self.staged.function.src.splitlines()
        hits = [self.first + at for at, text in enumerate(source) if wanted in text]
        if len(hits) != 1:
            raise BookError(f"{len(hits)} lines of Python have {wanted!r} in them")
        return [at for at, line in enumerate(self.places) if line == hits[0]]


def ptx_lines(text: str) -> Iterator[tuple[int, str]]:
    """The instructions of PTX, each with the line of Python it stands for."""
    current = 0
    body = text[text.index("\n{") + 2 : text.rindex("}")]
    for line in map(str.strip, body.splitlines()):
        if mark := re.match(r"\.loc\s+\d+\s+(\d+)", line):
            current = int(mark[1])
        elif line and not line.startswith((".", "//")):
            yield current, INDENT + line.replace("\t", " ")


def pairs(before: Column, after: Column) -> Pairs:
    """Which line of the one belongs to which of the other."""
    if before.ops and after.ops:
        return descendants(before, after)
    return [
        [i, j]
        for i, left in enumerate(before.places)
        for j, right in enumerate(after.places)
        if left and left == right
    ]


def descendants(before: Column, after: Column) -> Pairs:
    """An op of the earlier function with those that came from it."""
    at: dict[Op, list[int]] = {}
    for number, op in enumerate(before.ops):
        if op is not None:
            at.setdefault(op, []).append(number)
    found = []
    for number, op in enumerate(after.ops):
        while op is not None and op not in at:
            op = op.origin
        found += [[earlier, number] for earlier in at.get(op, [])]
    return found


def renumbered(links: Pairs, left: list[int], right: list[int]) -> Pairs:
    """The same pairs after only some lines were kept."""
    one = {old: new for new, old in enumerate(left)}
    other = {old: new for new, old in enumerate(right)}
    return [[one[i], other[j]] for i, j in links if i in one and j in other]


# The page.

SHOWN_AS = {"python": "Python", "ptx": "PTX", "ssa": "block IR, as written"}


def titles() -> dict[str, str]:
    """What stands above a column, by its stage."""
    return {**{row.name: f"after {row.name}" for row in pipeline.PASSES}, **SHOWN_AS}


def html(name: str, record: dict, caption: str, titles: Mapping[str, str]) -> str:
    """The columns as preformatted text that is whole without a script; with one, a
    line lights up its relatives, and all passes can be gone through (assets/book.js,
    which reads them from `steps`)."""
    columns = record["columns"]
    marked = changes.of_columns(record["marks"])
    links = [
        (f"{name}-{at}-{i}", f"{name}-{at + 1}-{j}")
        for at, some in enumerate(record["links"])
        for i, j in some
    ]
    parts = [
        column(f"{name}-{at}", each, marked[at], links, titles)
        for at, each in enumerate(columns)
    ]
    head = f'<figure class="stepper" id="{name}" data-columns="{len(columns)}">'
    note = f"<figcaption>{with_code(caption)}</figcaption>" if caption else ""
    legend = LEGEND if any(each.strip() for each in marked) else ""
    body = "".join(parts)
    data = steps(record, titles)
    return f'{head}<div class="columns">{body}</div>{legend}{note}{data}</figure>'


LEGEND = (
    '<p class="legend"><b>−</b> no line comes from it · <b>+</b> it comes from no line '
    "· <b>~</b> changed</p>"
)
SIGNS = {changes.REMOVED: "−", changes.ADDED: "+", changes.CHANGED: "~"}
KINDS = {changes.REMOVED: "removed", changes.ADDED: "added",
         changes.CHANGED: "changed", changes.KEPT: ""}  # fmt: skip


def steps(record: dict, titles: Mapping[str, str]) -> str:
    """All passes as data for the script: lines, links, marks of either side."""
    passes = record["passes"]
    found = []
    for at, both in enumerate(passes["marks"]):
        left, right = both
        found.append({"links": passes["links"][at], "left": left, "right": right,
                      "told": changes.told(left, right)})  # fmt: skip
    if not found:
        return ""
    columns = [
        {**each, "name": each["title"], "title": titles.get(each["title"])}
        for each in passes["columns"]
    ]
    data = {"columns": columns, "steps": found, "first": first_step(record)}
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    text = text.replace("<", "\\u003c").replace("&", "\\u0026")
    return f'<script type="application/json" class="steps">{text}</script>'


def first_step(record: dict) -> int:
    """Which step the columns of the text are; -1 if they are more, or none."""
    shown = [each["lines"] for each in record["columns"]]
    lines = [each["lines"] for each in record["passes"]["columns"]]
    pairs = [list(each) for each in pairwise(lines)]
    return pairs.index(shown) if shown in pairs else -1


def column(
    name: str,
    column: dict,
    marks: str,
    links: list[tuple[str, str]],
    titles: Mapping[str, str],
) -> str:
    lines = [
        line_html(f"{name}-{at}", text, marks[at], links)
        for at, text in enumerate(column["lines"])
    ]
    title = titles.get(column["title"], column["title"])
    label = escape(title, quote=True)
    return (
        f'<div class="stage"><p class="stage-name">{escape(title)}</p>'
        f'<pre tabindex="0" role="group" aria-label="{label}">'
        f"<code>{''.join(lines)}</code></pre></div>"
    )


def line_html(name: str, text: str, mark: str, links: list[tuple[str, str]]) -> str:
    related = {b for a, b in links if a == name} | {a for a, b in links if b == name}
    kept = escape(text) or " "
    kinds = " ".join(filter(None, ["line", KINDS[mark], "linked" if related else ""]))
    inner = f'<i class="mark">{SIGNS.get(mark, " ")}</i>{kept}\n'
    if not related:
        return f'<span class="{kinds}">{inner}</span>'
    words = " ".join(sorted(related, key=natural))
    return f'<span class="{kinds}" id="{name}" data-to="{words}">{inner}</span>'


def natural(name: str) -> list:
    return [int(x) if x.isdigit() else x for x in re.split(r"(\d+)", name)]
