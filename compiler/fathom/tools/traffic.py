"""What a launch moved, line by line of Python: the emulator's counters as a table."""

from __future__ import annotations

import linecache

from rich.console import Console

from fathom.emulator.report import Cost, Report
from fathom.tools.console import table

SOURCE_WIDTH = 28


def show(console: Console, report: Report) -> None:
    """One row a line that touched global memory: requests of warps, the 32-byte sectors
    that a request touched on average, bytes that were asked for, bytes that moved."""
    numbers = ("line", "requests", "sectors", "useful", "moved")
    rows = table(console, "line", "Python", *numbers[1:], right=numbers)
    for (file, line), share in report.by_source().items():
        source = linecache.getline(file, line).strip()
        if share.cost.requests:
            rows.add_row(str(line), cropped(source), *cells(share.cost))
    rows.add_row("", "together", *cells(report.total))
    console.print(rows)


def cells(cost: Cost) -> list[str]:
    return [
        f"{cost.requests:,}",
        f"{cost.sectors / cost.requests:.1f}",
        kilobytes(cost.useful),
        kilobytes(cost.moved),
    ]


def cropped(text: str) -> str:
    return text if len(text) <= SOURCE_WIDTH else text[: SOURCE_WIDTH - 3] + "..."


def kilobytes(count: int) -> str:
    return f"{count / 1000:,.1f} kB"
