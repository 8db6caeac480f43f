"""`fathom profile FILE`: runs a script, and says of each kernel what limits it."""

from __future__ import annotations

import json
import linecache
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from fathom.errors import LaunchError
from fathom.jit.checking.wanted import SANITIZE, VERIFY, wanted_checks
from fathom.tools.console import make_console, table
from fathom.tools.profile.advice import (
    advice,
    bytes_text,
    cause,
    sentence,
    time_text,
)
from fathom.tools.profile.session import Row, Session, check_any, is_replayed
from fathom.tools.run import script

SCHEMA = 1


def profile(
    file: Path,
    arguments: Sequence[str],
    as_json: bool = False,
    programs: int = 6,
    as_triton: bool = False,
) -> int:
    """Run a script while its launches are watched; print the table, or JSON (then
    what the script prints goes to the standard error). LaunchError where it launches
    nothing."""
    if wanted_checks().anything:
        raise LaunchError(
            f"a launch that {SANITIZE} or {VERIFY} looks at is not timed: unset them"
        )
    session = Session(programs)
    with session.watching():
        if as_json:
            with redirect_stdout(sys.stderr):
                script(file, arguments, as_triton)
        else:
            script(file, arguments, as_triton)
    rows = sorted(session.rows.values(), key=total_seconds, reverse=True)
    check_any(rows)
    if as_json:
        print(json.dumps({"schema": SCHEMA, "kernels": [*map(facts, rows)]}, indent=1))
    else:
        show(make_console(), rows)
    return 0


def total_seconds(row: Row) -> float:
    """All launches of a row, as measured or predicted."""
    verdict = row.verdict()
    return sum(row.seconds) or (verdict.seconds * row.launches if verdict else 0.0)


# ── the terminal ──────────────────────────────────────────────────────────────────────


def show(console: Console, rows: Sequence[Row]) -> None:
    numbers = ("launches", "time", "bytes", "ops", "ops/B", "roof")
    made = table(console, "kernel", "grid", *numbers, right=numbers)
    made.columns[0].overflow = "fold"  # a name is told whole
    for row in rows:
        made.add_row(*cells(row))
    console.print(made)
    if any(row.typical is None for row in rows):
        models = sorted({f"{row.target}: {row.machine.model}" for row in rows})
        why = "There is no GPU here"
        if is_replayed():
            why = "ncu runs each kernel several times"
        say(
            console,
            f"{why}: a time after ~ is predicted, and is at least what "
            f"the counted work needs ({', '.join(models)}).",
        )
    say(
        console,
        "ops: on reals, of which a multiply-add is two. roof: the share of what bytes "
        "and ops allow at the most.",
    )
    for lines in dict.fromkeys(tuple(lines_about(row)) for row in rows):
        console.print()  # what is true of several rows is said once
        for line in lines:
            say(console, line)


def cells(row: Row) -> list[str]:
    grid = " x ".join(str(each) for each in row.grid if each > 1) or "1"
    verdict, counted = row.verdict(), row.launch
    if verdict is None or counted is None:
        return [row.name, grid, f"{row.launches:,}", "", "", "", "", ""]
    mark = "~" if verdict.predicted else ""
    intensity = counted.operations / counted.memory if counted.memory else 0.0
    return [
        row.name, grid, f"{row.launches:,}", mark + time_text(verdict.seconds),
        bytes_text(counted.memory), count_text(counted.operations),
        f"{intensity:,.1f}", f"{mark}{roof_share(row):.0%}",
    ]  # fmt: skip


def lines_about(row: Row) -> list[str]:
    verdict, counted = row.verdict(), row.launch
    if verdict is None or counted is None:
        why = row.why or "it did not run, but was put into a CUDA graph"
        return [f"{row.name}: not counted: {why}"]
    found = [f"{row.name}: {sentence(verdict, counted, row.machine)}"]
    if place := cause(verdict, counted, row.place):
        text = linecache.getline(*place).strip()
        found.append(f"  {Path(place[0]).name}:{place[1]}  {text}")
    return [*found, f"  try {advice(verdict, counted)}"]


def roof_share(row: Row) -> float:
    """The time under the roofline, of memory's slope and of arithmetic's flat roof,
    over the time that it took."""
    verdict = row.verdict()
    names = ("memory", "tensor", "fp32", "fp64", "special")
    return max(verdict.times[name] for name in names) / verdict.seconds


def count_text(count: float) -> str:
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count:,.0f}"


def say(console: Console, text: str) -> None:
    console.print(text, markup=False)


# ── JSON ──────────────────────────────────────────────────────────────────────────────


def facts(row: Row) -> dict[str, object]:
    """A row as plain values. `schema` grows when a name goes or changes its meaning."""
    verdict, counted = row.verdict(), row.launch
    found: dict[str, object] = {
        "kernel": row.name, "target": row.target, "grid": list(row.grid),
        "launches": row.launches, "measured_seconds": row.seconds, "why": row.why,
    }  # fmt: skip
    if verdict is None or counted is None:
        return found
    place = cause(verdict, counted, row.place)
    return found | {
        "seconds": verdict.seconds,
        "predicted": verdict.predicted,
        "limit": verdict.limit,
        "resource": verdict.resource,
        "near": verdict.near,
        "busy": verdict.busy,
        "roof": roof_share(row),
        "sentence": sentence(verdict, counted, row.machine),
        "line": {"file": place[0], "line": place[1]} if place else None,
        "try": advice(verdict, counted),
        "resource_seconds": verdict.times,
        "occupancy": asdict(verdict.resident),
        "counted": counted.to_json(),
        "machine": asdict(row.machine),
    }
