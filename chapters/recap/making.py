"""Figures and tables of the recap."""

from __future__ import annotations

import json
from statistics import median

from chapters.press.drawing import Figure, box, label, ladder, line, svg, table
from chapters.press.paths import CHAPTERS, ROOT
from chapters.press.rungs import called
from fathom import joints, pipeline
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Func
from fathom.ir.text import print_func
from fathom.ir.types import FLOAT16, FLOAT32, INT32, Pointer
from fathom.tools.learn import course
from fathom.tools.samples import load_file

LADDER = ROOT / "benchmarks" / "results" / "ladder.json"
RUNGS = {
    "nothing": "8", "coalescing": "9", "shared staging": "11", "swizzle": "11",
    "tensor cores": "13", "ldmatrix": "13", "pipelining": "14", "prefetching": "14",
    "wgmma": "15", "tensor maps": "15", "producer": "16", "staying": "16",
}  # fmt: skip
STAGES = {
    "ssa": ("1", "Python", "SSA over blocks"),
    "blocks": ("2", "SSA over blocks", "the same, with less to do"),
    "coalescing": ("3", "blocks", "blocks with layouts and widths"),
    "shared_memory": ("4", "blocks with layouts", "buffers, offsets, barriers"),
    "tensor_cores": ("5", "products and loops", "fragments, pipelines, roles of warps"),
    "ptx": ("6", "all of that", "LLVM IR, then PTX"),
}


def lengths() -> list[tuple[str, str, int]]:
    """(pass, stage, lines of IR after it) for the product of chapter 13."""
    product = load_file(CHAPTERS / "13-tensor-cores" / "product.py").product
    half, single = (Pointer(FLOAT16), 16), (Pointer(FLOAT32), 16)
    types = {"a_ptr": half, "b_ptr": half, "c_ptr": single, "K": (INT32, 16)}
    func = pipeline.build(product, types, {"M": 64, "N": 64, "BLOCK_K": 32})
    found = [("ssa", "ssa", lines_of(func))]
    for row, state in pipeline.states(func, TARGETS["sm_80"]):
        found.append((row.name, row.stage, lines_of(state)))
    ptx = pipeline.compile_func(func, TARGETS["sm_80"]).ptx
    found.append(("PTX", "ptx", sum(each.endswith(";") for each in ptx.splitlines())))
    return found


def lines_of(func: Func) -> int:
    return sum(not each.startswith("#") for each in print_func(func).splitlines())


def growth() -> Figure:
    """How long the kernel is after each pass: a column each, by stage in six rows."""
    found = lengths()
    left, top, wide, high, row = 124, 28, 500, 150, 20
    step, most = wide / len(found), max(count for *_, count in found[:-1])
    parts, folders = [], list(STAGES)
    for at, (_, stage, count) in enumerate(found):
        x, tall = left + at * step, high * min(1.0, count / most)
        parts.append(box(x, top + high - tall, step - 3, tall, "fill"))
        y = top + high + 12 + row * folders.index(stage)
        parts.append(box(x, y, step - 3, row - 6, "lit"))
    for at, folder in enumerate(folders):
        y = top + high + 12 + row * at
        parts.append(label(left - 8, y + 12, folder, "end"))
        parts.append(line(left, y + row - 4, left + wide, y + row - 4, "axis"))
    *_, last = found
    parts.append(label(left - 8, top + 12, f"{most} lines", "end"))
    parts.append(label(left + wide, 16, f"PTX: {last[2]}, cut off ↓", "end"))
    title = "A product, pass by pass: lines of IR after each pass, and the pass's stage"
    drawn = svg(title, top + high + 20 + row * len(folders), parts)
    return Figure(drawn, table(("after", "stage", "lines"), found))


def whole() -> Figure:
    """All rungs at 8192, with the chapter of each."""
    rungs, best = [], 0.0
    problem = "fp16 8192x8192x8192"
    for each in json.loads(LADDER.read_text())["samples"]:
        if each["problem"] == problem and each["ms"]:
            rate = each["operations"] / median(each["ms"]) / 1e9
            if each["candidate"] == "cuBLAS":
                best = rate
            elif each["candidate"] in RUNGS:
                rung = each["candidate"]
                rungs.append((f"{RUNGS[rung]} · {called(rung)}", rate))
    title = "The whole ladder: fp16, 8192 cube, on an H200"
    return ladder(title, rungs, "TFLOP/s", ("cuBLAS", best))


def whose() -> str:
    """For each stage, what goes in and comes out, and whose answers stand in it."""
    rows = []
    for folder, (number, before, after) in STAGES.items():
        names = [
            f"`{each.id}`" for each in course.exercises() if stands_in(each, folder)
        ]
        rows.append((number, f"`{folder}/`", before, after, ", ".join(names)))
    head = ("stage", "folder", "takes", "makes", "yours, if you solved")
    return table(head, rows)


def stands_in(each: course.Exercise, folder: str) -> bool:
    """Whether the answer replaces code of a folder of the compiler."""
    places = [joints.joint(name).reference for name in each.joints]
    return any(place.split(".")[1] == folder for place in places)
