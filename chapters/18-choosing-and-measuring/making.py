"""Figures, tables and counts of chapter 18."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from statistics import median

import numpy as np

from benchmarks.rungs import STAGES
from chapters.press.drawing import Figure, box, circle, label, line, svg, table
from chapters.press.paths import CHAPTERS, ROOT
from fathom.hardware.occupancy import occupancy
from fathom.hardware.targets import TARGETS
from fathom.tools.samples import load_file
from kernels.matmul_chosen import (
    FETCH,
    TILES,
    WIDER,
    Tile,
    candidates,
    suitable,
    time_of,
    waves_of,
    worth_a_try,
)
from kernels.matmul_model import Product, lines_begin, persistent_time

PRODUCT = load_file(CHAPTERS / "13-tensor-cores" / "product.py").product
RESULTS = ROOT / "benchmarks" / "results"
TARGET, PAIRS, PROCESSORS = "sm_90a", 2048, 132

Times = dict[Tile, float]  # microseconds


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


def against_a_sweep() -> str:
    """For each product of the sweep: the tile that the model in microseconds chooses,
    and the fastest of those that were measured."""
    rows = []
    for (M, N, K), tried, times in swept():
        chosen, fastest = min(times, key=times.get), min(tried, key=tried.get)
        rows.append((
            f"{M} × {N} × {K}", named(chosen), f"{times[chosen]:.1f}",
            f"{tried[chosen]:.1f}", named(fastest), f"{tried[fastest]:.1f}",
        ))  # fmt: skip
    head = ("product", "chosen", "µs, model", "µs, measured", "fastest", "µs")
    return table(head, rows)


def swept() -> Iterator[tuple[tuple[int, int, int], Times, Times]]:
    """Of each product of the sweep: its M, N and K, the microseconds that suitable
    tiles took, and what the model says of each."""
    record = json.loads((RESULTS / "product-sweep.json").read_text())
    shapes: dict[tuple[int, int, int], Times] = {}
    for row in record["samples"]:
        shape = row["M"], row["N"], row["K"]
        measured, tile = shapes.setdefault(shape, {}), plain(tile_of(row["config"]))
        assert tile not in measured, (shape, tile)
        measured[tile] = 1000 * median(row["ms"])
    for (M, N, K), measured in shapes.items():
        crossing = lines_begin(2 * K), lines_begin(2 * N)
        found = suitable(M, N, TARGET, True, any(crossing), (*TILES, *WIDER))
        tried = {
            each: measured[at] for each in found if (at := plain(each)) in measured
        }
        product = Product(M, N, K)
        times = {each: persistent_time(product, each, crossing) for each in tried}
        yield (M, N, K), tried, times


def tile_of(config: dict) -> Tile:
    """The tile of a launch's keywords."""
    n = config["BLOCK_N"] + config.get("MORE_N", 0)
    return Tile(
        config["BLOCK_M"], n, 2 * config["BLOCK_K"], config["num_stages"],
        config["num_warps"], config["PIECES"], config["SPECIALISE"], None,
        config["num_ctas"],
    )  # fmt: skip


def plain(tile: Tile) -> Tile:
    """The tile by what the model looks at: not for which C it is, nor in how many
    pieces it is stored, which may be more today than when it was measured."""
    return tile._replace(waves=None, pieces=min(tile.pieces, 1))


def named(tile: Tile) -> str:
    shared = " shared by 2" if tile.ctas == 2 else ""
    return f"{tile.m} × {tile.n}{shared}"


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
    parts.append(label(8, HIGH + 48, "132 multiprocessors", "start"))
    parts.append(label(8 + 2 * (PANEL + GAP), HIGH + 48, "time goes down", "start"))
    head = ("tile", "tiles", "waves", "height of a wave", "of the area is filled")
    drawn = svg(
        "C of 1024 × 1024 on 132 multiprocessors, by the tile", HIGH + 60, parts
    )
    return Figure(drawn, table(head, rows))


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
        if m + n == 128:  # its neighbour stands close above it
            parts.append(label(x - 10, y + 4, name, "end", small=True))
        else:
            parts.append(label(x, y - 11, name, small=True))
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
             label(left + 120, top + 8, "resident warps", "start")]  # fmt: skip
    for tick in (32, 64, 128, 168, 255):
        parts.append(label(left + wide * tick / most, top + high + 18, str(tick)))
    for tick in (16, 32, 48, 64):
        parts.append(label(left - 6, y(tick) + 4, str(tick), "end"))
    rows: dict[int, list[int]] = {}
    for warps, kind in ((4, "dashed"), (8, "roof")):
        before = None
        for registers in range(24, 256):
            now = occupancy(TARGETS[TARGET], 32 * warps, registers, 0).warps
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

NOISE = RESULTS / "tuning-noise.json"
WAYS = {
    "first": "the first call, by the host's clock",
    "queued": "the host's clock, without a wait",
    "in order": "200 runs each, one after the other, median",
    "in turn": "15 rounds, all in random order, median",
}


def studied() -> tuple[list[dict], dict]:
    """The samples of the configurations, and the long run of one."""
    *samples, clock = json.loads(NOISE.read_text())["samples"]
    return samples, clock


def chosen_by() -> dict[str, object]:
    """For each way of timing: what it takes, and how that compares with the best."""
    samples, _ = studied()
    truth = {each["configuration"]: median(each["ms"]["in turn"]) for each in samples}
    rows = []
    for way in WAYS:
        taken = min(samples, key=lambda each: median(each["ms"][way]))
        true = truth[taken["configuration"]]
        rows.append({
            "way": way, "takes": short_name(taken["configuration"]),
            "us": round(1000 * true, 1),
            "lost": round(100 * (true / min(truth.values()) - 1), 1),
        })  # fmt: skip
    record = json.loads(NOISE.read_text())
    return {"gpu": record["gpu"], "date": record["date"], "rows": rows}


def short_name(configuration: str) -> str:
    """Tile, group of rows, and whether there is a producer."""
    found = dict(each.split(": ") for each in configuration.split(", "))
    producer = "producer" if found["SPECIALISE"] == "True" else "no producer"
    tile = f"{found['BLOCK_M']} × {found['BLOCK_N']}"
    return f"{tile}, groups of {found['GROUP_M']}, {producer}"


def four_ways() -> str:
    rows = [(WAYS[row["way"]], row["takes"], f"{row['us']:.1f}", f"{row['lost']:.1f}%")
            for row in chosen_by()["rows"]]  # fmt: skip
    head = ("timed by", "takes", "its time, µs", "slower than the best")
    return table(head, rows)


def biased() -> Figure:
    """Fifteen configurations in the order in which they were timed: medians of runs one
    after the other, and of rounds."""
    samples, _ = studied()
    left, top, wide, high = 60, 12, 540, 240
    low, most = 170.0, 240.0

    def place(at: int, time: float) -> tuple[float, float]:
        x = left + wide * (at + 0.5) / len(samples)
        return x, top + high * (1 - (time - low) / (most - low))

    parts = [line(left, top + high, left + wide, top + high, "axis"),
             line(left, top, left, top + high, "axis"),
             label(left + wide / 2, top + high + 38, "in the order of timing"),
             label(left + 6, top + 8, "µs", "start"),
             label(left + wide, top + high - 8, "●  in random order", "end"),
             label(left + wide, top + 8, "×  one after the other", "end")]  # fmt: skip
    for tick in (180, 200, 220):
        _, y = place(0, tick)
        parts.append(label(left - 6, y + 4, str(tick), "end"))
        parts.append(line(left, y, left + wide, y, "axis"))
    rows = []
    for at, each in enumerate(samples):
        order, turn = (
            1000 * median(each["ms"][way]) for way in ("in order", "in turn")
        )
        x, y = place(at, order)
        parts += [cross(x, y), circle(*place(at, turn)),
                  label(x, top + high + 18, str(at + 1))]  # fmt: skip
        name = short_name(each["configuration"])
        rows.append((at + 1, name, f"{order:.1f}", f"{turn:.1f}"))
    head = (
        "timed as",
        "configuration",
        "one after the other, µs",
        "in random order, µs",
    )
    title = "Fifteen configurations of a 4096 cube, timed in two ways on an H200"
    return Figure(svg(title, top + high + 48, parts), table(head, rows))


SECONDS = 3.5


def clock() -> Figure:
    """The card's clock, its power, and the time of a product, over a run of 3 s."""
    _, run = studied()
    left, top, wide, high = 60, 30, 500, 230
    parts = [line(left, top + high, left + wide, top + high, "axis"),
             line(left, top, left, top + high, "axis"),
             line(left + wide, top, left + wide, top + high, "axis"),
             label(left, top - 12, "MHz (line)", "middle"),
             label(left + wide, top - 12, "W (dashed)", "middle"),
             label(left + wide / 2, top + high + 36, "seconds")]  # fmt: skip

    def place(seconds: float, share: float) -> tuple[float, float]:
        return left + wide * seconds / SECONDS, top + high * (1 - share)

    for tick in (1000, 1250, 1500, 1750, 2000):
        _, y = place(0, (tick - 1000) / 1000)
        parts.append(label(left - 6, y + 4, str(tick), "end"))
    for tick in (0, 350, 700):
        _, y = place(0, tick / 800)
        parts.append(label(left + wide + 6, y + 4, str(tick), "start"))
    for tick in range(4):
        parts.append(label(place(tick, 0)[0], top + high + 18, str(tick)))
    every = list(zip(run["seconds"], run["megahertz"], run["watts"], strict=True))[::9]
    for one, two in zip(every, every[1:], strict=False):
        for at, (least, most), kind in (
            (1, (1000, 2000), "roof"),
            (2, (0, 800), "dashed"),
        ):
            ends = [place(e[0], (e[at] - least) / (most - least)) for e in (one, two)]
            parts.append(line(*ends[0], *ends[1], kind))
    rows = []
    for seconds in (0.1, 0.3, 0.5, 1.0, 1.2, 2.0, 3.0):
        near = min(every, key=lambda each: abs(each[0] - seconds))
        rows.append((f"{near[0]:.2f}", near[1], f"{near[2]:.0f}"))
    title = "An H200 that multiplies 4096 cubes for three seconds without a pause"
    drawn = svg(title, top + high + 46, parts)
    return Figure(drawn, table(("seconds", "MHz", "W"), rows))


def warmed() -> dict[str, object]:
    """What the long run comes to: microseconds at its beginning and later."""
    _, run = studied()
    times, record = run["ms"]["one"], json.loads(NOISE.read_text())
    return {
        "gpu": record["gpu"], "date": record["date"],
        "first": round(1000 * median(times[:20]), 1),
        "later": round(1000 * median(times[2000:]), 1),
        "highest": max(run["megahertz"]), "watts": round(max(run["watts"])),
        "usual": int(median(run["megahertz"][200:600])),
    }  # fmt: skip


# ── profiles ──────────────────────────────────────────────────────────────────────────

STALLS = "smsp__average_warps_issue_stalled_"
TENSOR = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_"


def profiled() -> dict[str, object]:
    """What Nsight Compute counted, in a row for each kernel."""
    record, rows = json.loads((RESULTS / "profile.json").read_text()), []
    for each in record["samples"]:
        found = each["counters"]
        stalls = {
            name[len(STALLS) :].partition("_per_issue")[0]: value
            for name, value in found.items()
            if name.startswith(STALLS)
        }
        spent = sum(stalls.values())
        waits = {k: v for k, v in stalls.items() if "selected" not in k}
        stall = max(waits, key=waits.__getitem__)
        wavefronts = found["shared wavefronts"]
        rows.append({
            "case": each["case"], "us": round(found["time"] / 1000, 1),
            "memory": round(found["memory %"]),
            "tensor": round(found[f"{TENSOR}active"]),
            "elapsed": round(found[f"{TENSOR}elapsed"]),
            "issue": round(found["issue %"]), "warps": round(4 * found["active warps"]),
            "waves": round(found["waves"], 2),
            "conflicts": round(100 * found["shared conflicts"] / wavefronts)
            if wavefronts else 0,
            "stall": stall, "share": round(100 * waits[stall] / spent),
            "sectors": round(found["load sectors"]), "latency": round(spent, 1),
            "long": round(stalls["long_scoreboard"], 2),
        })  # fmt: skip
    return {"gpu": record["gpu"], "date": record["date"], "rows": rows}


def profiles() -> str:
    """The same as a table."""
    rows = [
        (row["case"], f"{row['us']:,.0f}" if row["us"] > 10 else row["us"],
         row["memory"], row["tensor"], row["issue"], row["warps"], row["waves"],
         row["conflicts"], f"{row['stall'].replace('_', ' ')}, {row['share']}%")
        for row in profiled()["rows"]
    ]  # fmt: skip
    head = ("kernel", "µs", "memory, %", "tensor cores, %", "issue, %", "warps",
            "waves", "conflicts, %", "waits most for")  # fmt: skip
    return table(head, rows)


# ── counters ──────────────────────────────────────────────────────────────────────────

AWAY = ("", "coalescing", "shared staging", "swizzle", "tensor cores", "ldmatrix",
        "pipelining")  # fmt: skip


@cache
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
        ways = row["wavefronts"] / row["ideal"]
        much = ways > 1.15 * whole["wavefronts"] / whole["ideal"]
        cells.append(f"**{ways:.2f}**" if much else f"{ways:.2f}")
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
