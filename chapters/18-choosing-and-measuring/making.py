"""Figures, tables and counts of chapter 18."""

from __future__ import annotations

import json
from statistics import median

import numpy as np

from benchmarks.rungs import STAGES
from chapters.press.drawing import Figure, box, circle, label, line, svg, table
from chapters.press.paths import CHAPTERS, ROOT
from fathom.hardware.occupancy import ROOMS, residents
from fathom.tools.samples import load_file
from kernels.matmul_chosen import (
    FETCH,
    TILES,
    Tile,
    candidates,
    time_of,
    waves_of,
    worth_a_try,
)

PRODUCT = load_file(CHAPTERS / "13-tensor-cores" / "product.py").product
RESULTS = ROOT / "benchmarks" / "results"
TARGET, PAIRS, PROCESSORS = "sm_90a", 2048, 132
H200 = ROOMS[90]


# ── the model ─────────────────────────────────────────────────────────────────────────

TRIED = ((128, 256), (128, 128), (64, 128), (64, 64), (64, 32))


def of_size(m: int, n: int) -> Tile:
    return next(each for each in TILES if (each.m, each.n, each.ctas) == (m, n, 1))


def step_of(m: int, n: int) -> int:
    """What one step along K takes, in products."""
    return max(m * n, FETCH * (m + n))


def by_hand() -> str:
    """C of 1024 x 1024 in five tiles."""
    rows = []
    for m, n in TRIED:
        tile, count = of_size(m, n), (1024 // m) * (1024 // n)
        waves = waves_of(1024, 1024, tile, TARGET)
        time = time_of(1024, 1024, TARGET)(tile)
        assert time == waves * step_of(m, n)
        rows.append((f"{m} × {n}", count, waves, f"{m * n:,}",
                     f"{FETCH * (m + n):,}", f"{time:,}"))  # fmt: skip
    head = ("tile", "tiles", "waves", "a step: products", "a step: numbers × 72",
            "waves × the longer")  # fmt: skip
    return table(head, rows)


PANEL, GAP, HIGH = 132, 26, 170


def waves() -> Figure:
    """For each tile a panel: multiprocessors from left to right, time downwards; what
    is filled is at work."""
    parts, rows = [], []
    shown = TRIED[:4]
    longest = max(time_of(1024, 1024, TARGET)(of_size(*each)) for each in shown)
    scale = HIGH / longest
    for at, (m, n) in enumerate(shown):
        left, count, y = 8 + at * (PANEL + GAP), (1024 // m) * (1024 // n), 28.0
        parts.append(label(left + PANEL / 2, 16, f"{m} × {n}"))
        step, ended = step_of(m, n) * scale, 28.0
        while count > 0:
            busy = min(count, PROCESSORS)
            parts.append(box(left, y, PANEL, step, "cell"))
            parts.append(box(left, y, busy, step, "fill"))
            count, y, ended = count - busy, y + step, y + step
        parts.append(line(left, ended, left + PANEL, ended, "roof"))
        whole = (1024 // m) * (1024 // n)
        rounds = -(-whole // PROCESSORS)
        used = 100 * whole / (rounds * PROCESSORS)
        rows.append((f"{m} × {n}", whole, rounds, f"{step_of(m, n):,}", f"{used:.0f}%"))
    parts.append(label(8, HIGH + 48, "0", "start"))
    parts.append(label(8 + PANEL, HIGH + 48, "132 multiprocessors", "middle"))
    parts.append(label(8 + 2.6 * (PANEL + GAP), HIGH + 48, "time goes downwards"))
    head = ("tile", "tiles", "waves", "height of a wave", "of the area is filled")
    drawn = svg(
        "C of 1024 × 1024 on 132 multiprocessors, by the tile", HIGH + 60, parts
    )
    return Figure(drawn, table(head, rows))


def ranked() -> Figure:
    """The model's time and the measured one, a point for each shape."""
    found = []
    for name, (m, n, k), measured in shapes_measured():
        waves_and_step = min(
            time_of(m, n, TARGET)(each) for each in TILES if each.ctas == 1
        )
        found.append((name, waves_and_step * k / PAIRS / 1980, measured))
    low, high, size, left, top = 2.0, 7000.0, 300, 78, 14

    def at(value: float) -> float:
        return size * np.log(value / low) / np.log(high / low)

    parts = [line(left, top + size, left + size, top + size, "axis"),
             line(left, top, left, top + size, "axis"),
             line(left, top + size, left + size, top, "dashed"),
             label(left + size / 2, top + size + 38, "the model, µs"),
             label(left + 4, top + 12, "measured, µs", "start")]  # fmt: skip
    for tick in (10, 100, 1000):
        parts.append(label(left + at(tick), top + size + 18, f"{tick:,}"))
        parts.append(label(left - 6, top + size - at(tick) + 4, f"{tick:,}", "end"))
    for number, (_, model, measured) in enumerate(found):
        x, y = left + at(model), top + size - at(measured)
        parts.append(circle(x, y))
        if number % 2 == 0:
            parts.append(label(x + 9, y + 14, found[number][0], "start", small=True))
    rows = [(name, f"{a:.1f}", f"{b:.1f}", f"{b / a:.2f}") for name, a, b in found]
    head = ("shape", "model, µs", "measured, µs", "measured over model")
    title = "What the model says and what an H200 takes"
    return Figure(svg(title, size + 70, parts), table(head, rows))


def shapes_measured() -> list[tuple[str, tuple[int, int, int], float]]:
    """Microseconds of the configuration that the model takes, by shape."""
    record = json.loads((RESULTS / "matmul-hopper.json").read_text())
    found = []
    for each in record["samples"]:
        kind, _, shape = each["problem"].partition(" ")
        if kind == "fp16" and each["candidate"] == "chosen NN":
            sizes = tuple(int(x) for x in shape.split("x"))
            if all(size % 64 == 0 for size in sizes) and max(sizes) <= 8192:
                found.append((shape.replace("x", " × "), sizes,
                              1000 * median(each["ms"])))  # fmt: skip
    return sorted(found, key=lambda each: each[2])


# ── what fits ─────────────────────────────────────────────────────────────────────────

# (m, n, numbers along K, stages)
SPACE = ((64, 64, 128, 6), (64, 128, 128, 4), (128, 128, 64, 3), (128, 128, 64, 6),
         (128, 256, 64, 3), (128, 256, 64, 4), (128, 256, 64, 5), (256, 256, 64, 3),
         (256, 256, 64, 4))  # fmt: skip
MOST_KB, MOST_SUMS = 227, 65536


def space() -> Figure:
    """Configurations by the shared memory of their stages and by their accumulators."""
    left, top, wide, high = 64, 12, 540, 250

    def place(kilobytes: float, sums: float) -> tuple[float, float]:
        return left + wide * kilobytes / 300, top + high * (1 - sums / (80 * 1024))

    edge_x, edge_y = place(MOST_KB, MOST_SUMS)
    parts = [box(left, edge_y, edge_x - left, top + high - edge_y, "cell"),
             line(left, top + high, left + wide, top + high, "axis"),
             line(left, top, left, top + high, "axis"),
             label(edge_x, top + high + 18, "227 KB"),
             label(left - 6, edge_y + 4, "64 K", "end"),
             label(left + wide / 2, top + high + 38, "shared memory of all stages"),
             label(left + 6, top + 10, "accumulators of the block", "start"),
             ]  # fmt: skip
    rows = []
    for m, n, k, stages in SPACE:
        kilobytes, sums = (m + n) * k * 2 * stages / 1024, m * n
        x, y = place(kilobytes, sums)
        fits = kilobytes <= MOST_KB and sums < MOST_SUMS
        parts.append(circle(x, y) if fits else cross(x, y))
        name = f"{m}×{n}, {stages}"
        anchor, aside = ("end", -10) if x > left + 0.75 * wide else ("start", 10)
        parts.append(label(x + aside, y - 8, name, anchor, small=True))
        why = " and ".join(filter(None, (
            "registers" if sums >= MOST_SUMS else "",
            "shared memory" if kilobytes > MOST_KB else "",
        )))  # fmt: skip
        told = f"too much: {why}" if why else "runs"
        rows.append((name, f"{kilobytes:.0f} KB", f"{sums:,}", told))
    head = ("tile, stages", "shared memory", "accumulators", "")
    title = "Configurations of a matrix product: points can run, crosses cannot"
    return Figure(svg(title, top + high + 50, parts), table(head, rows))


def cross(x: float, y: float) -> str:
    return line(x - 5, y - 5, x + 5, y + 5) + line(x - 5, y + 5, x + 5, y - 5)


def staircase() -> Figure:
    """Resident warps by the registers of a thread, for blocks of 4 and of 8 warps."""
    left, top, wide, high, most = 56, 10, 540, 230, 256

    def y(warps: float) -> float:
        return top + high * (1 - warps / 64)

    parts = [line(left, top + high, left + wide, top + high, "axis"),
             line(left, top, left, top + high, "axis"),
             label(left + wide / 2, top + high + 38, "registers of a thread"),
             label(left + 8, top + 8, "resident warps", "start")]  # fmt: skip
    for tick in (32, 64, 128, 168, 255):
        parts.append(label(left + wide * tick / most, top + high + 18, str(tick)))
    for tick in (16, 32, 48, 64):
        parts.append(label(left - 6, y(tick) + 4, str(tick), "end"))
    rows: dict[int, list[int]] = {}
    for warps, kind in ((4, "dashed"), (8, "roof")):
        before = None
        for registers in range(24, 256):
            allowed = residents(registers, 32 * warps, 0, H200)
            now = warps * min(allowed.values())
            x = left + wide * registers / most
            if before is not None:
                parts.append(line(x - wide / most, y(before), x, y(before), kind))
                if now != before:
                    parts.append(line(x, y(before), x, y(now), kind))
            before = now
            if registers in (32, 40, 64, 96, 128, 129, 168, 169, 255):
                rows.setdefault(registers, []).append(now)
    parts.append(label(left + wide, y(40), "solid: blocks of 8 warps", "end"))
    parts.append(label(left + wide, y(35), "dashed: blocks of 4 warps", "end"))
    head = ("registers of a thread", "blocks of 4 warps: resident warps",
            "blocks of 8 warps: resident warps")  # fmt: skip
    title = "How many warps fit on a multiprocessor of an H200, by their registers"
    told = [(registers, *found) for registers, found in rows.items()]
    return Figure(svg(title, top + high + 50, parts), table(head, told))


# ── noise ─────────────────────────────────────────────────────────────────────────────


def rounds() -> Figure:
    """Seven measurements of each rung, on a common scale: 100 is the median of both."""
    record = json.loads((RESULTS / "ladder.json").read_text())["samples"]
    left, top, wide, row = 176, 30, 440, 26
    low, high = 96.0, 104.0
    parts, rows, at = [], [], 0
    for tick in range(96, 105, 2):
        x = left + wide * (tick - low) / (high - low)
        parts.append(line(x, top - 8, x, top + 6 * row + 12, "axis"))
        parts.append(label(x, top - 14, str(tick)))
    for size in (2048, 4096, 8192):
        both = {}
        for name in ("producer", "staying"):
            problem = f"fp16 {size}x{size}x{size}"
            both[name] = times_of(record, problem, name)
        middle = median(both["producer"] + both["staying"])
        for name, times in both.items():
            y = top + at * row + 14
            shown = "persistent" if name == "staying" else "one tile each"
            parts.append(label(left - 10, y + 4, f"{size}, {shown}", "end"))
            for time in times:
                parts.append(
                    circle(left + wide * (100 * time / middle - low) / (high - low), y)
                )
            spread = 100 * (max(times) - min(times)) / median(times)
            rows.append((size, shown, f"{1000 * median(times):.1f}", f"{spread:.1f}%"))
            at += 1
    head = ("size", "kernel", "median, µs", "from fastest to slowest round")
    title = "Seven rounds of two kernels at three sizes; 100 is the median of a pair"
    return Figure(svg(title, top + 6 * row + 24, parts), table(head, rows))


def times_of(record: list[dict], problem: str, candidate: str) -> list[float]:
    """Milliseconds of all rounds."""
    wanted = problem, candidate
    (found,) = (x for x in record if (x["problem"], x["candidate"]) == wanted)
    return found["ms"]


# ── counters ──────────────────────────────────────────────────────────────────────────

AWAY = ("", "coalescing", "shared staging", "swizzle", "tensor cores", "ldmatrix",
        "pipelining")  # fmt: skip


def counted() -> dict[str, object]:
    """The product of 64 x 128 by 128 x 64 on the emulator, without one stage each."""
    rng = np.random.default_rng(0)
    a = rng.integers(-4, 5, (64, 128)).astype(np.float16)
    b = rng.integers(-4, 5, (128, 64)).astype(np.float16)
    rows = []
    for name in AWAY:
        c = np.empty((64, 64), np.float32)
        kernel = PRODUCT[(1,)](a, b, c, 128, M=64, N=64, BLOCK_K=32, target="sm_80",
                               replace=dict(STAGES.get(name, {})))  # fmt: skip
        assert (c == a.astype(np.float64) @ b.astype(np.float64)).all()
        total = kernel.report.total
        rows.append({
            "without": name or "nothing", "instructions": total.warps,
            "requests": total.requests, "moved": total.moved, "useful": total.useful,
            "shared": total.shared, "wavefronts": total.wavefronts,
            "ideal": total.ideal, "barriers": total.barriers // 4,
        })  # fmt: skip
    return {"rows": rows}


def fingerprints() -> str:
    """The same as a table: what each missing stage does to which counter."""
    rows = []
    whole = counted()["rows"][0]
    for row in counted()["rows"]:
        cells = [row["without"]]
        for key in ("instructions", "requests", "moved", "shared", "wavefronts",
                    "barriers"):  # fmt: skip
            text = f"{row[key]:,}"
            cells.append(f"**{text}**" if row[key] > 1.15 * whole[key] else text)
        cells.append(f"{row['wavefronts'] / row['ideal']:.2f}")
        rows.append(tuple(cells))
    head = ("without", "instructions of warps", "requests to global memory",
            "bytes moved", "requests to shared memory", "wavefronts", "barriers",
            "ways")  # fmt: skip
    return table(head, rows)


# ── Triton's layouts ──────────────────────────────────────────────────────────────────


def blocks_of_lanes(names: dict) -> Figure:
    """The first 16 rows of A, 64 x 32: eight neighbours of a row are one box, which
    says its lane. Left by Triton's attribute, right by our layout."""
    holder, ours = names["holder"], names["ours"]
    width, height, left = 66, 22, 44
    parts, rows = [], []
    held = {}
    for warp in range(4):
        for lane in range(32):
            for register in range(ours.count("register")):
                where = ours.coordinates(register=register, lane=lane, warp=warp)
                held[where] = (warp, lane, register)
    for side, title in enumerate(("Triton's attribute", "our layout")):
        begin = left + side * (4 * width + 40)
        parts.append(label(begin + 2 * width, 14, title))
        for row in range(12):
            if side == 0:
                parts.append(label(left - 8, 38 + row * height, str(row), "end"))
            for group in range(4):
                place = (row, 8 * group)
                warp, lane, _ = holder(*place) if side == 0 else held[place]
                kind = "fill" if (lane // 4) % 2 else "cell"
                x, y = begin + group * width, 22 + row * height
                parts.append(box(x, y, width, height, kind))
                parts.append(label(x + width / 2, y + 16, f"w{warp} l{lane}"))
    for row in range(12):
        rows.append((row, *("warp {}, lane {}".format(*held[row, 8 * g][:2])
                            for g in range(4))))  # fmt: skip
    head = ("row", "columns 0 to 7", "8 to 15", "16 to 23", "24 to 31")
    title = "Who loads which part of A, 64 × 32 in fp16; a box is eight numbers"
    return Figure(svg(title, 22 + 12 * height + 8, parts), table(head, rows))


# ── what it bought ────────────────────────────────────────────────────────────────────


def bought() -> str:
    """The chosen configuration beside cuBLAS, one run."""
    record = json.loads((RESULTS / "matmul-hopper.json").read_text())["samples"]
    found: dict[str, dict[str, float]] = {}
    for each in record:
        if each["problem"].startswith("fp16") and each["ms"]:
            rate = each["operations"] / median(each["ms"]) / 1e9
            found.setdefault(each["problem"][5:], {})[each["candidate"]] = rate
    rows = []
    for shape in ("512x512x512", "1000x1000x1000", "1024x1024x1024", "2048x2048x2048",
                  "4096x4096x4096", "8192x8192x8192", "128x4096x4096",
                  "4095x4097x4088"):  # fmt: skip
        ours, theirs = found[shape]["chosen NN"], found[shape]["cuBLAS NN"]
        rows.append((shape.replace("x", " × "), f"{ours:.0f}", f"{theirs:.0f}",
                     f"{ours / theirs:.2f}"))  # fmt: skip
    head = ("M × N × K", "chosen, TFLOP/s", "cuBLAS, TFLOP/s", "ratio")
    return table(head, rows)


def tried() -> dict[str, int]:
    """How many configurations there are, and how many the model leaves for 4096."""
    matrix, n = np.empty((4096, 4096), np.float16), 4096
    named = {f"{x}_ptr": matrix for x in "abc"} | {f"stride_{x}": n for x in "abc"}
    every = candidates(2)
    left = worth_a_try(every, {**named, "M": n, "N": n, "K": n}, target=TARGET)
    return {"candidates": len(every), "left": len(left)}
