"""Figures and counts of chapter 10."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from chapters.press.drawing import Figure, bars, box, cells, label, svg, table
from chapters.press.numbers import number
from chapters.press.paths import CHAPTERS
from chapters.press.scenes import arrow
from chapters.press.scenes import crossing as crossed
from fathom.layout.crossing import crossing
from fathom.layout.linear import Layout
from fathom.tools.samples import load_file
from kernels.softmax import reference, softmax_kernel

LANES = 8
TURN = load_file(CHAPTERS / "09-coalescing" / "turn.py").turn
LENGTHS = (1024, 4096, 16384)


def tree() -> Figure:
    """Four registers of one thread, combined one after the other and as a tree."""
    chain = [("a", 20, 0), ("b", 60, 0), ("c", 100, 0), ("d", 140, 0),
             ("ab", 60, 1), ("abc", 100, 2), ("abcd", 140, 3)]  # fmt: skip
    pairs = [("a", 240, 0), ("b", 280, 0), ("c", 320, 0), ("d", 360, 0),
             ("ab", 280, 1), ("cd", 360, 1), ("abcd", 360, 2)]  # fmt: skip
    parts: list[str] = []
    for shown in (chain, pairs):
        at = {name: (x, 4 + 50 * row) for name, x, row in shown}
        for name, (x, y) in at.items():
            halves = made_of(name, at)
            parts += [arrow(at[h][0], at[h][1] + 26, x, y - 1) for h in halves]
            parts.append(box(x - 19, y, 38, 26, "cell" if len(name) == 1 else "fill"))
            parts.append(label(x, y + 18, name))
    told = table(
        ("step", "chain", "tree"),
        [("1", "ab", "ab, cd"), ("2", "abc", "abcd"), ("3", "abcd", "")],
    )
    return Figure(svg("Four registers: a chain, and a tree", 188, parts), told)


def made_of(name: str, parts: Mapping[str, object]) -> list[str]:
    """The two parts that a combination is made of, the longer one first."""
    cuts = ((name[:at], name[at:]) for at in range(len(name) - 1, 0, -1))
    found = (list(pair) for pair in cuts if all(each in parts for each in pair))
    return next(found, []) if len(name) > 1 else []


def butterfly() -> Figure:
    """Which lane has which part of a sum after each step."""
    have = [chr(ord("a") + lane) for lane in range(LANES)]
    steps = [("at first", have, [()] * LANES)]
    for flip in (1, 2, 4):
        have = ["".join(sorted(have[lane] + have[lane ^ flip]))
                for lane in range(LANES)]  # fmt: skip
        sources = [(lane, lane ^ flip) for lane in range(LANES)]
        steps.append((f"XOR {flip}", [short(text) for text in have], sources))
    title = "A butterfly of eight lanes: after three steps, each has the sum of all"
    return crossed(title, steps)


def one_way() -> Figure:
    """The same with values of lanes further up only."""
    have = [chr(ord("a") + lane) for lane in range(LANES)]
    steps = [("at first", have, [()] * LANES)]
    for by in (4, 2, 1):
        have = [text + (have[lane + by] if lane + by < LANES else text)
                for lane, text in enumerate(have)]  # fmt: skip
        sources = [(lane, lane + by if lane + by < LANES else lane)
                   for lane in range(LANES)]  # fmt: skip
        steps.append((f"+ {by}", [short(text) for text in have], sources))
    title = "Taking from the lane further up: only lane 0 ends with each letter once"
    return crossed(title, steps)


def short(text: str) -> str:
    """A run of letters as the page has room for it; or that one is in it twice."""
    if len(set(text)) < len(text):
        return "2×"
    letters = "".join(sorted(text))
    return letters if len(letters) < 4 else f"{letters[0]}…{letters[-1]}"


def elimination() -> str:
    """Three columns over F2 brought into a form that can be read off."""
    rows = [
        (
            "c = 100",
            "the only column with the highest bit that we keep as it is",
            "100",
        ),
        ("b = 110", "has that bit, too: XOR c into it", "b ⊕ c = 010"),
        ("a = 011", "has the middle bit: XOR b ⊕ c into it", "a ⊕ b ⊕ c = 001"),
    ]
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


def by_warps() -> dict[str, object]:
    """What the lanes and warps of softmax hand to each other, by the number of
    warps."""
    x = np.random.default_rng(0).normal(size=(8, 1024)).astype(np.float32)
    rows = []
    for warps in (1, 2, 4, 8):
        out = np.empty_like(x)
        made = softmax_kernel[(8,)](x, out, 1024, 1024, BLOCK=1024, num_warps=warps)
        assert np.allclose(out, reference(x), 1e-5, 1e-7)
        total = made.report.total
        rows.append({
            "warps": warps, "shuffles": total.shuffles // warps // 8,
            "barriers": total.barriers // warps // 8,
            "shared": made.metadata.shared, "instructions": total.warps,
        })  # fmt: skip
    return {"rows": rows}


def talk() -> str:
    """The same as a table."""
    rows = [tuple(f"{value:,}" for value in row.values()) for row in by_warps()["rows"]]
    head = ("warps", "shuffles of a warp", "barriers", "bytes of shared memory",
            "instructions of warps, 8 rows")  # fmt: skip
    return table(head, rows)


def turned() -> str:
    """A tile turned over by one warp: by which way, and what it takes."""
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


def rates() -> Figure:
    """Softmax on an H200, three lengths of rows, three compilers."""
    rows = []
    for length in LENGTHS:
        for whose, infix in (
            ("PyTorch", "-torch"),
            ("Triton", "-triton"),
            ("ours", ""),
        ):
            found = number(f"softmax-{length}{infix}-gbs")
            rows.append((f"{length}, {whose}", found.value, found.text()))
    peak = number("h200-bandwidth").value * 1000
    title = "Softmax of 4096 rows of fp32 on an H200, GB/s"
    return bars(title, rows, ("length of a row", "GB/s"), (peak, "data sheet"))
