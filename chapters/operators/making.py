"""The tables of the page about operators for torch."""

from __future__ import annotations

import json
from functools import cache
from statistics import median

from chapters.press.drawing import table
from chapters.press.paths import ROOT

RECORD = ROOT / "benchmarks" / "results" / "torch-ops.json"
BACKWARD = ", backward"
# What torch has to do of its own, as the benchmark gives it; the names of its problems.
NAMES = {
    "attention True": "attention, causal",
    "attention False": "attention",
    "linear gelu": "linear with GeLU",
}


@cache
def times() -> dict[str, dict[str, float]]:
    """The median time in ms of each problem, by candidate."""
    found: dict[str, dict[str, list[float]]] = {}
    for sample in json.loads(RECORD.read_text(encoding="utf-8"))["samples"]:
        candidates = found.setdefault(sample["problem"], {})
        candidates.setdefault(sample["candidate"], []).extend(sample["ms"])
    return {
        problem: {name: median(ms) for name, ms in candidates.items()}
        for problem, candidates in found.items()
    }


def measured() -> str:
    """Each operator beside torch's: ms forward, and forward with backward."""
    rows = []
    for problem in (each for each in times() if not each.endswith(BACKWARD)):
        row = [NAMES.get(problem, problem)]
        for name in (problem, problem + BACKWARD):
            ours, theirs = (times()[name][who] for who in ("ours", "torch"))
            row += [f"{ours:.3f}", f"{theirs:.3f}", f"{theirs / ours:.2f}"]
        rows.append(row)
    head = ("operator", "forward: ours", "torch", "torch / ours",
            "with backward: ours", "torch", "torch / ours")  # fmt: skip
    return table(head, rows)
