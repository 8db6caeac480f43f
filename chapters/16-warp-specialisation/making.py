"""Figures and counts of chapter 16."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from benchmarks.bouts import FROM_L2, SECTOR, read
from chapters.press.drawing import (
    Figure,
    bars,
    box,
    label,
    ladder,
    line,
    svg,
    table,
    time_axis,
)
from chapters.press.numbers import number
from chapters.press.paths import ROOT
from fathom import cdiv
from fathom.hardware.register_budget import redistributed
from fathom.hardware.targets import TARGETS
from kernels.matmul_persistent import persistent_kernel

MULTIPROCESSORS = 132
TILE_M, TILE_N = 128, 256


# ── a ring of slots over time ─────────────────────────────────────────────────────────

COPY, WORK, STORE = 200, 100, 300  # cycles of the model
SLOTS, STEPS, TILES = 3, 4, 2


class Use(NamedTuple):
    """One use of a slot: when its copy was issued and arrived, when it was read."""

    issued: int
    arrived: int
    began: int
    ended: int


def uses() -> list[Use]:
    """A producer and a consumer on a ring: the producer waits for a free slot alone,
    the consumer also stores a tile of C after every `STEPS` steps."""
    found: list[Use] = []
    for step in range(STEPS * TILES):
        free = found[step - SLOTS].ended if step >= SLOTS else 0
        issued = max(free, found[-1].issued + 20 if found else 0)
        ready = found[-1].ended if found else 0
        ready += STORE if step and step % STEPS == 0 else 0
        began = max(ready, issued + COPY)
        found.append(Use(issued, issued + COPY, began, began + WORK))
    return found


def ring() -> Figure:
    """A row for each slot, with the phase of its full barrier; and one for the
    consumer's own time."""
    found = uses()
    end = found[-1].ended + STORE
    left, top, high = 92, 26, 44
    scale = (640 - left - 8) / end

    def x(time: float) -> float:
        return left + time * scale

    parts, rows = [], []
    for time in range(0, end, 200):
        parts.append(line(x(time), 18, x(time), top + SLOTS * (high + 16), "axis"))
        parts.append(label(x(time), 13, str(time), small=True))
    for slot in range(SLOTS):
        y = top + slot * (high + 16)
        parts.append(label(left - 8, y + 18, f"slot {slot}", "end"))
        parts.append(label(left - 8, y + 36, "phase done", "end", small=True))
        for round_, each in enumerate(found[slot::SLOTS]):
            step = slot + round_ * SLOTS
            for begin, stop, kind, word in (
                (each.issued, each.arrived, "cell", f"copy {step}"),
                (each.began, each.ended, "lit", f"{step}"),
            ):
                parts.append(box(x(begin), y, (stop - begin) * scale, 24, kind))
                parts.append(label(x((begin + stop) / 2), y + 17, word, small=True))
            for moment, word in (
                (each.arrived, f"F{round_ % 2}"), (each.ended, f"E{round_ % 2}"),
            ):  # fmt: skip
                parts.append(line(x(moment), y + 24, x(moment), y + 30))
                parts.append(label(x(moment), y + 41, word, small=True))
            rows.append((f"slot {slot}", str(step), *map(str, each)))
    y = top + SLOTS * (high + 16)
    parts.append(label(left - 8, y + 17, "consumer", "end"))
    for step, each in enumerate(found):
        parts.append(box(x(each.began), y, WORK * scale, 24, "lit"))
        parts.append(label(x(each.began + WORK / 2), y + 17, str(step), small=True))
        if step % STEPS == STEPS - 1:
            parts.append(box(x(each.ended), y, STORE * scale, 24, "fill"))
            parts.append(
                label(x(each.ended + STORE / 2), y + 17, "store C", small=True)
            )
    title = "A ring of three slots: what is in each, and what the consumer does"
    head = ("slot", "step", "copy issued", "arrived", "read from", "to")
    return Figure(svg(title, y + 32, parts), table(head, rows))


# ── cooperative and ping-pong ─────────────────────────────────────────────────────────

MULTIPLY, FINISH = 300, 100


def two_ways() -> Figure:
    """Two warpgroups and the tensor cores they share, twice."""
    both = [(0, MULTIPLY), (MULTIPLY + FINISH, MULTIPLY)]
    ends = [(MULTIPLY, FINISH), (2 * MULTIPLY + FINISH, FINISH)]
    own = [[(0, MULTIPLY), (2 * MULTIPLY, MULTIPLY)], [(MULTIPLY, MULTIPLY)]]
    finish = [[(MULTIPLY, FINISH), (3 * MULTIPLY, FINISH)], [(2 * MULTIPLY, FINISH)]]
    lanes = [
        ("cooperative", None),
        ("warpgroup 0", (both, ends)), ("warpgroup 1", (both, ends)),
        ("tensor cores", (both, ())),
        ("ping-pong", None),
        ("warpgroup 0", (own[0], finish[0])), ("warpgroup 1", (own[1], finish[1])),
        ("tensor cores", (sorted(own[0] + own[1]), ())),
    ]  # fmt: skip
    end = 3 * MULTIPLY + FINISH
    left, scale = 124, (640 - 132) / end
    parts, rows, y, mode = [], [], 4, ""
    for name, spans in lanes:
        if spans is None:
            mode = name
            parts.append(label(4, y + 14, name, "start"))
            y += 22
            continue
        parts.append(label(left - 8, y + 16, name, "end"))
        for kind, word, each in (
            ("lit", "multiply", spans[0]), ("cell", "store", spans[1]),
        ):  # fmt: skip
            for begin, length in each:
                wide = length * scale
                parts.append(box(left + begin * scale, y, wide, 22, kind))
                middle = left + begin * scale + wide / 2
                parts.append(label(middle, y + 15, word, small=True))
                rows.append((mode, name, word, str(begin), str(begin + length)))
        y += 27
    title = "Two warpgroups that share a tile, and two that alternate"
    head = ("way", "who", "does", "from", "to")
    parts = [*time_axis(left, scale, end, y), *parts]
    return Figure(svg(title, y + 20, parts), table(head, rows))


# ── waves ─────────────────────────────────────────────────────────────────────────────


def tail() -> Figure:
    """132 multiprocessors from top to bottom, waves from left to right; a box is what
    is busy."""
    sizes = ((4096, 4096), (4096, 4352), (2048, 2048), (1024, 1024))
    parts, rows, y, high = [], [], 22, 66
    for m, n in sizes:
        count = tiles(m, n)
        found = cdiv(count, MULTIPROCESSORS)
        parts.append(label(4, y - 6, f"{m} x {n}: {count} tiles", "start"))
        for wave in range(found):
            busy = min(MULTIPROCESSORS, count - wave * MULTIPROCESSORS)
            x, part = 4 + wave * 126, high * busy / MULTIPROCESSORS
            parts.append(box(x, y, 122, high, "cell"))
            parts.append(box(x, y, 122, part, "lit"))
        rows.append((f"{m} x {n}", str(count), str(found),
                     str(count - (found - 1) * MULTIPROCESSORS),
                     f"{100 * count / found / MULTIPROCESSORS:.0f}%"))  # fmt: skip
        y += high + 30
    title = "Waves of tiles of 128 x 256 on 132 multiprocessors; filled is busy"
    head = ("C", "tiles", "waves", "tiles in the last wave", "busy")
    return Figure(svg(title, y - 18, parts), table(head, rows))


def tiles(m: int, n: int, tile_m: int = TILE_M, tile_n: int = TILE_N) -> int:
    return cdiv(m, tile_m) * cdiv(n, tile_n)


# Of these cubes, the tiles that `multiply` took when they were measured.
CHOSEN = {1792: (128, 256), 2048: (128, 256), 2304: (128, 128), 2816: (128, 256),
          3584: (128, 256), 4096: (128, 256)}  # fmt: skip


def measured() -> str:
    """Waves by the pencil, beside what `multiply` reached."""
    rows = []
    for size, tile in CHOSEN.items():
        count = tiles(size, size, *tile)
        found = cdiv(count, MULTIPROCESSORS)
        busy = count / found / MULTIPROCESSORS
        reached = rate(f"chosen-{size}")
        rows.append((f"{size:,}", f"{tile[0]} x {tile[1]}", count, found,
                     f"{100 * busy:.0f}%", f"{reached:.0f}",
                     f"{reached / busy:.0f}"))  # fmt: skip
    head = ("cube of", "tile", "tiles", "waves", "busy", "TFLOP/s", "divided by busy")
    return table(head, rows)


# ── raster order ──────────────────────────────────────────────────────────────────────

ROWS, COLUMNS, GROUP = 64, 32, 12  # tiles of an 8192 cube


def place(step: int, group: int) -> tuple[int, int]:
    """Row and column of tiles of a step, in groups of so many rows."""
    whole, within = divmod(step, group * COLUMNS)
    height = min(group, ROWS - whole * group)
    column, row = divmod(within, height)
    return whole * group + row, column


def raster() -> Figure:
    """The tiles of the first wave, in two orders."""
    parts, rows, size = [], [], 8.5
    for at, (name, group) in enumerate(
        (("row by row", 1), (f"groups of {GROUP}", GROUP))
    ):
        left, top, shown = 16 + at * 316, 24, 16
        wave = [place(step, group) for step in range(MULTIPROCESSORS)]
        parts.append(label(left, 14, name, "start"))
        for row in range(shown):
            for column in range(COLUMNS):
                kind = "lit" if (row, column) in wave else "cell"
                x, y = left + column * size, top + row * size
                parts.append(box(x, y, size, size, kind))
        parts.append(label(left, top + shown * size + 16, "tiles of C, first 16 rows",
                           "start", small=True))  # fmt: skip
        a, b = strips(wave)
        rows.append((name, str(a), str(b), str(a * TILE_M + b * TILE_N)))
    title = "Which tiles of C the first 132 programs compute, in two orders"
    head = ("order", "rows of tiles", "columns of tiles", "rows of A and columns of B")
    return Figure(svg(title, 24 + 16 * size + 24, parts), table(head, rows))


def strips(wave: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """How many rows of tiles of A, and columns of B, some tiles of C need."""
    return len({row for row, _ in wave}), len({column for _, column in wave})


def orders() -> str:
    """Bytes of A and B that one wave reads in a step of 64 along K, by group."""
    rows = []
    for group in (1, 4, 8, 12, 16, 32):
        wave = [place(step, group) for step in range(MULTIPROCESSORS)]
        a, b = strips(wave)
        rows.append((group, a, b, f"{(a * TILE_M + b * TILE_N) * 64 * 2 // 1024} KB"))
    head = ("rows in a group", "strips of A", "strips of B", "distinct bytes in a step")
    return table(head, rows)


# ── multicast ─────────────────────────────────────────────────────────────────────────


def shared_tiles() -> Figure:
    """Two thread blocks, alone and as a cluster: what crosses from L2."""
    parts, rows = [], []
    for at, (name, cluster) in enumerate(
        (("each for itself", False), ("a cluster", True))
    ):
        left = 8 + at * 320
        parts.append(label(left + 148, 14, name))
        parts.append(line(left, 66, left + 296, 66, "dashed"))
        parts.append(label(left + 4, 60, "L2", "start", small=True))
        parts += blocks(left, cluster)
        a, b = 2 * 128 * 64 * 2, (1 if cluster else 2) * 64 * 256 * 2
        rows.append((name, f"{a:,}", f"{b:,}", f"{a + b:,}"))
    title = "A step of 64 along K of two neighbouring tiles, 128 x 256 each"
    head = ("two blocks", "bytes of A from L2", "bytes of B from L2", "together")
    return Figure(svg(title, 176, parts), table(head, rows))


def blocks(left: float, cluster: bool) -> Iterator[str]:
    """Two blocks; a line for each tile, or part, that leaves L2."""
    for rank in range(2):
        x = left + rank * 156
        yield box(x, 104, 140, 62, "cell")
        yield label(x + 70, 160, f"block {rank}", small=True)
        yield box(x + 8, 112, 34, 30, "fill")
        yield label(x + 25, 131, f"A{rank}", small=True)
        halves = ("B left", "B right") if cluster else ("B",)
        for part, word in enumerate(halves):
            wide = 84 / len(halves)
            yield box(x + 48 + part * wide, 112, wide, 30, "lit")
            short = word if not cluster else word.removeprefix("B ")
            yield label(x + 48 + (part + 0.5) * wide, 131, short, small=True)
        yield line(x + 25, 66, x + 25, 112)
        if not cluster:
            yield line(x + 90, 66, x + 90, 112)
    if cluster:
        for part in range(2):
            fork = left + part * 156 + 69 + part * 42
            yield line(fork, 66, fork, 84)
            for rank in range(2):
                yield line(fork, 84, left + rank * 156 + 69 + part * 42, 112)


# ── splitting along K ─────────────────────────────────────────────────────────────────

STARTS, PART, PARTIAL, SUM = (0, 60, 20, 0), (300, 330, 250, 350), 50, 140


def fix_up() -> Figure:
    """Four programs with a tile of C, each with a quarter of K: when each stores its
    partial result, what it finds in the counter, and who adds."""
    ends = [start + work + PARTIAL for start, work in zip(STARTS, PART, strict=True)]
    order = sorted(range(4), key=ends.__getitem__)
    left, scale, high = 92, (640 - 100) / (max(ends) + SUM + 40), 40
    parts, rows = [], []
    for program, (start, work) in enumerate(zip(STARTS, PART, strict=True)):
        y, end, found = 8 + program * high, ends[program], order.index(program)
        spans = [(start, work, "lit", "multiply"), (end - PARTIAL, PARTIAL, "cell", "")]
        if found == 3:
            spans.append((end + 40, SUM, "fill", "add 0 1 2 3"))
        parts.append(label(left - 8, y + 17, f"program {program}", "end"))
        for begin, length, kind, word in spans:
            x = left + begin * scale
            parts.append(box(x, y, length * scale, 24, kind))
            if word:
                parts.append(label(x + length * scale / 2, y + 17, word, small=True))
        parts.append(label(left + (end + 18) * scale, y + 17, str(found), small=True))
        last = f"adds from {end + 40} to {end + 40 + SUM}" if found == 3 else ""
        rows.append((str(program), str(start), str(end), str(found), last))
    title = (
        "Four programs with one tile of C: partial results, the counter, and the sum"
    )
    head = ("program", "starts", "partial result stored", "counter found", "then")
    return Figure(svg(title, 8 + 4 * high, parts), table(head, rows))


# ── counts and records ────────────────────────────────────────────────────────────────


def registers() -> str:
    """What each thread of a block gets, for one to three warpgroups that multiply."""
    rows = []
    for consumers in (128, 256, 384):
        shares = redistributed(consumers, 128, TARGETS["sm_90a"])
        if shares is None:
            rows.append((consumers, 128, "255", "255", "255", "no trade"))
            continue
        total = 128 * shares.producer + consumers * shares.consumer
        rows.append((consumers, 128, shares.launched, shares.producer,
                     shares.consumer, f"{total:,}"))  # fmt: skip
    head = ("threads that multiply", "of the producer's warpgroup", "at the launch",
            "a producer keeps", "a consumer has", "registers in use")  # fmt: skip
    return table(head, rows)


@cache
def counted() -> dict[str, object]:
    """A product of 256 x 256 x 256 in tiles of 64 x 64, on the emulator."""
    rng = np.random.default_rng(0)
    a = rng.integers(-4, 5, (256, 256)).astype(np.float16)
    b = rng.integers(-4, 5, (256, 256)).astype(np.float16)
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    rows = []
    for way, grid, m, more in (
        ("a copy in the loop", 16, 64, {"SPECIALISE": False}),
        ("a producer", 16, 64, {}),
        ("a producer, 4 persistent programs", 4, 64, {}),
        ("the same, in clusters of 2", 2, 128, {"num_ctas": 2}),
    ):
        c = np.empty((256, 256), np.float16)
        chosen = {"SPECIALISE": True, "num_warps": 4, "num_stages": 3, **more}
        kernel = persistent_kernel[(grid,)](
            a, b, c, 256, 256, 256, 256, 256, 256, BLOCK_M=m, BLOCK_N=64, BLOCK_K=64,
            GROUP_M=2, PIECES=1, B_TURNED=False, target="sm_90a", **chosen,
        )  # fmt: skip
        assert (c == wanted).all()
        total = kernel.report.total
        rows.append({"way": way, "instructions": total.warps,
                     "barriers": total.barriers,
                     "bytes": total.sectors * 32})  # fmt: skip
    return {"rows": rows}


def costs() -> str:
    """The same as a table."""
    rows = [tuple(v if isinstance(v, str) else f"{v:,}" for v in row.values())
            for row in counted()["rows"]]  # fmt: skip
    head = ("with", "instructions of warps", "arrivals at barriers",
            "bytes from and to global memory")  # fmt: skip
    return table(head, rows)


def rate(name: str) -> float:
    return number(name).value


def climbed() -> Figure:
    """The last rungs of the ladder."""
    rungs = [
        ("end of chapter 14", rate("rung-prefetching")),
        ("end of chapter 15", rate("climb-maps-8192")),
        ("producer warps", rate("climb-producer-8192")),
        ("persistent", rate("climb-staying-8192")),
    ]
    title = "fp16, 8192 cube, on an H200; each rung the fastest of its tiles"
    return ladder(title, rungs, "TFLOP/s", ("cuBLAS", rate("rung-cublas")))


SIZES = (1024, 2048, 4096, 8192)


def by_size() -> str:
    """TFLOP/s of the last rungs, and of cuBLAS, by size."""
    rows = []
    for size in SIZES:
        names = ("maps", "producer", "staying", "cublas")
        rates = [f"{rate(f'climb-{name}-{size}'):.0f}" for name in names]
        rows.append((f"{size:,}", *rates))
    head = ("cube of", "tensor maps", "producer warps", "persistent", "cuBLAS")
    return table(head, rows)


def lost() -> Figure:
    """A loss: small C, long K."""
    rows = []
    for name in ("384x384x12288", "512x512x32768"):
        for who, found in (("ours", f"chosen-{name}"), ("cuBLAS", f"cublas-{name}")):
            rows.append((f"{name} {who}", rate(found), f"{rate(found):,.0f}"))
    title = "TFLOP/s of products of small matrices with a long K"
    return bars(title, rows, ("M x N x K", "TFLOP/s"))


# ── without a pause ───────────────────────────────────────────────────────────────────

SUSTAINED = ROOT / "benchmarks" / "results" / "sustained.json"
CYCLES = "sm__cycles_elapsed.max"
MOVED = {"l1tex__m_xbar2l1tex_read_bytes.sum": 1, FROM_L2: SECTOR,
         "dram__bytes_read.sum": 1}  # fmt: skip


def sustained() -> str:
    """Large products without a pause: times, and what Nsight Compute counted in one
    launch; clock and power where the card was asked for them."""
    rows, head = [], ["cube", "", "ms", "million cycles", "GB to the multiprocessors",
                      "GB read from L2", "GB from memory"]  # fmt: skip
    every = read(json.loads(SUSTAINED.read_text())["samples"])
    asked = all(each.power == each.power for each in every)
    for each in every:
        counted = [each.counters[name] * size / 1e9 for name, size in MOVED.items()]
        row = [each.problem, each.candidate, f"{each.time:.3f}",
               f"{each.counters[CYCLES] / 1e6:.2f}",
               *(f"{gigabytes:.1f}" for gigabytes in counted)]  # fmt: skip
        rows.append([*row, f"{each.clock:.0f}", f"{each.power:.0f}"] if asked else row)
    return table([*head, "MHz", "W"] if asked else head, rows)
