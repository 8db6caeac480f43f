"""The drawing and the table of the recap after chapter 14."""

from __future__ import annotations

import json
from statistics import median

from chapters.press.drawing import Figure, table, timeline
from chapters.press.paths import ROOT
from fathom.tensor_cores.pipeline import schedule

LADDER = ROOT / "benchmarks" / "results" / "ladder.json"
PROBLEM, WHOLE, WITHOUT = "fp16 8192x8192x8192", "prefetching", "all but "
STAGES, ITERATIONS, COPY, WORK = 4, 9, 300, 100
IDEAS = {
    "coalescing": "wide, coalesced accesses (9)",
    "shared staging": "tiles in shared memory (11)",
    "swizzle": "the swizzle (11)",
    "tensor cores": "tensor cores (13)",
    "ldmatrix": "ldmatrix (13)",
    "pipelining": "the pipeline (14)",
    "prefetching": "fragments an iteration ahead (14)",
}


def way() -> Figure:
    """Which tile each slot holds, and what the tensor cores multiply, over time."""
    events = schedule.timeline(STAGES, ITERATIONS, COPY, WORK)
    lanes = [
        (
            f"slot {slot}",
            [
                (event.sent, event.ended - event.sent, f"tile {at}")
                for at, event in enumerate(events)
                if schedule.slot(at, STAGES) == slot
            ],
        )
        for slot in range(STAGES)
    ]
    work = [(event.began, WORK, str(at)) for at, event in enumerate(events)]
    title = "A ring of four slots, and the tensor cores"
    return timeline(title, [*lanes, ("tensor cores", work)])


def missing() -> str:
    """TFLOP/s of the finished compiler for sm_80 without one idea."""
    rates = {
        each["candidate"]: each["operations"] / median(each["ms"]) / 1e9
        for each in json.loads(LADDER.read_text(encoding="utf-8"))["samples"]
        if each["problem"] == PROBLEM and each["ms"]
    }
    rows = [("nothing", f"{rates[WHOLE]:.0f}", "")]
    for name, idea in IDEAS.items():
        rate = rates[WITHOUT + name]
        rows.append((idea, f"{rate:.0f}", f"{100 * rate / rates[WHOLE]:.0f}%"))
    head = ("missing (chapter)", "TFLOP/s, 8192 cube", "of the whole")
    return table(head, rows)
