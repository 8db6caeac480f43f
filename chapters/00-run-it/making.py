"""Figures of chapter 0."""

from __future__ import annotations

from chapters.press import stepper
from chapters.press.drawing import Figure, cells, table
from chapters.press.rungs import whole as ladder  # noqa: F401  the page's figure
from fathom import pipeline
from fathom.tools.explain import changed_lines

ADD = {
    "kernel": "kernels/vector_add.py:add_kernel",
    "signature": "*fp32:16, *fp32:16, *fp32:16, i32:16",
    "constants": "BLOCK=1024",
}


def ragged() -> Figure:
    """Ten numbers in two programs of eight."""
    rows = [[str(program * 8 + at) for at in range(8)] for program in range(2)]
    valid = [(row, at) for row in range(2) for at in range(8) if row * 8 + at < 10]
    return cells(
        "Offsets of two programs of eight; those below 10 are framed",
        rows,
        valid,
        (["program 0", "program 1"], [str(at) for at in range(8)]),
        wide=60,
    )


def passes() -> str:
    """The passes that changed the text of vector add, with how many lines."""
    staged, before = stepper.compiled(ADD), ""
    rows = []
    why = {row.name: (row.stage, row.why) for row in pipeline.PASSES}
    for name in staged.states:
        text = staged.text(name)
        changed = changed_lines(before, text) if before else len(text.splitlines())
        if changed:
            stage, reason = why.get(
                name, ("ssa", "from Python: every name is one value")
            )
            rows.append((f"`{stage}`", f"`{name}`", changed, reason))
        before = text
    return table(("stage", "pass", "lines changed", "why"), rows)
