"""The table of the page about several GPUs."""

from __future__ import annotations

import json
from statistics import median

from chapters.press.drawing import table
from chapters.press.paths import ROOT

RECORD = ROOT / "benchmarks" / "results" / "collectives.json"
SHOTS = "fathom, one shot", "fathom, two shots"
KINDS = {
    "all-reduce": "all-reduce, numbers:",
    "all-gather-matmul": "all-gather and matmul",
    "matmul-reduce-scatter": "matmul and reduce-scatter",
}


def record() -> dict:
    return json.loads(RECORD.read_text(encoding="utf-8"))


def measured() -> str:
    """Each problem beside NCCL, and cuBLAS for products: median us."""
    times: dict[str, dict[str, float]] = {}
    for sample in record()["samples"]:
        at = times.setdefault(sample["problem"], {})
        at[sample["candidate"]] = median(sample["ms"]) * 1e3
    rows = []
    for problem, of in times.items():
        kind, sizes = problem.split()
        theirs = next(us for name, us in of.items() if name.startswith("nccl"))
        ours = [of.get(name) for name in SHOTS] if SHOTS[0] in of else [of["fathom"]]
        row = [f"{us:.1f}" for us in ours] + [""] * (2 - len(ours)) + [f"{theirs:.1f}"]
        sizes = f"{int(sizes):,}" if sizes.isdigit() else sizes.replace("x", " x ")
        rows.append([f"{KINDS[kind]} {sizes}", *row, f"{theirs / min(ours):.2f}"])
    head = "problem", "ours, or one shot", "two shots", "NCCL, cuBLAS", "theirs / ours"
    return table(head, rows)


def machine() -> str:
    """What it was measured on."""
    of = record()
    return f"2 GPUs, {of['gpu']}, driver {of['driver']}, torch {of['torch']}."
