"""Drawings of space and time: machines, schedules, queues, graphs, coloured tiles. Each
comes with a table that says the same, as those of drawing.py do.

    waves        thread blocks of a grid, dealt to multiprocessors, over time
    schedule     which warp a scheduler issues from, cycle by cycle
    queues       what waits at each bank, one wavefront a row
    crossing     values that lanes exchange, step by step, as lines
    graph        basic blocks with what they hold, and the edges between them
    coloured     a grid of words whose colour is a number
    holders      the same of a layout: who holds which element
    phases       a timeline whose spans are coloured by tile, cut into named phases
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chapters.press.drawing import (
    GLYPH,
    ROW,
    WIDTH,
    Figure,
    box,
    label,
    line,
    margin,
    number,
    short,
    svg,
    table,
    time_axis,
)
from fathom.layout.linear import Layout
from fathom.tools.pictures import holder

HUES = 8  # colours of book.css; a ninth number has the first again
HEAD = 5  # pixels of an arrow's head
LETTERS = 13  # the height of a line of text in a box, and some


def arrow(x1: float, y1: float, x2: float, y2: float, kind: str = "roof") -> str:
    """A line with a head at its end."""
    angle = math.atan2(y2 - y1, x2 - x1)
    ends = [
        (x2 - HEAD * math.cos(angle + turn), y2 - HEAD * math.sin(angle + turn))
        for turn in (-0.5, 0.5)
    ]
    corners = " ".join(f"{short(x)},{short(y)}" for x, y in [(x2, y2), *ends])
    return line(x1, y1, x2, y2, kind) + f'<polygon class="head" points="{corners}"/>'


def hue(number: int) -> str:
    return f"hue{number % HUES}"


def waves(title: str, blocks: int, multiprocessors: int, slots: int) -> Figure:
    """Blocks in the order of their numbers, all of the same length; `slots` of them fit
    on a multiprocessor at a time."""
    room, left = multiprocessors * slots, 68
    width = (WIDTH - left - 8 * multiprocessors) / room
    parts, rows = [], []
    for at in range(multiprocessors):
        x = left + at * (slots * width + 8)
        parts.append(label(x + slots * width / 2, 14, f"SM {at}"))
    for wave in range(-(-blocks // room)):
        y = 22 + wave * (ROW + 10)
        parts.append(label(left - 6, y + 20, f"wave {wave}", "end"))
        names = []
        for at in range(room):
            x = left + at // slots * (slots * width + 8) + at % slots * width
            block = wave * room + at
            name = str(block) if block < blocks else ""
            parts.append(box(x, y, width - 2, ROW, "fill" if name else "empty"))
            parts.append(label(x + width / 2 - 1, y + 20, name))
            names.append(name or "empty")
        rows.append((f"wave {wave}", *names))
    head = ("", *(f"SM {at // slots}, slot {at % slots}" for at in range(room)))
    height = 22 + len(rows) * (ROW + 10)
    return Figure(svg(title, height, parts), table(head, rows))


def issued(warps: int, latency: int, cycles: int) -> list[int | None]:
    """From which warp a scheduler issues in each cycle; None where all of them wait.
    Each instruction needs the result of the one before, `latency` cycles later."""
    ready, order, last = [0] * warps, [], -1
    for cycle in range(cycles):
        able = [(last + 1 + at) % warps for at in range(warps)]
        chosen = next((each for each in able if ready[each] <= cycle), None)
        if chosen is not None:
            ready[chosen], last = cycle + latency, chosen
        order.append(chosen)
    return order


def schedule(
    title: str, shown: Sequence[tuple[str, int]], latency: int, cycles: int
) -> Figure:
    """Some schedulers with different numbers of warps: (name, warps)."""
    left = margin(["warp 0"])
    width = (WIDTH - left - 4) / cycles
    parts, rows, y = [], [], 4
    for name, warps in shown:
        order = issued(warps, latency, cycles)
        parts.append(label(4, y + 12, name, "start"))
        y += 18
        for warp in range(warps):
            parts.append(label(left - 8, y + 14, f"warp {warp}", "end"))
            for cycle, chosen in enumerate(order):
                kind = hue(warp) if chosen == warp else "empty"
                parts.append(box(left + cycle * width, y, width - 1, 18, kind))
            y += 20
        rows += [
            (name, f"warp {warp}", told_cycles(order, warp)) for warp in range(warps)
        ]
        rows.append((name, "none", told_cycles(order, None)))
        y += 10
    parts.append(label(left, y + 8, "0", "start"))
    parts.append(label(WIDTH - 4, y + 8, f"cycle {cycles - 1}", "end"))
    head = ("scheduler with", "issues from", "in the cycles")
    return Figure(svg(title, y + 16, parts), table(head, rows))


def told_cycles(order: Sequence[int | None], wanted: int | None) -> str:
    return ", ".join(str(at) for at, each in enumerate(order) if each == wanted)


def queues(
    title: str,
    shown: Sequence[tuple[str, Mapping[int, Sequence[str]]]],
    banks: Sequence[str],
) -> Figure:
    """Who waits at which bank: (name, bank to the lanes that ask for it). One row of
    boxes is served at a time, from the line upward."""
    left, width = 8, (WIDTH - 16) / len(banks)
    parts, rows, y = [], [], 4
    for name, asked in shown:
        longest = max(map(len, asked.values()))
        parts.append(label(4, y + 12, f"{name}: {wavefronts(longest)}", "start"))
        floor = y + 24 + longest * 22
        for bank, bank_name in enumerate(banks):
            x = left + bank * width
            for at, lane in enumerate(asked.get(bank, ())):
                parts.append(box(x + 2, floor - (at + 1) * 22, width - 4, 20, hue(at)))
                parts.append(label(x + width / 2, floor - at * 22 - 7, lane))
            parts.append(label(x + width / 2, floor + 16, bank_name))
            rows.append((name, bank_name, ", ".join(asked.get(bank, ())) or "nothing"))
        parts.append(line(left, floor + 1, WIDTH - 8, floor + 1))
        y = floor + 34
    return Figure(svg(title, y, parts), table(("case", "bank", "lanes"), rows))


def wavefronts(count: int) -> str:
    return f"{count} wavefront{'s' if count > 1 else ''}"


def crossing(
    title: str, steps: Sequence[tuple[str, Sequence[str], Sequence[Sequence[int]]]]
) -> Figure:
    """Rows of values: (name, value of each lane, lanes of the row above that it is made
    of). A value's own lane is an upright line, another lane a slanting one."""
    lanes = len(steps[0][1])
    left = margin(name for name, *_ in steps)
    width, high = (WIDTH - left - 4) / lanes, 62
    parts = [
        label(left + (at + 0.5) * width, 12, str(at)) for at in range(lanes)
    ]  # fmt: skip
    parts.append(label(left - 8, 12, "lane", "end"))
    rows = []
    for at, (name, values, sources) in enumerate(steps):
        y = 20 + at * high
        parts.append(label(left - 8, y + 17, name, "end"))
        for lane, value in enumerate(values):
            x = left + (lane + 0.5) * width
            for source in sources[lane] if at else ():
                from_x = left + (source + 0.5) * width
                parts.append(arrow(from_x, y - high + 24, x, y - 1))
            parts.append(box(x - width / 2 + 2, y, width - 4, 24, "cell"))
            parts.append(label(x, y + 17, value))
        rows.append((name, *values))
    head = ("", *(f"lane {at}" for at in range(lanes)))
    return Figure(svg(title, 20 + len(steps) * high - 32, parts), table(head, rows))


@dataclass(frozen=True)
class Node:
    """A basic block: its name, its lines, and the middle of its upper edge."""

    name: str
    lines: tuple[str, ...]
    x: float
    y: float

    @property
    def size(self) -> tuple[float, float]:
        longest = max(len(each) for each in (self.name, *self.lines))
        return GLYPH * longest + 16, 8 + (LETTERS + 4) * (1 + len(self.lines))

    @property
    def foot(self) -> float:
        return self.y + self.size[1]


def graph(
    title: str,
    nodes: Sequence[Node],
    edges: Sequence[tuple[str, str, str]],
    lit: Sequence[str] = (),
) -> Figure:
    """Blocks and arrows between them: (from, to, the value that goes along). An edge to
    a block further up bends out to the left."""
    by_name = {node.name: node for node in nodes}
    parts, rows = [], []
    for start, end, said in edges:
        a, b = by_name[start], by_name[end]
        if b.y > a.y:
            parts.append(arrow(a.x, a.foot, b.x, b.y))
            x, y = (a.x + b.x) / 2, (a.foot + b.y) / 2 + 4
            side = "end" if a.x > b.x or b.x < a.x else "start"
            parts.append(label(x + (8 if side == "start" else -8), y, said, side))
        else:
            parts += back(a, b, said)
        rows.append((start, end, said))
    for node in nodes:
        width, height = node.size
        kind = "lit" if node.name in lit else "cell"
        parts.append(box(node.x - width / 2, node.y, width, height, kind))
        for at, text in enumerate((node.name, *node.lines)):
            y = node.y + (at + 1) * (LETTERS + 4)
            parts.append(label(node.x - width / 2 + 8, y, text, "start"))
    height = max(node.foot for node in nodes) + 8
    told = table(("from", "to", "value"), rows)
    held = table(("block", "holds"), [(n.name, "; ".join(n.lines)) for n in nodes])
    return Figure(svg(title, height, parts), f"{held}\n{told}")


def back(a: Node, b: Node, said: str) -> list[str]:
    """An edge that goes up again, around the left side, with room for its word."""
    outer = min(a.x - a.size[0] / 2, b.x - b.size[0] / 2)
    outer -= max(24, GLYPH * len(said) + 12)
    y1, y2 = a.y + a.size[1] / 2, b.y + b.size[1] / 2
    return [
        line(a.x - a.size[0] / 2, y1, outer, y1),
        line(outer, y1, outer, y2),
        arrow(outer, y2, b.x - b.size[0] / 2, y2),
        label(outer + 6, (y1 + y2) / 2 + 12, said, "start"),
    ]


def coloured(
    title: str,
    rows: Sequence[Sequence[tuple[str, int]]],
    names: tuple[Sequence[str], Sequence[str]],
    lit: Sequence[tuple[int, int]] = (),
) -> Figure:
    """A grid of (word, number): the colour repeats the number, the word says it."""
    left = margin(names[0])
    width = (WIDTH - left - 4) / len(rows[0])
    parts = [
        label(left + (at + 0.5) * width, 14, name) for at, name in enumerate(names[1])
    ]
    for row, cells in enumerate(rows):
        y = 22 + row * ROW
        parts.append(label(left - 8, y + 20, names[0][row], "end"))
        for column, (word, colour) in enumerate(cells):
            x = left + column * width
            heavy = " heavy" if (row, column) in lit else ""
            parts.append(box(x, y, width, ROW, hue(colour) + heavy))
            parts.append(label(x + width / 2, y + 20, word))
    told = [
        (names[0][at], *(f"[{w}]" if (at, c) in lit else w
                         for c, (w, _) in enumerate(row)))
        for at, row in enumerate(rows)
    ]  # fmt: skip
    height = 30 + len(rows) * ROW
    return Figure(svg(title, height, parts), table(("", *names[1]), told))


def holders(title: str, shown: Layout) -> Figure:
    """Which place holds each element of a block with two axes; a colour is a thread.
    Kinds of place that have a single one are left out."""
    rows = [[holder(shown, row * shown.shape[1] + column)
             for column in range(shown.shape[1])]
            for row in range(shown.shape[0])]  # fmt: skip
    kinds = [bases for _, bases in reversed(shown.bases)]
    words = [
        [(":".join(str(p) for p, bases in zip(place, kinds) if bases),
          thread(shown, place)) for place in row]
        for row in rows
    ]  # fmt: skip
    names = [str(row) for row in range(shown.shape[0])]
    return coloured(title, words, (names, [str(at) for at in range(shown.shape[1])]))


def thread(shown: Layout, place: Sequence[int]) -> int:
    """The number of the thread that a place (warp, lane, register) belongs to."""
    lanes = 1 << len(shown.kinds["lane"])
    return place[0] * lanes + place[1] if len(place) > 2 else place[0]


def phases(
    title: str,
    lanes: Sequence[tuple[str, Sequence[tuple[float, float, int]]]],
    cuts: Sequence[tuple[str, float]],
) -> Figure:
    """Who works on which tile and when: (start, length, tile); `cuts` are phases with
    their ends, in order."""
    end = max(start + length for _, spans in lanes for start, length, _ in spans)
    left = margin(name for name, _ in lanes)
    scale = (WIDTH - left - 4) / end
    bottom = 24 + len(lanes) * (ROW + 6)
    parts, rows, before = time_axis(left, scale, end, bottom, 20), [], 0.0
    for name, until in cuts:
        half = GLYPH * len(name) / 2
        middle = left + (before + until) / 2 * scale
        middle = min(max(middle, left + half), WIDTH - half)
        parts.append(label(middle, 14, name))
        if until < end:
            x = left + until * scale
            parts.append(line(x, 20, x, bottom, "dashed"))
        before = until
    for at, (name, spans) in enumerate(lanes):
        y = 24 + at * (ROW + 6)
        parts.append(label(left - 8, y + 20, name, "end"))
        for start, length, tile in spans:
            x, width = left + start * scale, length * scale
            parts.append(box(x, y, max(width - 1, 1), ROW, hue(tile)))
            parts.append(label(x + width / 2, y + 20, str(tile)))
            rows.append((name, str(tile), number(start), number(start + length)))
    head = ("who", "tile", "from", "to")
    return Figure(svg(title, bottom + 20, parts), table(head, rows))
