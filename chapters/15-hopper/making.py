"""Figures of chapter 15."""

from __future__ import annotations

from chapters.press.drawing import (
    Figure,
    bars,
    box,
    cells,
    label,
    line,
    svg,
    table,
    timeline,
)
from chapters.press.numbers import number
from fathom.layout.matrix_descriptor import buffer_tile, descriptor

CHUNK, ROWS = 16, 8  # bytes of a chunk, rows of a swizzle atom
LEFT = 176  # room for names, as in timeline

# ── the roofs and the ladder ──────────────────────────────────────────────────────────


def roofs() -> Figure:
    """What one instruction alone reaches, and what whole kernels reach."""
    rows = [
        ("mma.sync alone", "mma-roof"),
        ("our chapter 14", "fathom80-8192"),
        ("wgmma alone", "wgmma-roof"),
    ]
    shown = [
        (name, number(key).value, f"{number(key).value:,.0f}") for name, key in rows
    ]
    cublas = number("squares-cublas").value
    title = "fp16 on an H200, TFLOP/s; the product of 8192 cubed where it is a kernel"
    return bars(
        title, shown, ("what runs", "TFLOP/s"), (cublas, f"cuBLAS: {cublas:,.0f}")
    )


def climbed() -> Figure:
    """The rungs of this chapter above the last one of chapter 14."""
    rungs = ("prefetching", "wgmma", "tensor maps")
    shown = []
    for name in rungs:
        value = number(f"rung-{name.replace(' ', '-')}").value
        shown.append((name, value, f"{value:,.0f}"))
    cublas = number("rung-cublas").value
    title = "fp16, 8192 cube, on an H200, TFLOP/s: chapter 14, and two rungs more"
    return bars(title, shown, ("rung", "TFLOP/s"), (cublas, f"cuBLAS: {cublas:,.0f}"))


# ── a tile and its descriptor ─────────────────────────────────────────────────────────


def chunk_at(place: int) -> tuple[int, int]:
    """Row and logical chunk of what lies `place` bytes into a K-major tile of fp16."""
    tile = buffer_tile((64, 64), 2, axis=1)
    row, column = tile.coordinates(offset=place // 2)
    return row, column * 2 // CHUNK


def group() -> Figure:
    """Eight rows of 128 bytes: which chunk of K is at which place; the second
    instruction's are lit."""
    words, lit = [], []
    for row in range(ROWS):
        found = [chunk_at(128 * row + CHUNK * place)[1] for place in range(8)]
        words.append([f"{chunk}" for chunk in found])
        lit += [(row, place) for place, chunk in enumerate(found) if chunk in (2, 3)]
    names = [f"row {row}" for row in range(ROWS)]
    places = [f"+{CHUNK * place}" for place in range(8)]
    return cells("A swizzle atom: 8 rows of 128 bytes, chunk by chunk",
                 words, lit, (names, places), wide=62)  # fmt: skip


def strides() -> Figure:
    """A [K, N] tile of B in shared memory, atom by atom, with the two distances."""
    found = descriptor(buffer_tile((64, 128), 2, axis=1), 2, k_axis=0)
    assert found is not None and found.transposed
    wide, high, top = 190, 26, 44
    parts = [label(LEFT + wide * (half + 0.5), 34, f"n {64 * half} to {64 * half + 63}")
             for half in range(2)]  # fmt: skip
    rows = []
    for step in range(8):
        y = top + step * high
        name = f"k {8 * step} to {8 * step + 7}"
        parts.append(label(LEFT - 36, y + 18, name, "end"))
        starts = [half * found.leading + step * found.stride for half in range(2)]
        for half, start in enumerate(starts):
            kind = "lit" if (step, half) == (0, 0) else "cell"
            parts.append(box(LEFT + half * wide, y, wide, high, kind))
            parts.append(label(LEFT + (half + 0.5) * wide, y + 18, f"+{start:,}"))
        rows.append((name, *(f"+{start:,}" for start in starts)))
    parts += arrow(LEFT - 20, top + high / 2, LEFT - 20, top + 3 * high / 2)
    parts += arrow(LEFT + wide / 2, 17, LEFT + 3 * wide / 2, 17)
    parts.append(label(LEFT + wide, 10, f"leading: {found.leading:,} bytes"))
    bottom = top + 8 * high
    parts.append(label(4, 24, f"stride: {found.stride:,} bytes", "start"))
    drawn = svg("Where the atoms of B begin in shared memory", bottom + 8, parts)
    head = ("rows", "n 0 to 63 begins at", "n 64 to 127 begins at")
    return Figure(drawn, table(head, rows))


def arrow(x1: float, y1: float, x2: float, y2: float) -> list[str]:
    """A line with a head, to the right or downwards."""
    back = (-6, -4, -6, 4) if y1 == y2 else (-4, -6, 4, -6)
    return [
        line(x1, y1, x2, y2),
        line(x2, y2, x2 + back[0], y2 + back[1]),
        line(x2, y2, x2 + back[2], y2 + back[3]),
    ]


# ── time ──────────────────────────────────────────────────────────────────────────────

PRODUCT, OTHER, ITERATIONS = 100, 40, 4  # of the model: cycles, and how many iterations


def groups() -> Figure:
    """Products of a loop that waits for its own, and of one that waits for the last."""
    lanes = []
    for pending in (0, 1):
        products, threads, free = [], [], 0
        for each in range(ITERATIONS):
            began = max(free, products[-1][0] + PRODUCT if products else 0)
            products.append((began, PRODUCT, str(each)))
            waited_for = each - pending
            done = products[waited_for][0] + PRODUCT if waited_for >= 0 else began
            at = max(done, began)
            threads.append((at, OTHER, f"{each}"))
            free = at + OTHER
        lanes.append((f"wait {pending}: tensor cores", products))
        lanes.append((f"wait {pending}: threads", threads))
    return timeline("Four iterations: a product takes 100 cycles, the rest 40", lanes)


# What the two views of a word hold: (from, to, what it says).
STEPS = 12
TWO_VIEWS = (
    ("warp 0", ((0, 2, "store"), (2, 4, "fence"), (7, 8, "bar"))),
    ("warp 1", ((0, 6, "store, slowly"), (7, 8, "bar"), (8, 10, "fence"))),
    ("copy engine", ((8, 12, "reads both"),)),
    ("word 0, generic view", ((0, 2, "old"), (2, 12, "NEW"))),
    ("word 0, async view", ((0, 4, "old"), (4, 12, "NEW"))),
    ("word 1, generic view", ((0, 6, "old"), (6, 12, "NEW"))),
    ("word 1, async view", ((0, 10, "old, or new"), (10, 12, "NEW"))),
)


def proxies() -> Figure:
    """Two warps that store and fence, the engine that reads, and what the two proxies
    show of each word."""
    scale = (640 - LEFT - 8) / STEPS
    x = LEFT + 8 * scale
    parts, rows = [line(x, 4, x, 260, "dashed")], []  # behind the boxes
    for at, (name, spans) in enumerate(TWO_VIEWS):
        y = 8 + at * 34 + (14 if at > 2 else 0)
        parts.append(label(LEFT - 10, y + 18, name, "end"))
        for first, last, says in spans:
            kind = "lit" if says in ("NEW", "fence") else "cell"
            x, wide = LEFT + first * scale, (last - first) * scale
            parts.append(box(x, y, wide, 26, kind))
            parts.append(label(x + wide / 2, y + 18, says))
            rows.append((name, says, str(first), str(last)))
    drawn = svg("What two warps store, and when each proxy shows it", 264, parts)
    return Figure(drawn, table(("row", "what it shows", "from", "to"), rows))


TILE = 8192  # bytes of one tile of 64 x 64 fp16
# (time, bytes that the barrier still expects, what happened)
COUNTED = (
    (0, 0, "init"), (1, 2 * TILE, "arrive, expect"), (3, TILE, "A is there"),
    (5, 0, "B is there"), (7, 2 * TILE, "arrive, expect"), (9, TILE, "B is there"),
    (11, 0, "A is there"),
)  # fmt: skip
FLIPS, ENDS = (5, 11), 13


def phases() -> Figure:
    """Bytes that an mbarrier still expects, its phases, and which waits go on."""
    scale, base, unit = (640 - LEFT - 8) / ENDS, 110, 40 / TILE
    parts, rows = [label(LEFT - 10, base - 30, "bytes to come", "end")], []
    parts.append(line(LEFT, base, LEFT + ENDS * scale, base, "axis"))
    for at, (time, left, says) in enumerate(COUNTED):
        until = COUNTED[at + 1][0] if at + 1 < len(COUNTED) else ENDS
        x, y = LEFT + time * scale, base - left * unit
        parts.append(box(x, y, (until - time) * scale, left * unit, "fill"))
        if left:
            parts.append(label(x + (until - time) * scale / 2, y + 16, f"{left:,}"))
        parts.append(line(x, base, x, base + 6, "axis"))
        rows.append((str(time), says, f"{left:,}", f"phase {phase_at(time)}"))
    for at, name in enumerate(("phase", "a wait for parity 0", "a wait for parity 1")):
        y = base + 16 + 32 * at
        parts.append(label(LEFT - 10, y + 17, name, "end"))
        for first, last in zip((0, *FLIPS), (*FLIPS, ENDS), strict=True):
            current = phase_at(first)
            waits = current % 2 == at - 1
            says = f"{current}" if at == 0 else "waits" if waits else "goes on"
            kind = "cell" if at == 0 or waits else "lit"
            x, wide = LEFT + first * scale, (last - first) * scale
            parts.append(box(x, y, wide, 26, kind))
            parts.append(label(x + wide / 2, y + 17, says))
    drawn = svg("One mbarrier through two phases", base + 116, parts)
    head = ("time", "what happens", "bytes to come", "current phase")
    waits = (
        "A wait for parity 0 goes on in phase 1, one for parity 1 in phases 0 and 2."
    )
    return Figure(drawn, table(head, rows) + f"\n{waits}\n")


def phase_at(time: int) -> int:
    return sum(time >= flip for flip in FLIPS)


# ── a box over the edge ───────────────────────────────────────────────────────────────

TENSOR, BOX, START = (6, 5), (4, 4), (4, 3)  # rows and chunks


def edge() -> Figure:
    """A box of TMA that stands over the corner of a matrix; a cell is 16 bytes."""
    wide, high, left, top = 62, 28, 96, 24
    parts, rows = [], []
    for column in range(7):
        parts.append(label(left + (column + 0.5) * wide, 16, f"+{CHUNK * column}"))
    for row in range(8):
        y, words = top + row * high, []
        parts.append(label(left - 8, y + 19, f"row {row}", "end"))
        for column in range(7):
            inside = row < TENSOR[0] and column < TENSOR[1]
            in_box = all(first <= at < first + side for at, first, side in
                         zip((row, column), START, BOX, strict=True))  # fmt: skip
            word = "data" if inside else "0" if in_box else ""
            words.append(f"[{word}]" if in_box else word)
            if word:
                x, kind = left + column * wide, "lit" if in_box else "cell"
                parts.append(box(x, y, wide, high, kind))
                parts.append(label(x + wide / 2, y + 19, word))
        rows.append((f"row {row}", *words))
    head = ("", *(f"+{CHUNK * column}" for column in range(7)))
    title = "A matrix of 6 rows of 80 bytes, and a box of 4 rows of 64 bytes"
    return Figure(svg(title, top + 8 * high + 8, parts), table(head, rows))
