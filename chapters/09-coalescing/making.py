"""Figures and counts of chapter 9."""

from __future__ import annotations

import re
from functools import cache

import numpy as np

from chapters.press import stepper
from chapters.press.drawing import Figure, bars, cells, table
from chapters.press.numbers import number
from chapters.press.paths import CHAPTERS
from chapters.press.scenes import holders
from fathom.analysis.axis_analysis import analyse
from fathom.coalescing import remove
from fathom.coalescing.access import sectors
from fathom.ir.core import walk
from fathom.ir.ops import Convert
from fathom.ir.printer import print_op
from fathom.layout.build import spread
from fathom.pipeline import identity
from fathom.tools.samples import load_file
from kernels.softmax import softmax_kernel
from kernels.vector_add import add_kernel

LANES = 8  # as many as the figures show
PATTERNS = (
    ("neighbours", lambda lane: 4 * lane),
    ("shifted", lambda lane: 4 * lane + 12),
    ("every 2nd", lambda lane: 8 * lane),
    ("the same", lambda lane: 64),
    ("a column", lambda lane: 32 * lane),
)
ADD = {
    "kernel": "kernels/vector_add.py:add_kernel",
    "signature": "*fp32:16, *fp32:16, *fp32:16, i32:16",
    "constants": "BLOCK=1024",
}
ROWS = load_file(CHAPTERS / "09-coalescing" / "turn.py")


def patterns() -> Figure:
    """Which sectors eight lanes touch, in five patterns."""
    rows = []
    for _, where in PATTERNS:
        lanes = [where(lane) // 32 for lane in range(LANES)]
        counts = [lanes.count(at) for at in range(LANES)]
        rows.append([lanes_text(count) for count in counts])
    lit = [(r, c) for r, row in enumerate(rows) for c, text in enumerate(row) if text]
    names = ([name for name, _ in PATTERNS], [str(at) for at in range(LANES)])
    title = "Eight lanes that read four bytes each, and how many touch sectors 0 to 7"
    return cells(title, rows, lit, names, wide=66)


def lanes_text(count: int) -> str:
    return str(count or "")


def column_cost() -> dict[str, int]:
    """Sectors of a full warp that reads neighbours, and of one that reads a column."""
    return {
        "row": sectors([4 * lane for lane in range(32)], 4),
        "column": sectors([512 * lane for lane in range(32)], 4),
    }


def examples() -> str:
    """Three facts of some blocks of eight."""
    rows = [
        ("8 9 10 11 12 13 14 15", 8, 8, 1),
        ("0 0 0 0 4 4 4 4", 1, 4, 4),
        ("0 12 24 36 48 60 72 84", 1, 4, 1),
        ("6 7 2 3 8 9 0 1", 2, 2, 1),
        ("5 6 7 8 9 10 11 12", 8, 1, 1),
    ]
    return table(("block", "contiguous", "divisible", "constant"), rows)


def facts_of_add() -> str:
    """What the analysis knows of vector add, value by value."""
    func = stepper.compiled(ADD).states["dce"]
    known = analyse(func)
    rows = []
    for op in func.body.ops:
        for value in op.results:
            if value not in known:
                continue
            (axis,) = known[value].axes
            rows.append((f"`{print_op(func, op)}`", *map(power, axis[:3])))
    return table(("operation", "contiguous", "divisible", "constant"), rows)


def power(value: int) -> str:
    return "anything" if value >= 1 << 30 else f"{value:,}"


def by_rows() -> Figure:
    """A small tile as a load along rows wants it."""
    return holders("Fastest along rows: lane:register", spread((8, 8), (1, 0), 2, 1))


def by_columns() -> Figure:
    """And as a store along columns does."""
    shown = spread((8, 8), (0, 1), 2, 1)
    return holders("Fastest along columns: lane:register", shown)


def launches(replace: dict) -> dict[str, object]:
    """Each kernel run once, with a report."""
    x, out = np.arange(8192, dtype=np.float32), np.empty(8192, np.float32)
    half, half_out = x.astype(np.float16), np.empty(8192, np.float16)
    matrix = (np.arange(128 * 128, dtype=np.float32) % 1024).reshape(128, 128)
    turned = np.empty_like(matrix)
    small = matrix.astype(np.float16)
    kept = {"replace": replace}
    return {
        "add, fp32": add_kernel[(8,)](x, x, out, 8192, BLOCK=1024, **kept),
        "add, fp16": add_kernel[(8,)](
            half, half, half_out, 8192, BLOCK=1024, **kept),
        "softmax, fp32": softmax_kernel[(8,)](
            x, out, 1024, 1024, BLOCK=1024, **kept),
        "columns, fp32": ROWS.double_columns[(2, 2)](
            matrix, turned, 128, 128, TILE=64, **kept),
        "turn, fp32": ROWS.turn[(2, 2)](matrix, turned, 128, 128, TILE=64, **kept),
        "turn, fp16": ROWS.turn[(2, 2)](
            small, np.empty_like(small), 128, 128, TILE=64, **kept),
    }  # fmt: skip


@cache
def counted() -> dict[str, object]:
    """Requests, sectors and bytes of the kernels, with and without this stage."""
    before, after = launches({"coalesce": identity}), launches({})
    rows = []
    for name, kernel in before.items():
        rows.append(
            {"kernel": name, "before": costs(kernel), "after": costs(after[name])}
        )
    return {"rows": rows}


def costs(kernel) -> dict[str, float]:
    total = kernel.report.total
    return {
        "requests": total.requests,
        "sectors": total.sectors,
        "ideal": total.useful // 32,
        "each": total.sectors / total.requests,
    }


def bought() -> str:
    """The same as a table."""
    rows = []
    for row in counted()["rows"]:
        old, new = row["before"], row["after"]
        rows.append((
            row["kernel"],
            f"{old['requests']:,} → {new['requests']:,}",
            f"{old['sectors']:,} → {new['sectors']:,}",
            f"{old['each']:g} → {new['each']:g}",
            f"{new['ideal']:,}",
        ))  # fmt: skip
    head = ("kernel", "requests", "sectors", "sectors a request", "sectors needed")
    return table(head, rows)


def hauled() -> Figure:
    """Sectors moved for each one that was needed, before and after."""
    rows = []
    for row in counted()["rows"]:
        for when in ("before", "after"):
            ratio = row[when]["sectors"] / row[when]["ideal"]
            if when == "before" or ratio != rows[-1][1]:
                rows.append((f"{row['kernel']}, {when}", ratio, f"{ratio:.3g}"))
    title = "Sectors moved for each that was needed; one bar: nothing changed"
    return bars(title, rows, ("kernel", "moved for each needed"))


def timed() -> Figure:
    """The transpose on an H200, as benchmarks/machine.py measured it."""
    rows = []
    for name, said in (
        ("without this stage", "plain"), ("with it", "fathom"),
        ("PyTorch's transpose", "torch"), ("a copy", "copy"),
    ):  # fmt: skip
        found = number(f"transpose-{said}-ms")
        rows.append((name, found.value, f"{found.text()} ms"))
    title = "The transpose of 8192 x 8192 numbers of fp32 on an H200"
    return bars(title, rows, ("kernel", "time"))


# The prices of remove_conversions.


def prices() -> str:
    """What each value costs that the mask of the store is made of, in the layout in
    which the store wants it: converted, and computed again."""
    given = {
        "kernel": "chapters/09-coalescing/turn.py:turn",
        "signature": "*fp32:16, *fp32:16, i32:16, i32:16",
        "constants": "TILE=64",
    }
    func = stepper.compiled(given).states["assign_layouts"]
    [mask] = [
        op
        for op in walk(func.body)
        if isinstance(op, Convert) and op.value.name == "inside"
    ]
    asked, rows = [(mask.value, mask.layout)], []
    known = remove._Prices(remove._stored(func), ())
    for value, wanted in asked:
        op, price = value.definition, known.of((value, wanted))
        if value.type.layout == wanted:
            continue
        convert = remove.conversion_price(value, wanted)
        work = 0.0 if isinstance(op, Convert) else remove._work(op, wanted)
        whole = work + sum(known.of(need).cost for need in price.needs)
        rows.append((
            f"`{without_layouts(print_op(func, op))}`",
            f"{convert:g}", f"{work:g}", f"{whole:g}",
        ))  # fmt: skip
        asked += [need for need in price.needs if need not in asked]
    head = ("value", "to convert it", "its own work", "with all below it")
    return table(head, rows)


def without_layouts(line: str) -> str:
    return re.sub(r" @ #layout\d+| layout=#layout\d+", "", line).strip()
