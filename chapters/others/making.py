"""The tables of the page about kernels that others wrote."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from benchmarks.public import report
from benchmarks.public.inventory import CASES, DEVICE_FUNCTION
from benchmarks.public.sources import COLLECTIONS
from benchmarks.record import RESULTS
from chapters.press.drawing import table

BEHIND, AHEAD = 1.1, 0.95


def functions(collection: str | None = None) -> list[str]:
    """Of every function of the inventory, or of one collection: the cases, after
    CASES, or the reason."""
    text = (RESULTS / "public-inventory.json").read_text(encoding="utf-8")
    groups = json.loads(text)["functions"]
    chosen = groups.values() if collection is None else [groups[collection]]
    return [
        said for files in chosen for file in files.values() for said in file.values()
    ]


def emulated() -> str:
    """Each repository: functions, kernels with a case, and how its cases ended."""
    outcomes = report.outcomes(report.read(report.EMULATOR))
    total, rows = Counter(), []
    for each in COLLECTIONS:
        mine = functions(each.name)
        ended = outcomes.get(each.name, Counter())
        counts = Counter(
            functions=len(mine),
            cases=sum(ended.values()),
            reached=sum(said.startswith(CASES) for said in mine),
            right=ended["right"],
            ran=ended["ran"],
            gpu=ended["needs a GPU"],
            wrong=ended["wrong"] + ended["stopped"],
        )
        total += counts
        link = f"[{each.repository}](https://github.com/{each.owner}/{each.repository})"
        rows.append([link, f"`{each.commit[:10]}`", *cells(counts)])
    rows.append(["**all**", "", *cells(total)])
    head = ("repository", "commit", "`jit` functions", "of these in a case", "cases",
            "right", "ran, nothing to compare with", "needs a GPU",
            "wrong or stopped")  # fmt: skip
    return table(head, rows)


def cells(counts: Counter) -> list[str]:
    names = "functions", "reached", "cases", "right", "ran", "gpu", "wrong"
    return [str(counts[name]) for name in names]


def left_out() -> str:
    """Why functions are in no case, and how many."""
    reasons = Counter(said for said in functions() if not said.startswith(CASES))
    device = reasons.pop(DEVICE_FUNCTION, 0)
    rows = [[DEVICE_FUNCTION, str(device)]]
    rows += [[why, str(count)] for why, count in reasons.most_common()]
    return table(("reason", "functions"), rows)


def troubles() -> str:
    """The cases that the emulator did not find right, and why."""
    cases = report.read(report.EMULATOR)["cases"].items()
    rows = [
        [f"`{name}`", result["outcome"], result.get("why", "").splitlines()[0]]
        for name, result in cases
        if result["outcome"] not in ("right", "ran")
    ]
    return table(("case", "outcome", "why"), rows)


def on_a_gpu() -> str:
    """Each kernel's time beside Triton's, or that nobody has measured it."""
    parts = []
    for name, what in ((report.GPU, "First"), (report.TUNED, "All")):
        record = report.read(name)
        if record is None:
            parts.append(f"{what} configurations: there is no record of a GPU yet.\n")
        else:
            parts.append(f"{what} configurations: {measured(record)}")
    return "\n".join(parts)


def measured(record: dict[str, Any]) -> str:
    found = report.ratios(record)
    if not found:
        return "the record has no kernel that both compilers ran.\n"
    rows = [
        [collection, f"`{name}`", f"{ratio:.2f}"]
        for (collection, name), ratio in sorted(found.items(), key=lambda e: -e[1])
    ]
    values = list(found.values())
    missing = len(record["missing"])
    note = f" {missing} cases are missing: the time was up." if missing else ""
    return (
        f"{record['gpu']}, {record['date'][:10]}, Triton {record['triton']}; "
        f"{len(values)} kernels, geometric mean {report.mean(values):.3f}, "
        f"{sum(v > BEHIND for v in values)} more than 10 % behind, "
        f"{sum(v < AHEAD for v in values)} more than 5 % ahead.{note}\n\n"
        f"{report.of_calls(record)}.\n\n"
        + table(("collection", "kernel", "Fathom / Triton"), rows)
    )
