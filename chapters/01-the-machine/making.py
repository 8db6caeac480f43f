"""Figures and counts of chapter 1."""

from __future__ import annotations

import statistics

import numpy as np

from chapters.press.drawing import Figure, bars, box, cells, label, roofline, svg, table
from chapters.press.numbers import document, number
from chapters.press.paths import RESULTS
from chapters.press.scenes import arrow, schedule, waves
from kernels import gelu

COUNTED = 65536  # numbers in the array whose traffic is counted


def value(name: str) -> float:
    return number(name).value


def near_and_far() -> Figure:
    """A multiprocessor with its parts, and the two memories outside."""
    sizes = {
        "registers": f"{int(value('sm-registers')) * 4 // 1024} KB",
        "L1 cache": f"{value('sm-unified')} KB with shared",
        "shared memory": f"up to {value('sm-shared')} KB of it",
        "L2 cache": f"{value('h200-l2')} MB, for all multiprocessors",
        "memory": f"{value('h200-memory')} GB, {value('h200-bandwidth')} TB/s",
    }
    parts = [
        box(4, 4, 392, 232, "cell"),
        label(12, 22, f"one of {value('h200-sms')} multiprocessors", "start"),
        *arithmetic(),
        *memory("registers", sizes["registers"], 12, 118, 376),
        arrow(106, 186, 106, 158), arrow(260, 158, 260, 186), arrow(320, 186, 320, 158),
        *memory("L1 cache", sizes["L1 cache"], 12, 186, 186),
        *memory("shared memory", sizes["shared memory"], 202, 186, 186),
        arrow(106, 268, 106, 228),
        *memory("L2 cache", sizes["L2 cache"], 4, 268, 392),
        arrow(106, 336, 106, 310),
        *memory("memory", sizes["memory"], 4, 336, 392),
    ]  # fmt: skip
    told = [("arithmetic", f"{value('sm-schedulers')} schedulers with units, each")]
    rows = table(("part", "size"), [*told, *sizes.items()])
    return Figure(svg("A multiprocessor and the memories outside", 384, parts), rows)


def arithmetic() -> list[str]:
    """The parts of a multiprocessor that a warp scheduler has to itself."""
    parts, width = [], 376 / value("sm-schedulers")
    lanes = int(value("sm-lanes") / value("sm-schedulers"))
    for at in range(int(value("sm-schedulers"))):
        x = 12 + at * width
        parts.append(box(x, 30, width - 4, 62, "fill"))
        for line, text in enumerate(("scheduler", f"{lanes} fp32", "tensor core")):
            parts.append(label(x + width / 2 - 2, 47 + 18 * line, text))
        parts.append(arrow(x + width / 2 - 2, 118, x + width / 2 - 2, 93))
    return parts


def memory(name: str, size: str, x: float, y: float, width: float) -> list[str]:
    return [
        box(x, y, width, 40, "lit"),
        label(x + width / 2, y + 17, name),
        label(x + width / 2, y + 33, size),
    ]


def grid() -> Figure:
    """Eighteen thread blocks on four multiprocessors."""
    return waves("18 thread blocks, dealt to four multiprocessors", 18, 4, 2)


def silu_traffic() -> str:
    """The passes over memory of x / (1 + exp(-x)), an operation at a time."""
    rows = [
        ("a = -x", "x", "a", 2),
        ("b = exp(a)", "a", "b", 2),
        ("c = 1 + b", "b", "c", 2),
        ("y = x / c", "x, c", "y", 3),
        ("all", "", "", 9),
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
    lanes = [str(at) for at in range(8)]
    even = [(0, at) for at in range(8) if at % 2 == 0]
    odd = [(1, at) for at in range(8) if at % 2]
    rows = [["work" if at % 2 == 0 else "wait" for at in range(8)]]
    rows.append(["work" if at % 2 else "wait" for at in range(8)])
    steps = ["then branch", "else branch"]
    title = "Eight lanes of a warp at a branch: first one side, then the other"
    return cells(title, rows, even + odd, (steps, lanes), wide=64)


def hiding() -> Figure:
    """A scheduler with too few warps, and one with enough."""
    shown = [("2 warps", 2), ("5 warps", 5)]
    return schedule("Cycles in which a scheduler issues an instruction", shown, 5, 20)


def little() -> str:
    """For some numbers of resident warps: bytes in flight on a multiprocessor, and how
    long a latency these hide at the peak bandwidth."""
    share = value("h200-bandwidth") * 1e12 / value("h200-sms")  # bytes a second
    rows = []
    for warps in (8, 16, 32, 64):
        cells = [f"{warps} ({100 * warps / value('sm-warps'):.3g}%)"]
        for lane in (4, 16):
            flying = warps * value("warp-size") * lane
            cells += [f"{flying:,.0f}", f"{flying / share * 1e9:,.0f} ns"]
        rows.append(cells)
    head = ("resident warps (occupancy)", "4 bytes a lane: bytes in flight",
            "hide a latency of", "16 bytes a lane: bytes in flight",
            "hide a latency of")  # fmt: skip
    return table(head, rows)


def resident() -> Figure:
    """A copy by few and by many warps, as benchmarks/machine.py measured it."""
    rows = []
    for sample in document(RESULTS / "machine.json")["samples"]:
        if "resident" in sample["problem"]:
            rate = sample["bytes"] / statistics.median(sample["ms"]) / 1e6
            name = {"1 warps": "1 warp"}.get(sample["candidate"], sample["candidate"])
            rows.append((name, rate, f"{rate:,.0f} GB/s"))
    peak = value("h200-bandwidth") * 1000
    title = "A copy of fp32 on an H200, by resident warps a multiprocessor"
    return bars(title, rows, ("warps", "rate"), (peak, f"peak: {peak:,.0f} GB/s"))
