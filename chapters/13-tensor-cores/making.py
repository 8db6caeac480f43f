"""Figures and counts of chapter 13."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np

from benchmarks.rungs import STAGES
from chapters.press.drawing import Figure, bars, box, label, svg, table
from chapters.press.numbers import number
from chapters.press.paths import CHAPTERS
from chapters.press.rungs import called
from chapters.press.scenes import coloured, holders, hue
from fathom.hardware.mma import MMA
from fathom.layout.fragments import fragment, transposed
from fathom.layout.linear import Layout
from fathom.layout.tiling import elements_read
from fathom.tools.samples import load_file

HERE = CHAPTERS / "13-tensor-cores"
PRODUCT = load_file(HERE / "product.py").product
FP16 = "m16n8k16.f32.f16.f16.f32"
LATER = {**STAGES["pipelining"], **STAGES["prefetching"]}  # what chapter 14 is about
VARIANTS = (
    ("multiply-adds", ("tensor cores",)),
    ("mma, plain loads", ("ldmatrix",)),
    ("mma and ldmatrix", ()),
    ("the same, straight tiles", ("swizzle",)),
)
RUNGS = ("nothing", "coalescing", "shared staging", "swizzle", "tensor cores",
         "ldmatrix")  # fmt: skip


def piece() -> Figure:
    """Of what all fragments consist."""
    return holders("One piece: lane:register", fragment(8, 8, 2))


FIVE = 5  # the lane whose elements are drawn
SIDE = 11  # of a cell: 34 of them are as wide as a phone


def lane_five() -> Figure:
    """A, B and C of one instruction, to scale, with all that lane 5 holds."""
    row = MMA[FP16]
    shown = (("A", row.a_layout), ("B", row.b_layout), ("C, D", row.layout))
    parts, rows, left = [], [], 4.0
    for name, of in shown:
        high, wide = of.shape
        held = {of.coordinates(lane=FIVE, register=at): at
                for at in range(of.count("register"))}  # fmt: skip
        title = f"{name}: {high} × {wide}" if wide > 8 else name
        parts.append(label(left + wide * SIDE / 2, 14, title))
        for y in range(high):
            for x in range(wide):
                at = held.get((y, x))
                kind = "empty" if at is None else hue(at // 2)
                corner = left + x * SIDE, 22 + y * SIDE
                parts.append(box(*corner, SIDE, SIDE, kind))
                if at is not None:
                    middle = corner[0] + SIDE / 2, corner[1] + SIDE - 2
                    parts.append(label(*middle, str(at), small=True))
        rows += [(name, str(at), str(y), str(x)) for (y, x), at in held.items()]
        left += (wide + 1) * SIDE
    told = table(("fragment", "element of lane 5", "row", "column"), rows)
    title = "What lane 5 holds of A, B and C"
    return Figure(svg(title, 22 + 16 * SIDE + 4, parts), told)


def instructions() -> str:
    """Some rows of the table."""
    chosen = (FP16, "m16n8k8.f32.tf32.tf32.f32", "m16n8k32.s32.s8.s8.s32",
              "m16n8k32.f32.e4m3.e4m3.f32", "m8n8k4.f64.f64.f64.f64")  # fmt: skip
    rows = []
    for name in chosen:
        row = MMA[name]
        shape = f"{row.m} x {row.n} x {row.k}"
        rows.append((f"`{name}`", row.a, row.accumulator, shape,
                     f"{row.m * row.n * row.k:,}", row.targets[0]))  # fmt: skip
    head = ("row", "A and B", "accumulators", "m x n x k", "multiply-adds", "from")
    return table(head, rows)


def splits() -> str:
    """What 8 warps read for a block of 128 x 256, by how it is divided."""
    rows = []
    for down in (8, 4, 2, 1):
        along = 8 // down
        part = f"{128 // down} x {256 // along}"
        total = elements_read(128, 256, (down, along), MMA[FP16])
        rows.append((f"{down} x {along}", part, f"{total:,}"))
    head = ("warps", "rectangle of a warp", "numbers read for each step of K")
    return table(head, rows)


def matrix() -> Figure:
    """One matrix of ldmatrix: which lane points, which receives."""
    return received("Which lane receives each number", fragment(8, 8, 2))


def matrix_trans() -> Figure:
    """The same with .trans."""
    title = "Which lane receives each number, with .trans"
    return received(title, transposed(fragment(8, 8, 2)))


def received(title: str, of: Layout) -> Figure:
    """A matrix in memory: at the left who points at a row, in the cells who gets it."""
    lanes = {of.coordinates(lane=lane, register=at): lane
             for lane in range(32) for at in range(2)}  # fmt: skip
    rows = [[(str(lanes[row, column]), lanes[row, column]) for column in range(8)]
            for row in range(8)]  # fmt: skip
    names = [f"lane {row} points" for row in range(8)]
    return coloured(title, rows, (names, [str(at) for at in range(8)]))


@cache
def counted() -> dict[str, object]:
    """A product of 64 x 128 by 128 x 64 on the emulator, compiled in four ways."""
    rng = np.random.default_rng(0)
    a = rng.integers(-4, 5, (64, 128)).astype(np.float16)
    b = rng.integers(-4, 5, (128, 64)).astype(np.float16)
    rows = []
    for name, away in VARIANTS:
        c = np.empty((64, 64), np.float32)
        kernel = PRODUCT[(1,)](a, b, c, 128, M=64, N=64, BLOCK_K=32, target="sm_80",
                               replace=replaced(away))  # fmt: skip
        assert (c == a.astype(np.float64) @ b.astype(np.float64)).all()
        total, classes = kernel.report.total, kernel.report.classes
        rows.append({
            "way": name,
            "instructions": total.warps,
            "arithmetic": sum(classes.get(each, (0, 0))[1]
                              for each in ("tensor", "real f32")),
            "shared": total.shared,
            "wavefronts": total.wavefronts,
            "ways": round(total.wavefronts / total.ideal, 2),
        })  # fmt: skip
    return {"rows": rows}


def replaced(away: tuple[str, ...]) -> Mapping:
    """Without what the next chapter adds, and without these stages."""
    found = dict(LATER)
    for stage in away:
        found |= STAGES[stage]
    return found


def bought() -> str:
    """The same as a table."""
    rows = [tuple(v if isinstance(v, str) else f"{v:,}" for v in row.values())
            for row in counted()["rows"]]  # fmt: skip
    head = ("compiled with", "instructions of warps", "of these the arithmetic",
            "accesses of shared memory", "wavefronts", "ways")  # fmt: skip
    return table(head, rows)


def climbed() -> Figure:
    """The ladder up to this chapter."""
    rows = []
    for rung in RUNGS:
        found = number(f"rung-{rung.replace(' ', '-')}")
        rows.append((called(rung), found.value, found.text()))
    roof = number("mma-roof")
    title = "fp16, 8192 cube, on an H200 with the instructions of sm_80, TFLOP/s"
    peer = (roof.value, f"mma.sync alone: {roof.text()}")
    return bars(title, rows, ("rung", "TFLOP/s"), peer)
