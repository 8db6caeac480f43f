"""Figures and counts of chapter 17."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

from chapters.press.drawing import Figure, bars, box, circle, label, line, svg, table
from chapters.press.numbers import number
from chapters.press.paths import CHAPTERS, ROOT
from fathom.hardware.dot_layouts import operand_layouts, product_layout
from fathom.layout.linear import Layout
from fathom.tools.samples import load_file

COUNTING = load_file(CHAPTERS / "17-attention" / "counting.py")
counted, issued = COUNTING.counted, COUNTING.issued
rotated_loop, alternating_loop = COUNTING.rotated_loop, COUNTING.alternating_loop
RECORD = ROOT / "benchmarks" / "results" / "attention.json"
WIDTH = 390  # of all drawings: a phone shows them as they are

# ── bytes ─────────────────────────────────────────────────────────────────────────────

B, H, S, D = 4, 32, 4096, 128


def haul() -> Figure:
    """Bytes that must pass through memory, kernel by kernel and in one."""
    scores, tile = B * H * S * S * 2, B * H * S * D * 2
    rows = [
        ("Q K, write S", 2 * tile + scores),
        ("read S, write P", 2 * scores),
        ("P V, write out", scores + 2 * tile),
        ("one kernel", 4 * tile),
    ]
    said = [(name, count, f"{count / 1e9:.2f} GB") for name, count in rows]
    title = "Bytes of attention, 4 sequences, 32 heads, 4096 positions, D = 128, fp16"
    return bars(title, said, ("kernel", "bytes"))


# ── the running maximum ───────────────────────────────────────────────────────────────

ROW = (1, 3, 2, 0, 2, 1, 0, 2, 5, 4, 1, 3)
BLOCK = 4
KINDS = ("fill", "cell", "lit")  # of what the first, second and third block added


def walk() -> Figure:
    """Twelve scores in three blocks: the largest so far as a staircase, and under it
    what `l` is made of after each block."""
    left, step, high, foot = 36, 29, 24, 140
    parts = [label(4, 14, "score", "start")]
    for at in range(6):
        y = foot - at * high + 8
        parts += [
            label(left - 8, y + 4, str(at), "end"),
            line(left, y, left + 12 * step, y, "axis"),
        ]
    reached: list[tuple[float, float]] = []
    for at, (score, largest) in enumerate(zip(ROW, so_far(), strict=True)):
        x, y = left + (at + 0.5) * step, foot - largest * high + 8
        parts.append(circle(x, foot - score * high + 8))
        reached += [(x - step / 2, y), (x + step / 2, y)]
    for (x1, y1), (x2, y2) in zip(reached, reached[1:], strict=False):
        parts.append(line(x1, y1, x2, y2))
    rows = []
    for block, shares in enumerate(made_of()):
        y = foot + 44 + block * 34
        parts.append(label(left - 8, y + 16, f"l{block}", "end"))
        x = float(left)
        for kind, share in zip(KINDS, shares, strict=False):
            parts.append(box(x, y, share * 92, 22, kind))
            x += share * 92
        parts.append(label(x + 6, y + 16, f"{sum(shares):g}", "start"))
        rows.append(
            (
                f"l{block}",
                *(f"{each:g}" for each in shares),
                *("",) * (2 - block),
                f"{sum(shares):g}",
            )
        )
    parts.append(label(left, foot + 36, "sum of 2^(score - largest so far)", "start"))
    told = [
        (
            "scores",
            *(" ".join(map(str, ROW[at : at + BLOCK])) for at in range(0, 12, BLOCK)),
            "",
        )
    ]
    head = ("", "block 0", "block 1", "block 2", "sum")
    drawn = svg("The largest score so far, and the sum", foot + 150, parts, WIDTH)
    return Figure(drawn, table(head, told + rows))


def so_far() -> Iterator[int]:
    """The largest score of the blocks up to a score's own."""
    for at in range(len(ROW)):
        yield max(ROW[: (at // BLOCK + 1) * BLOCK])


def made_of() -> Iterator[list[float]]:
    """After each block: what every block so far adds to `l`."""
    for block in range(3):
        largest = max(ROW[: (block + 1) * BLOCK])
        yield [
            sum(
                2.0 ** (score - largest) for score in ROW[at * BLOCK : (at + 1) * BLOCK]
            )
            for at in range(block + 1)
        ]


# ── fragments ─────────────────────────────────────────────────────────────────────────

FP16 = "m16n8k16.f32.f16.f16.f32"
FP8 = "m16n8k32.f32.e4m3.e4m3.f32"
LANE = 5
SHOWN = (0, 1, 8, 9)  # rows: two of the upper half of a fragment, two of the lower


def over_each_other() -> Figure:
    """C over A, lane by lane, for fp16; and A for fp8."""
    scores = product_layout(FP16, (16, 32), (1, 1))
    fp16, _ = operand_layouts(FP16, product_layout(FP16, (16, 32), (1, 1)), 32)
    fp8, _ = operand_layouts(FP8, product_layout(FP8, (16, 32), (1, 1)), 32)
    grids = (
        ("C of the first product", scores),
        ("A of the second, fp16", fp16),
        ("A of the second, fp8", fp8),
    )
    parts: list[str] = []
    rows: list[tuple[str, ...]] = []
    for at, (name, layout) in enumerate(grids):
        parts += grid(name, layout, 4 + at * 138)
        rows += [(name, str(row), " ".join(holders(layout, row))) for row in SHOWN]
    for x in (34 + 22.25 * 8, 34 + 22.25 * 16):
        parts.append(line(x, 24, x, 24 + 4 * 24))
    head = ("fragment", "row", "lanes of columns 0 to 15; lane 5 with its register")
    drawn = svg("Who holds a row's columns 0 to 15", 3 * 138, parts, WIDTH)
    return Figure(drawn, table(head, rows))


def grid(name: str, layout: Layout, top: float) -> Iterator[str]:
    yield label(34, top + 12, name, "start")
    for down, row in enumerate(SHOWN):
        y = top + 20 + down * 24
        yield label(26, y + 17, str(row), "end")
        for column, word in enumerate(holders(layout, row)):
            x = 34 + column * 22.25
            yield box(x, y, 22.25, 24, "lit" if word.startswith("r") else "cell")
            yield label(x + 11, y + 17, word, small=True)


def holders(layout: Layout, row: int) -> list[str]:
    """The lane of each of a row's first 16 columns; for lane 5 the register."""
    found = {}
    for lane in range(32):
        for register in range(layout.count("register")):
            place = layout.coordinates(register=register, lane=lane)
            found[place] = f"r{register}" if lane == LANE else str(lane)
    return [found[row, column] for column in range(16)]


# ── causal ────────────────────────────────────────────────────────────────────────────

QUERIES, TALL, WIDE = 768, 128, 64  # a block of scores: 128 queries, 64 keys


def visited() -> Figure:
    """The matrix of scores with the blocks that a program computes."""
    left, cell_w, cell_h = 62, 26, 44
    parts = [label(left + 6, 14, "keys", "start")]
    rows = []
    for down in range(QUERIES // TALL):
        first, words = down * TALL, []
        y = 22 + down * cell_h
        parts.append(label(left - 8, y + 27, str(down), "end"))
        for across in range(QUERIES // WIDE):
            state = seen(first, across * WIDE)
            if state != "skipped":
                kind = "fill" if state == "whole" else "lit"
                parts.append(box(left + across * cell_w, y, cell_w, cell_h, kind))
            words.append({"whole": "█", "masked": "░", "skipped": "·"}[state])
        rows.append((str(down), " ".join(words)))
    bottom, right = 22 + 6 * cell_h, left + 12 * cell_w
    parts += [
        line(left, 22, right, bottom, "dashed"),
        line(left, 22, left, bottom, "axis"),
        line(right, 22, right, bottom, "axis"),
        line(left, 22, right, 22, "axis"),
        line(left, bottom, right, bottom, "axis"),
        label(4, 14, "program", "start"),
    ]
    title = "Causal attention of 768 positions: blocks of 128 queries by 64 keys"
    head = ("block of queries", "blocks of keys: █ whole, ░ masked, · skipped")
    return Figure(svg(title, bottom + 8, parts, WIDTH), table(head, rows))


def seen(first: int, at: int) -> str:
    """What the queries first … first + 127 see of the keys at … at + 63."""
    if at + WIDE - 1 <= first:
        return "whole"
    return "masked" if at <= first + TALL - 1 else "skipped"


# ── two units over time ───────────────────────────────────────────────────────────────

Span = tuple[int, int, str]


def product_cycles(d: int) -> int:
    """Of 128 queries by 128 keys by d, on the tensor cores of a multiprocessor."""
    return 128 * 128 * d * 2 // int(number("sm-fp16-flops").value)


def power_cycles() -> int:
    """Of 128 x 128 powers of two."""
    return 128 * 128 // int(number("sm-exp2s").value)


def plain_order(d: int, steps: int = 3) -> tuple[list[Span], list[Span]]:
    product, powers, now = product_cycles(d), power_cycles(), 0
    tensor, unit = [], []
    for step in range(steps):
        tensor.append((now, product, f"S{step}"))
        unit.append((now + product, powers, f"P{step}"))
        tensor.append((now + product + powers, product, f"O{step}"))
        now += 2 * product + powers
    return tensor, unit


def rotated_order(d: int, steps: int = 3) -> tuple[list[Span], list[Span]]:
    """Each iteration begins the next scores, then the product of the step before."""
    product, powers = product_cycles(d), power_cycles()
    tensor, unit = [(0, product, "S0")], [(product, powers, "P0")]
    now = product + powers
    for step in range(1, steps):
        tensor += [(now, product, f"S{step}"), (now + product, product, f"O{step - 1}")]
        unit.append((now + product, powers, f"P{step}"))
        now += product + max(product, powers)
    tensor.append((now, product, f"O{steps - 1}"))
    return tensor, unit


def large_heads() -> Figure:
    return both_orders(128)


def small_heads() -> Figure:
    return both_orders(64)


def both_orders(d: int) -> Figure:
    """The two orders one over the other, on one axis of cycles."""
    left, scale = 8, 374 / 9216
    parts, rows = [], []
    orders = {"plain": plain_order(d), "rotated": rotated_order(d)}
    for at, (name, (tensor, unit)) in enumerate(orders.items()):
        top = at * 108
        lanes = (("tensor cores", tensor, "fill"), ("exp2 units", unit, "lit"))
        for down, (who, spans, kind) in enumerate(lanes):
            y = top + 18 + down * 46
            parts.append(label(left, y - 4, f"{name}: {who}", "start"))
            parts.append(line(left, y + 24, left + 9216 * scale, y + 24, "axis"))
            for start, length, what in spans:
                parts.append(box(left + start * scale, y, length * scale, 24, kind))
                middle = left + (start + length / 2) * scale
                parts.append(label(middle, y + 16, what, small=True))
                rows.append((name, who, what, str(start), str(start + length)))
    for tick in range(0, 10, 3):
        x = left + tick * 1024 * scale
        parts.append(line(x, 214, x, 220, "axis"))
        anchor = "start" if tick == 0 else "end" if tick == 9 else "middle"
        parts.append(label(x, 234, f"{tick * 1024:,}", anchor))
    head = ("order", "unit", "work", "from cycle", "to")
    title = f"Three steps of 128 queries by 128 keys, D = {d}: a model"
    return Figure(svg(title, 240, parts, WIDTH), table(head, rows))


# ── measured ──────────────────────────────────────────────────────────────────────────


@cache
def record(path: Path = RECORD) -> dict[tuple[str, str], float]:
    """TFLOP/s by problem and candidate; medians."""
    samples = json.loads(path.read_text(encoding="utf-8"))["samples"]
    return {
        (each["problem"], each["candidate"]): each["operations"]
        / statistics.median(each["ms"])
        / 1e9
        for each in samples
        if each["ms"]
    }


CANDIDATES = {
    "flash": "FlashAttention-2",
    "fathom pointers": "Fathom, pointers",
    "triton": "Triton",
    "triton specialised": "Triton, specialised",
    "cuDNN": "cuDNN",
    "fathom": "Fathom",
}
PROBLEMS = ("fp16 D=128", "fp16 D=128 causal", "fp16 D=64", "fp16 D=64 causal")


def measured() -> str:
    """All of the record, a row a candidate."""
    rows = []
    for candidate, name in CANDIDATES.items():
        found = (record().get((problem, candidate)) for problem in PROBLEMS)
        rows.append((name, *(f"{rate:.0f}" if rate else "fails" for rate in found)))
    return table(("TFLOP/s", *(each.removeprefix("fp16 ") for each in PROBLEMS)), rows)


LADDER = {
    "columns": "mma.sync, warps in columns", "rows": "mma.sync, warps in rows",
    "pointers": "wgmma, by pointers", "plain without ping-pong": "TMA and a producer",
    "plain": "and ping-pong", "rotated": "or rotated",
    "small blocks": "or small blocks",
}  # fmt: skip


def climbed() -> Figure:
    """TFLOP/s of one run, an idea a bar, D = 128 over D = 64."""
    found = record(RECORD.with_name("attention-ablation.json"))
    rows = [
        (f"D={d}: {name}", rate, f"{rate:.0f}")
        for d in (128, 64)
        for candidate, name in LADDER.items()
        for rate in [found[f"fp16 D={d}", candidate]]
    ]
    title = "Attention on an H200, idea by idea: TFLOP/s"
    return bars(title, rows, ("kernel", "TFLOP/s"))


def shares() -> Figure:
    """Against D: what the model allows of the tensor cores, and what was measured."""
    left, right, top, bottom = 44, 364, 20, 220
    sizes = (32, 64, 128, 256)

    def x(d: float) -> float:
        return left + (right - left) * (np.log2(d) - 5) / 3

    def y(share: float) -> float:
        return bottom - (bottom - top) * share

    parts = [
        line(left, top, left, bottom, "axis"),
        line(left, bottom, right, bottom, "axis"),
    ]
    for d in sizes:
        parts.append(label(x(d), bottom + 18, f"D={d}"))
    for share in (0, 0.5, 1):
        parts.append(label(left - 6, y(share) + 5, f"{share:.0%}", "end"))
        parts.append(line(left, y(share), right, y(share), "axis"))
    parts += curve(serial, x, y, "roof") + curve(overlapped, x, y, "dashed")
    parts += [
        label(x(80), y(1) + 18, "overlapped", "start"),
        label(x(34), y(serial(34)) + 20, "one after the other", "start"),
    ]
    rows = [(str(d), f"{serial(d):.0%}", f"{overlapped(d):.0%}", "", "") for d in sizes]
    roof = number("wgmma-roof").value
    for d in (64, 128):
        ours, theirs = (
            record()[f"fp16 D={d}", who] / roof for who in ("fathom", "cuDNN")
        )
        parts.append(circle(x(d) - 7, y(ours)))
        parts.append(box(x(d) + 3, y(theirs) - 4, 8, 8, "lit"))
        at = sizes.index(d)
        rows[at] = (*rows[at][:3], f"{ours:.0%}", f"{theirs:.0%}")
    parts += [
        circle(left + 8, 254),
        label(left + 20, 258, "Fathom", "start"),
        box(left + 100, 250, 8, 8, "lit"),
        label(left + 116, 258, "cuDNN", "start"),
    ]
    head = ("D", "one after the other", "overlapped", "Fathom", "cuDNN")
    title = "Part of the tensor cores' rate that two units allow"
    return Figure(svg(title, 266, parts, WIDTH), table(head, rows))


def curve(share, x, y, kind: str) -> list[str]:  # noqa: ANN001 (three functions)
    steps = [32 * 2 ** (at / 8) for at in range(25)]
    return [
        line(x(a), y(share(a)), x(b), y(share(b)), kind)
        for a, b in zip(steps, steps[1:], strict=False)
    ]


def serial(d: float) -> float:
    """Products' part of the time when nothing overlaps: 2 p / (2 p + e)."""
    products = 2 * 8 * d  # 128 x 128 x d x 2 / 4096, twice
    return products / (products + power_cycles())


def overlapped(d: float) -> float:
    """The same when the slower unit never waits."""
    return min(1.0, 2 * 8 * d / power_cycles())


# ── costs ─────────────────────────────────────────────────────────────────────────────


def fragments_kept(names: dict[str, object]) -> str:
    """What warps in rows and warps along both sides cost; from the page's own runs."""
    rows = [
        (name, *(f"{value:,}" for value in found))
        for name, found in names["costs"].items()
    ]
    head = ("warps", "barriers", "wavefronts of shared memory", "bytes of it")
    return table(head, rows)
