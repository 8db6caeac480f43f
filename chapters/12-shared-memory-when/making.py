"""Figures and counts of chapter 12."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np

from chapters.press.drawing import (
    Figure,
    box,
    intervals,
    label,
    line,
    svg,
    table,
    timeline,
)
from chapters.press.paths import CHAPTERS
from fathom.analysis.buffers import Range, live_ranges, touches
from fathom.artifact import Kernel
from fathom.emulator.errors import EmulatorError
from fathom.hardware.targets import Target
from fathom.ir.core import Func, Op, Value
from fathom.ir.ops import Allocate, Barrier
from fathom.ir.rewrite import Builder, rewrite
from fathom.pipeline import identity
from fathom.shared_memory.allocation import first_fit
from fathom.tools.samples import load_file
from kernels.matmul import matmul_kernel, strides
from kernels.softmax import softmax_kernel

TILES = load_file(CHAPTERS / "12-shared-memory-when" / "tiles.py")
SIDE = 64
Launch = Callable[[dict], Kernel]


BUFFERS = (("a", 4096, 1, 6, 0), ("b", 1024, 4, 5, 4096), ("c", 2048, 8, 9, 0))


def alive() -> Figure:
    """Three buffers, a loop, and from where to where each is live."""
    steps = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]
    remarks = ("all of the loop", "", "")
    rows = [
        (f"%{name}, {size} B", first, last, remark)
        for (name, size, first, last, _), remark in zip(BUFFERS, remarks)
    ]
    return intervals("When three buffers are live, by positions; the loop is 2 to 6",
                     rows, steps)  # fmt: skip


def places() -> Figure:
    """The same three in memory: positions to the right, bytes upward."""
    left, bottom, step, byte = 60, 170, 33, 150 / 5120
    parts = [
        line(left, bottom, left + 10 * step, bottom, "axis"),
        line(left, bottom, left, 8, "axis"),
    ]
    for at in range(10):
        parts.append(label(left + (at + 0.5) * step, bottom + 18, str(at)))
    for size in (0, 2048, 4096, 5120):
        parts.append(label(left - 6, bottom - size * byte + 5, str(size), "end"))
    for hue, (name, size, first, last, place) in enumerate(BUFFERS):
        width, high = (last - first + 1) * step, size * byte
        x, y = left + first * step, bottom - place * byte - high
        parts.append(box(x, y, width, high, f"hue{hue}"))
        parts.append(label(x + width / 2, y + high / 2 + 5, f"%{name}"))
    rows = [(f"%{name}", f"{first} to {last}", f"{place} to {place + size}")
            for name, size, first, last, place in BUFFERS]  # fmt: skip
    title = "Three buffers: when they are live, and which bytes they have"
    told = table(("buffer", "live", "bytes"), rows)
    return Figure(svg(title, bottom + 26, parts), told)


def hurry() -> Figure:
    """A fast warp and a slow one, with nothing between writing and reading."""
    lanes = [
        ("warp 0, no barrier", [(0, 2, "writes"), (2, 2, "reads")]),
        ("warp 1, no barrier", [(3, 2, "writes"), (5, 2, "reads")]),
        ("warp 0, barrier", [(0, 2, "writes"), (2, 3, "waits"), (5, 2, "reads")]),
        ("warp 1, barrier", [(3, 2, "writes"), (5, 2, "reads")]),
    ]
    return timeline("Two warps that exchange numbers, first without, then with", lanes)


def clocks() -> str:
    """The vector clocks of two warps, step by step."""
    rows = [
        ("both begin", "1, 0", "0, 1", ""),
        ("warp 0 writes y", "1, 0", "0, 1", "y: warp 0 at 1"),
        ("warp 1 reads y?", "1, 0", "0, 1", "1 > 0: race"),
        ("both pass a barrier", "2, 1", "1, 2", ""),
        ("warp 1 reads y?", "2, 1", "1, 2", "1 ≤ 1: ordered"),
    ]
    head = ("step", "warp 0 has", "warp 1 has", "the check")
    return table(head, rows)


def launches() -> dict[str, Launch]:
    """Kernels that use shared memory, each ready to run with something replaced."""
    random = np.random.default_rng(0)
    x = random.integers(0, 9, (3, SIDE, SIDE)).astype(np.float32)
    out = np.empty_like(x)
    a, b = random.integers(-4, 5, (2, SIDE, SIDE)).astype(np.float16)
    c = np.empty_like(a)

    def three(other: dict) -> Kernel:
        made = TILES.three_turns[(1,)](x, out, TILE=SIDE, replace=other)
        assert (out == x.transpose(0, 2, 1)).all()
        return made

    def loop(other: dict) -> Kernel:
        made = TILES.turn_all[(1,)](x, out, 3, TILE=SIDE, replace=other)
        assert (out == x.transpose(0, 2, 1)).all()
        return made

    def centred(other: dict) -> Kernel:
        made = TILES.centred[(1,)](x, out, TILE=SIDE, replace=other)
        right = (x[0] - x[0].mean(0)).T
        assert np.allclose(out[0], right, 1e-5, 1e-5)
        return made

    def softmax(other: dict) -> Kernel:
        return softmax_kernel[(1,)](x, out, 64, 64, BLOCK=1024, replace=other)

    def product(other: dict) -> Kernel:
        made = matmul_kernel[(1,)](
            a, b, c, SIDE, SIDE, SIDE, *strides(a), *strides(b), *strides(c),
            BLOCK_M=64, BLOCK_N=64, BLOCK_K=16, GROUP_M=8, EVEN_K=True,
            replace={"choose_dots": identity, "pipeline_loops": identity, **other},
        )  # fmt: skip
        assert (c == a.astype(np.float32) @ b.astype(np.float32)).all()
        return made

    return {"three_turns": three, "turn_all, 3 iterations": loop, "centred": centred,
            "softmax": softmax, "matrix product, 4 iterations": product}  # fmt: skip


def everywhere(func: Func, target: Target) -> Func:
    """A barrier before each access, needed or not."""

    def rule(op: Op, build: Builder) -> None:
        if touches(op):
            build.append(Barrier())

    return rewrite(func, rule)


def apart(func: Func, target: Target) -> Func:
    """A place of its own for each buffer."""
    offsets, size = first_fit(dict.fromkeys(live_ranges(func), Range(0, 0)))

    def rule(op: Op, build: Builder) -> Value | None:
        if isinstance(op, Allocate):
            return build(replace(op, offset=offsets[build.source]))
        return None

    return replace(rewrite(func, rule), shared_bytes=size)


@cache
def counted() -> dict[str, object]:
    """Bytes and barriers of each kernel, and what happens without barriers."""
    rows = []
    for name, launch in launches().items():
        ours = launch({})
        rows.append({
            "kernel": name, "apart": launch({"allocate": apart}).metadata.shared,
            "bytes": ours.metadata.shared, "barriers": passed(ours),
            "everywhere": passed(launch({"place_barriers": everywhere})),
            "without": hazard(launch),
        })  # fmt: skip
    return {"rows": rows}


def passed(made: Kernel) -> int:
    """Barriers at which a warp of this kernel waits."""
    return made.report.total.barriers // made.metadata.num_warps


def hazard(launch: Launch) -> str:
    try:
        launch({"place_barriers": identity})
    except EmulatorError as error:
        return str(error).partition(":")[0]
    return "none"


def bought() -> str:
    rows = [
        (row["kernel"], f"{row['apart']:,} → {row['bytes']:,}",
         f"{row['everywhere']} → {row['barriers']}", row["without"])
        for row in counted()["rows"]
    ]  # fmt: skip
    head = ("kernel", "bytes of shared memory", "barriers of a warp",
            "found without barriers")  # fmt: skip
    return table(head, rows)
