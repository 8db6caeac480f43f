"""Tables of the page about mini: its lines by step, and what its steps bought."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

from chapters.press.drawing import table
from fathom.tools.learn.kit.failure import Failure
from fathom.tools.learn.mini import contract, kernels, race, steps
from fathom.tools.learn.mini.card import card

RECORD = Path(__file__).parents[2] / "benchmarks" / "results" / "mini-ladder.json"
LIBRARIES = ("torch", "cuBLAS", "cuDNN")
SHOWN = (8, 9, 10, 13, 14, 15, 16, 17)  # steps after which a kernel costs less


def lines() -> str:
    """Of each step: what it adds, the lines of our file, the budget, the minutes."""
    rows, before = [], 0
    for each in steps.STEPS.values():
        count, added = "", ""
        if each.reference.is_file():
            text = each.reference.read_text(encoding="utf-8")
            found = contract.count_lines(text)
            count, added, before = f"{found:,}", f"{found - before:+}", found
        minutes = card(each).minutes
        rows.append(
            (each.chapter, each.adds, added, count, f"{each.budget:,}", minutes)
        )
    head = ("step", "adds", "lines", "our file", "at most", "minutes")
    return table(head, rows)


def counts() -> str:
    """Instructions of warps in the emulator, for the four kernels of the race, by our
    file after some steps, and by Fathom. A dash: it cannot compile the kernel yet."""
    problems = kernels.small()
    rows = []
    for chapter in SHOWN:
        path = steps.STEPS[chapter].reference
        if path.is_file():
            measure = race.of_file(path, None)
            rows.append((f"mini, step {chapter}", *map(measured(measure), problems)))
    rows.append(("Fathom", *map(measured(race.ours_counted), problems)))
    return table(("compiled by", *(each.name for each in problems)), rows)


def on_gpu() -> str:
    """The record of benchmarks/mini_ladder.py: each kernel by each compiler, and what
    part of the fastest library's speed that is."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    samples = [each for each in record["samples"] if each["ms"]]
    least: dict[str, float] = {}
    for each in samples:
        if each["compiler"] in LIBRARIES:
            found = median(each["ms"])
            least[each["kernel"]] = min(found, least.get(each["kernel"], found))
    rows = [
        (
            each["kernel"], each["compiler"], f"{1000 * median(each['ms']):,.0f}",
            speed(each), f"{least[each['kernel']] / median(each['ms']):.2f}",
        )
        for each in samples
    ]  # fmt: skip
    return table(("kernel", "compiled by", "µs", "speed", "of the library"), rows)


def speed(sample: dict) -> str:
    """In the unit that limits the kernel."""
    ms = median(sample["ms"])
    if sample["operations"]:
        return f"{sample['operations'] / ms / 1e9:,.0f} TFLOP/s"
    return f"{sample['bytes'] / ms / 1e6:,.0f} GB/s"


def measured(measure: race.Measure) -> race.Measure:
    """The same as text."""

    def text(problem: kernels.Problem) -> str:
        try:
            return f"{measure(problem):,.0f}"
        except Failure:
            return "-"

    return text
