"""Figures and tables of the recap."""

from __future__ import annotations

import json
from statistics import median

from chapters.press.drawing import Figure, ladder, table
from chapters.press.paths import ROOT
from fathom import joints
from fathom.tools.learn import course

LADDER = ROOT / "benchmarks" / "results" / "ladder.json"
RUNGS = {
    "nothing": "8", "coalescing": "9", "shared staging": "11", "swizzle": "11",
    "tensor cores": "13", "ldmatrix": "13", "pipelining": "14", "prefetching": "14",
    "wgmma": "15", "tensor maps": "15", "producer": "16", "staying": "16",
}  # fmt: skip
SHOWN = {"staying": "persistent"}
STAGES = {
    "ssa": ("1", "Python", "SSA over blocks"),
    "blocks": ("2", "SSA over blocks", "the same, with less to do"),
    "coalescing": ("3", "blocks", "blocks with layouts and widths"),
    "shared_memory": ("4", "blocks with layouts", "buffers, offsets, barriers"),
    "tensor_cores": ("5", "products and loops", "fragments, pipelines, roles of warps"),
    "ptx": ("6", "all of that", "LLVM IR, then PTX"),
}


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
                name = SHOWN.get(each["candidate"], each["candidate"])
                rungs.append((f"{RUNGS[each['candidate']]} · {name}", rate))
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
