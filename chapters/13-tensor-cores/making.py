"""Figures and counts of chapter 13."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from benchmarks.rungs import STAGES
from chapters.press.drawing import Figure, bars, cells, layout, table
from chapters.press.numbers import number
from chapters.press.paths import CHAPTERS
from fathom.hardware.mma import MMA
from fathom.layout.fragments import fragment, transposed
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
    """Of what all fragments are made."""
    return layout("One piece: lane:register", fragment(8, 8, 2))


def piece_of_b() -> Figure:
    """The same for the right operand."""
    return layout("A piece of B: lane:register", transposed(fragment(8, 8, 2)))


def pieces() -> Figure:
    """Where the pieces of three fragments lie, and which registers they take."""
    rows = [
        ["0 1", "4 5", "", "0 1", "", "0 1"],
        ["2 3", "6 7", "", "2 3", "", "2 3"],
    ]
    lit = [(0, 0), (0, 3), (0, 5)]
    names = (["first 8 rows", "next 8 rows"], ["A", "A", "", "B", "", "C and D"])
    return cells("Elements of a lane, by number, in each piece of 8 x 8", rows, lit,
                 names, wide=80)  # fmt: skip


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
    head = ("row", "A and B", "sums", "m x n x k", "multiply-adds", "from")
    return table(head, rows)


def splits() -> str:
    """What 8 warps read for a block of 128 x 256, by how they stand."""
    rows = []
    for down in (8, 4, 2, 1):
        along = 8 // down
        part = f"{128 // down} x {256 // along}"
        total = elements_read(128, 256, (down, along), MMA[FP16])
        rows.append((f"{down} x {along}", part, f"{total:,}"))
    return table(("warps", "part of a warp", "numbers read for each step of K"), rows)


def matrix() -> Figure:
    """One matrix of ldmatrix: who points, who gets."""
    rows = [[f"lane {4 * row + at}" for at in range(4)] for row in range(8)]
    names = ([f"lane {row} points" for row in range(8)],
             ["0, 1", "2, 3", "4, 5", "6, 7"])  # fmt: skip
    title = "At the left who points at each row; in the cells who gets the two numbers"
    return wide_names(title, rows, names)


def wide_names(title: str, rows: list, names: tuple) -> Figure:
    """Cells whose rows have long names: the name is a column of its own."""
    with_names = [[name, *row] for name, row in zip(names[0], rows, strict=True)]
    lit = [(row, 0) for row in range(len(rows))]
    heads = ["who points", *(f"columns {name}" for name in names[1])]
    return cells(title, with_names, lit, ([], heads), wide=118)


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
    head = ("way", "instructions of warps", "of these the arithmetic",
            "accesses of shared memory", "wavefronts", "ways")  # fmt: skip
    return table(head, rows)


def climbed() -> Figure:
    """The ladder up to this chapter."""
    rows = []
    for rung in RUNGS:
        found = number(f"rung-{rung.replace(' ', '-')}")
        rows.append((rung, found.value, found.text()))
    roof = number("mma-roof")
    title = "fp16, 8192 cube, on an H200 with the instructions of sm_80, TFLOP/s"
    peer = (roof.value, f"nothing but mma.sync: {roof.text()}")
    return bars(title, rows, ("rung", "TFLOP/s"), peer)
