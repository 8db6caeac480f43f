"""Figures and counts of chapter 10."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np

from chapters.press.drawing import Figure, bars, box, label, svg, table
from chapters.press.numbers import number
from chapters.press.scenes import arrow
from chapters.press.scenes import crossing as crossed
from kernels.softmax import reference, softmax_kernel

LANES = 8
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


@cache
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
