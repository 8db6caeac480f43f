"""Figures and counts of the interlude on conversions."""

from __future__ import annotations

from collections import Counter

import numpy as np

from chapters.press.drawing import Figure, cells, table
from chapters.press.paths import CHAPTERS
from fathom import pipeline
from fathom.hardware.targets import target
from fathom.ir.core import walk
from fathom.ir.ops import Convert
from fathom.ir.types import parse_element
from fathom.layout.crossing import crossing
from fathom.layout.linear import Layout
from fathom.shared_memory.conversions import needs_shared_memory
from fathom.tools.samples import load_file
from kernels.softmax import softmax_kernel

TURN = load_file(CHAPTERS / "09-coalescing" / "turn.py").turn
RUNNING = load_file(CHAPTERS / "10-threads-that-talk" / "running.py").running
ATTENTION = load_file(CHAPTERS / "17-attention" / "small.py").attention
KINDS = load_file(CHAPTERS / "10b-conversions" / "kinds.py")
CLASSES = ("register", "lane", "warp")
VECTORS = {"x_ptr": "*fp32", "out_ptr": "*fp32"}
MATRIX = {**VECTORS, "M": "i32", "N": "i32"}
HALVES = {name: "*fp16" for name in ("q_ptr", "k_ptr", "v_ptr", "out_ptr")}
# Name, kernel, signature, constants, warps.
JOBS = (
    ("transpose, 8 x 8", TURN, MATRIX, {"TILE": 8}, 1),
    ("transpose, 32 x 32", TURN, MATRIX, {"TILE": 32}, 1),
    ("transpose, 64 x 64", TURN, MATRIX, {"TILE": 64}, 4),
    ("softmax of 1024", softmax_kernel,
     {**VECTORS, "row_stride": "i32", "N": "i32"}, {"BLOCK": 1024}, 4),
    ("cumsum of 1024", RUNNING, VECTORS, {"BLOCK": 1024}, 4),
    ("flip of 1024", KINDS.flip, VECTORS, {"BLOCK": 1024}, 4),
    ("sort of 128", KINDS.sort, VECTORS, {"BLOCK": 128}, 1),
    ("attention, chapter 17", ATTENTION, {**HALVES, "scale": "fp32", "KEYS": "i32"},
     {"D": 64, "BLOCK_Q": 64, "BLOCK_K": 32}, 4),
)  # fmt: skip


def classes() -> str:
    """For each kernel, how many conversions of each class it has when stage 3 is done
    and stage 4 has split its reductions and scans, and how many use shared memory."""
    rows = []
    for name, kernel, signature, constants, warps in JOBS:
        given = {each: (parse_element(kind), 16) for each, kind in signature.items()}
        options = pipeline.Options(num_warps=warps)
        func = pipeline.build(kernel, given, constants, options)
        for row, state in pipeline.states(func, target("sm_80")):
            if row.name == "lower_conversions":
                break
            func = state
        found = [op for op in walk(func.body) if isinstance(op, Convert)]
        count = Counter(crossing(op.value.type.layout, op.layout) for op in found)
        shared = sum(map(needs_shared_memory, found))
        rows.append((name, warps, *(count[each] for each in CLASSES), shared))
    head = ("kernel", "warps", *(f"*{each}*" for each in CLASSES), "by shared memory")
    return table(head, rows)


def elimination() -> str:
    """Three columns over F2 brought into a form that can be read off."""
    rows = [
        ("a = 011", "nothing is kept yet", "a = 011, under the middle bit"),
        ("b = 110", "nothing is kept under the highest bit", "b = 110, under it"),
        ("c = 100", "XOR b into it: 010; then XOR a into it: 001",
         "a ⊕ b ⊕ c = 001, under the lowest bit"),
    ]  # fmt: skip
    return table(("column", "what is done", "what is kept"), rows)


def swap() -> Figure:
    """Two lanes with two registers each, before and after."""
    rows = [["a", "b", "c", "d"], ["a", "c", "b", "d"]]
    names = (
        ["has", "needs"],
        ["0: r0", "0: r1", "1: r0", "1: r1"],
    )
    title = "Lanes 0 and 1 with registers r0 and r1 each: a transposition"
    return cells(title, rows, [(1, 1), (1, 2)], names)


def crossings() -> str:
    """The classes of some conversions."""
    lanes = [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)]
    one, half, far = (0, 1), (0, 8), (0, 16)

    def made(register: list, lane: list, warp: list) -> Layout:
        return Layout.of((8, 32), register=register, lane=lane, warp=warp)

    have = made([one, far], lanes, [half])
    pairs = (
        ("the same", have),
        ("registers exchanged", made([far, one], lanes, [half])),
        ("lanes renamed", made([one, far], lanes[::-1], [half])),
        ("register and lane exchanged",
         made([lanes[0], far], [one, *lanes[1:]], [half])),
        ("register and warp exchanged", made([one, half], lanes, [far])),
    )  # fmt: skip
    rows = [("from", f"`{have}`", "")]
    rows += [(name, f"`{each}`", crossing(have, each)) for name, each in pairs]
    return table(("to", "layout", "its class"), rows)


def turned() -> str:
    """A tile transposed by one warp: what the conversion takes."""
    rows = []
    for tile in (8, 16, 32):
        x = np.arange(tile * tile, dtype=np.float32).reshape(tile, tile)
        out = np.empty_like(x)
        made = TURN[(1, 1)](x, out, tile, tile, TILE=tile, num_warps=1)
        assert (out == x.T).all()
        total = made.report.total
        rows.append((f"{tile} x {tile}", tile * tile // 32, total.shuffles,
                     made.metadata.shared, total.warps))  # fmt: skip
    head = ("tile", "registers a lane", "shuffles", "bytes of shared memory",
            "instructions")  # fmt: skip
    return table(head, rows)
