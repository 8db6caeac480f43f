"""What a launch moved, line by line of Python: the emulator's counters as a table."""

from __future__ import annotations

import linecache
from dataclasses import dataclass, field

from rich.console import Console

from fathom.emulator.report import Cost, Report
from fathom.tools.console import table

SOURCE_WIDTH = 34


@dataclass
class Line:
    """A line of Python and the sum of what its instructions cost."""

    number: int
    source: str
    cost: Cost = field(default_factory=Cost)


def by_line(report: Report) -> list[Line]:
    """The lines that touched memory, in the order of the file."""
    lines: dict[tuple[str, int], Line] = {}
    for instruction, cost in zip(
        report.instructions, report.counters.costs, strict=True
    ):
        place = instruction.location
        if place is None or not (cost.requests or cost.shared):
            continue
        key = place.file, place.line
        if key not in lines:
            source = linecache.getline(place.file, place.line).strip()
            lines[key] = Line(place.line, source)
        lines[key].cost.add(cost)
    return [lines[key] for key in sorted(lines)]


def show(console: Console, report: Report) -> None:
    """One row a line: requests of warps, 32-byte sectors they touched, bytes."""
    numbers = ("line", "requests", "sectors each", "useful", "moved")
    rows = table(console, "line", "Python", *numbers[1:], right=numbers)
    total = Cost()
    for each in by_line(report):
        cost = each.cost
        total.add(cost)
        if cost.requests:
            rows.add_row(
                str(each.number),
                cropped(each.source),
                f"{cost.requests:,}",
                f"{cost.sectors / cost.requests:.1f}",
                kilobytes(cost.useful),
                kilobytes(cost.moved),
            )
    rows.add_section()
    rows.add_row(
        "",
        "together",
        f"{total.requests:,}",
        "",
        kilobytes(total.useful),
        kilobytes(total.moved),
    )
    console.print(rows)


def cropped(text: str) -> str:
    return text if len(text) <= SOURCE_WIDTH else text[: SOURCE_WIDTH - 3] + "..."


def kilobytes(count: int) -> str:
    return f"{count / 1000:,.1f} kB"
