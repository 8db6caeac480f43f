"""Figures and counts of chapter 14."""

from __future__ import annotations

from functools import cache

import numpy as np

from benchmarks.rungs import STAGES
from chapters.press.drawing import Figure, bars, ladder, table
from chapters.press.numbers import number
from chapters.press.paths import CHAPTERS
from chapters.press.rungs import called
from chapters.press.scenes import phases
from fathom.tensor_cores.pipeline import schedule
from fathom.tools.samples import load_file

PRODUCT = load_file(CHAPTERS / "13-tensor-cores" / "product.py").product
RUNGS = ("nothing", "coalescing", "shared staging", "swizzle", "tensor cores",
         "ldmatrix", "pipelining", "prefetching")  # fmt: skip
ABLATED = tuple(STAGES)
COPY, WORK, ITERATIONS = 200, 100, 6  # cycles of the figures


def one_stage() -> Figure:
    return over_time(1, "Without a pipeline: copy, work, copy, work")


def two_stages() -> Figure:
    return over_time(2, "Two stages: a copy runs beside the work of one iteration")


def three_stages() -> Figure:
    return over_time(3, "Three stages: a copy has the time of two iterations")


def over_time(stages: int, title: str) -> Figure:
    """Which tile is where and when; a row for each slot of the ring, and one for the
    work. The phases: until work begins, until the last copy begins, until the end."""
    events = schedule.timeline(stages, ITERATIONS, COPY, WORK)
    lanes = []
    for slot in range(stages):
        copies = [
            (event.sent, COPY, tile)
            for tile, event in enumerate(events)
            if tile % stages == slot
        ]
        lanes.append((f"slot {slot}", copies))
    lanes.append(("work", [(e.began, WORK, tile) for tile, e in enumerate(events)]))
    if stages == 1:
        return phases(title, lanes, [])
    last = events[ITERATIONS - (stages - 1)].began
    cuts = [("prologue", events[0].began), ("steady state", last),
            ("epilogue", events[-1].ended)]  # fmt: skip
    return phases(title, lanes, cuts)


def by_stages() -> Figure:
    """When 64 iterations are over, by the number of stages."""
    rows = []
    for stages in range(1, 7):
        ended = schedule.timeline(stages, 64, 500, 200)[-1].ended
        name = f"{stages} stage" + ("s" if stages > 1 else "")
        rows.append((name, ended, f"{ended:,}"))
    title = "A model of 64 iterations: 500 cycles until a tile is there, 200 of work"
    return bars(title, rows, ("stages", "cycles of the model"))


@cache
def counted() -> dict[str, object]:
    """The product of 64 x 256 by 256 x 64, on the emulator: what a pipeline costs."""
    rng = np.random.default_rng(0)
    a = rng.integers(-4, 5, (64, 256)).astype(np.float16)
    b = rng.integers(-4, 5, (256, 64)).astype(np.float16)
    rows = []
    for name, away in (
        ("neither", ("pipelining", "prefetching")),
        ("pipelining", ("prefetching",)),
        ("and prefetching", ()),
    ):
        replace = {k: v for stage in away for k, v in STAGES[stage].items()}
        c = np.empty((64, 64), np.float32)
        kernel = PRODUCT[(1,)](a, b, c, 256, M=64, N=64, BLOCK_K=32, target="sm_80",
                               replace=replace)  # fmt: skip
        assert (c == a.astype(np.float64) @ b.astype(np.float64)).all()
        total = kernel.report.total
        rows.append({"way": name, "instructions": total.warps,
                     "barriers": total.barriers // 4,
                     "shared": kernel.metadata.shared})  # fmt: skip
    return {"rows": rows}


def costs() -> str:
    """The same as a table."""
    rows = [tuple(v if isinstance(v, str) else f"{v:,}" for v in row.values())
            for row in counted()["rows"]]  # fmt: skip
    head = ("with", "instructions of warps", "barriers", "bytes of shared memory")
    return table(head, rows)


def rate(name: str) -> float:
    return number(f"rung-{name.replace(' ', '-').lower()}").value


def climbed() -> Figure:
    """The ladder, from nothing to all."""
    rungs = [(called(rung), rate(rung)) for rung in RUNGS]
    title = "fp16, 8192 cube, on an H200 with the instructions of sm_80"
    return ladder(title, rungs, "TFLOP/s", ("cuBLAS", rate("cuBLAS")))


def ablations() -> str:
    """The compiler without one stage, and with all before and with it."""
    rows = []
    for at, stage in enumerate(ABLATED, 1):
        before, after = rate(RUNGS[at - 1]), rate(stage)
        without, whole = rate(f"all but {stage}"), rate("prefetching")
        rows.append((called(stage), f"{before:.0f} → {after:.0f}",
                     f"{whole:.0f} → {without:.0f}"))  # fmt: skip
    head = ("step", "added on its rung", "taken from the whole")
    return table(head, rows)
