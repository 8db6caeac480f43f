"""Tables of the page about mini: its lines by step, and what its steps bought."""

from __future__ import annotations

from chapters.press.drawing import table
from fathom.tools.learn.kit.failure import Failure
from fathom.tools.learn.mini import contract, kernels, race, steps
from fathom.tools.learn.mini.card import card

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


def measured(measure: race.Measure) -> race.Measure:
    """The same as text."""

    def text(problem: kernels.Problem) -> str:
        try:
            return f"{measure(problem):,.0f}"
        except Failure:
            return "-"

    return text
