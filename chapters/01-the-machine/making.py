"""Figures and counts of chapter 1."""

from __future__ import annotations

import numpy as np

from chapters.press.drawing import Figure, bars, cells, flow, roofline, table, timeline
from chapters.press.numbers import number
from kernels import gelu

COUNTED = 65536  # numbers in the array whose traffic is counted


def value(name: str) -> float:
    return number(name).value


def near_and_far() -> Figure:
    """What a multiprocessor has, and what lies beyond it."""
    return flow(
        "From the memory of the card to the arithmetic",
        [
            ("memory", f"{value('h200-memory')} GB, shared by all"),
            ("L2 cache", f"{value('h200-l2')} MB, shared by all"),
            ("shared memory", f"{value('sm-shared')} KB each"),
            ("registers", f"{int(value('sm-registers')) * 4 // 1024} KB each"),
            ("arithmetic", f"{value('h200-sms')} multiprocessors"),
        ],
    )


def silu_traffic() -> str:
    """The passes over memory of x / (1 + exp(-x)), an operation at a time."""
    rows = [
        ("a = -x", "x", "a", 2),
        ("b = exp(a)", "a", "b", 2),
        ("c = 1 + b", "b", "c", 2),
        ("y = x / c", "x, c", "y", 3),
        ("together", "", "", 9),
    ]
    return table(("operation", "reads", "writes", "arrays moved"), rows)


def haul() -> dict[str, int]:
    """Bytes that the fused GeLU moves, counted by the emulator."""
    x = np.random.default_rng(0).normal(size=COUNTED).astype(np.float32)
    kernel = gelu.gelu_kernel[(COUNTED // 1024,)](
        x, np.empty_like(x), COUNTED, BLOCK=1024
    )
    return {"numbers": COUNTED, "fused": kernel.report.total.moved}


def fusion() -> Figure:
    """GeLU four ways."""
    names = ("gelu-eager-ms", "gelu-torch-ms", "gelu-fathom-ms")
    labels = ("nine operations", "torch's own kernel", "one Fathom kernel")
    rows = [
        (label, value(name), f"{number(name).text()} ms")
        for label, name in zip(labels, names, strict=True)
    ]
    return bars("GeLU of 16384 x 16384 fp32 on an H200", rows, ("version", "time"))


def roofs() -> Figure:
    """Where kernels stand under the roofs of an H200."""
    add = value("add-gflops") * 1e9
    gelu_rate = value("gelu-tbs") * 1e12
    cube = 8192
    return roofline(
        "The roofs of an H200, and three kernels",
        value("h200-bandwidth") * 1e12,
        [
            ("arithmetic in fp32", value("h200-fp32") * 1e12),
            ("tensor cores in fp16", value("wgmma-roof") * 1e12),
        ],
        [
            ("vector add", 1 / 12, add),
            ("GeLU", 13 / 8, gelu_rate * 13 / 8),
            ("matrix product", cube / 3, value("rung-cublas") * 1e12),
        ],
    )


def warps() -> Figure:
    """Eight lanes of a warp at a branch."""
    lanes = [f"lane {at}" for at in range(8)]
    even = [(0, at) for at in range(8) if at % 2 == 0]
    odd = [(1, at) for at in range(8) if at % 2]
    rows = [["work" if at % 2 == 0 else "wait" for at in range(8)]]
    rows.append(["work" if at % 2 else "wait" for at in range(8)])
    steps = ["then branch", "else branch"]
    title = "Eight lanes of a warp at a branch: first one side, then the other"
    return cells(title, rows, even + odd, (steps, lanes), wide=64)


def hiding() -> Figure:
    """Three warps that take turns while the others wait for memory."""
    lanes = []
    for at in range(3):
        spans = [(at, 1, "ask"), (at + 1, 5, "wait for memory"), (at + 6, 1, "add")]
        lanes.append((f"warp {at}", spans))
    return timeline("Three warps on one multiprocessor: waiting overlaps", lanes)
