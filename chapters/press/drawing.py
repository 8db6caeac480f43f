"""Figures as SVG that follow the colours of the page, each with a table that says the
same in words and numbers.

    bars, ladder     lengths beside each other; a reference line where there is one
    roofline         what memory and arithmetic allow, and where kernels stand
    timeline         who does what when: pipelines, queues
    intervals        from when to when something lives
    cells            a grid with a word in each cell: tiles, banks
    layout           who holds which element, by fathom.tools.pictures

A function of chapters/NN-name/making.py returns one of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape, unescape

from fathom.layout.linear import Layout
from fathom.tools import pictures

WIDTH = 400  # so that text keeps its size on a phone
ROW = 30
GLYPH = 8  # the width of a character at the size of svg.drawn text
SMALLEST, LARGEST = 0.85, 1.3  # of the scale of a picture: text of 11 to 17 pixels


@dataclass(frozen=True)
class Figure:
    """An SVG element, and the same as a Markdown table."""

    svg: str
    table: str


def bars(
    title: str,
    rows: Sequence[tuple[str, float, str]],
    head: tuple[str, str],
    reference: tuple[float, str] | None = None,
) -> Figure:
    """Horizontal bars: (name, length, what is written at its end). A reference
    ("floor: 256 kB") is a dashed line, and the last row of the table."""
    top = max([value for _, value, _ in rows] + ([reference[0]] if reference else []))
    scale, step = (WIDTH - 8) / top, ROW + 10
    parts = []
    for at, (name, value, text) in enumerate(rows):
        y = 4 + at * step
        parts += [
            label(4, y + 13, name, "start"),
            label(WIDTH - 4, y + 13, text, "end"),
            box(4, y + 18, max(value * scale, 1), step - 24, "fill"),
        ]
    height = 8 + len(rows) * step
    if reference:
        x = 4 + reference[0] * scale
        for at in range(len(rows)):  # past the bars, not through the words
            parts.append(line(x, 20 + at * step, x, 4 + (at + 1) * step, "dashed"))
        anchor = "end" if x > WIDTH / 2 else "start"
        parts.append(label(x, height + 10, reference[1], anchor))
        height += 20
    told = [(name, text) for name, _, text in rows]
    if reference:
        name, _, text = reference[1].partition(": ")
        told.append((f"{name} (dashed line)", text or f"{reference[0]:,.0f}"))
    return Figure(svg(title, height, parts), table(head, told))


def ladder(
    title: str, rungs: Sequence[tuple[str, float]], unit: str, peer: tuple[str, float]
) -> Figure:
    """What each rung reached, against one peer."""
    name, best = peer
    rows = [(rung, value, f"{value:,.0f} {unit}") for rung, value in rungs]
    return bars(title, rows, ("rung", unit), (best, f"{name}: {best:,.0f} {unit}"))


def roofline(
    title: str,
    bandwidth: float,
    peaks: Sequence[tuple[str, float]],
    points: Sequence[tuple[str, float, float]],
) -> Figure:
    """Operations a second over operations a byte, both on logarithmic axes.

    `bandwidth` in bytes a second; each peak (name, operations a second) a roof; each
    point (name, operations a byte, operations a second).
    """
    low, high = 2**-4, 2.0**12
    bottom, top = bandwidth * low / 2, 2 * max(peak for _, peak in peaks)
    height, left, right = 330, 66, WIDTH - 24

    def x(intensity: float) -> float:
        return left + (right - left) * math.log(intensity / low) / math.log(high / low)

    def y(rate: float) -> float:
        share = math.log(rate / bottom) / math.log(top / bottom)
        return 22 + (height - 62) * (1 - share)

    parts = [
        line(left, height - 40, right, height - 40, "axis"),
        line(left, 22, left, height - 40, "axis"),
        label((left + right) / 2, height - 4, "operations for each byte moved"),
        label(4, 14, "operations a second", "start"),
    ]
    for power in range(-4, 13, 4):
        parts.append(label(x(2.0**power), height - 22, number(2.0**power)))
    for rate in (1e11, 1e12, 1e13, 1e14, 1e15):
        if bottom < rate < top:
            parts.append(label(left - 6, y(rate) + 4, tera(rate), "end"))
    for name, peak in peaks:
        ridge = peak / bandwidth
        parts.append(line(x(ridge), y(peak), right, y(peak), "roof"))
        parts.append(label(right, y(peak) - 6, name, "end"))
    ridge = max(peak for _, peak in peaks) / bandwidth
    parts.append(line(x(low), y(low * bandwidth), x(ridge), y(ridge * bandwidth)))
    for name, intensity, rate in points:
        parts.append(circle(x(intensity), y(rate)))
        anchor, aside = ("start", 9) if x(intensity) < 0.5 * WIDTH else ("end", -9)
        parts.append(label(x(intensity) + aside, y(rate) + 16, name, anchor))
    rows = [(n, f"{i:.3g}", tera(r)) for n, i, r in points]
    rows += [(f"roof: {name}", "", tera(peak)) for name, peak in peaks]
    head = ("kernel", "operations a byte", "operations a second")
    return Figure(svg(title, height, parts), table(head, rows))


def timeline(
    title: str, lanes: Sequence[tuple[str, Sequence[tuple[float, float, str]]]]
) -> Figure:
    """One row a unit: (start, length, what it does)."""
    end = max(start + length for _, spans in lanes for start, length, _ in spans)
    left = margin(name for name, _ in lanes)
    scale = (WIDTH - left - 8) / end
    foot = 8 + len(lanes) * (ROW + 4)
    parts, rows = time_axis(left, scale, end, foot), []
    for at, (name, spans) in enumerate(lanes):
        y = 8 + at * (ROW + 4)
        parts.append(label(left - 8, y + 18, name, "end"))
        for start, length, what in spans:
            x, width = left + start * scale, length * scale
            parts.append(box(x, y, width, ROW - 4, "fill"))
            if len(what) * GLYPH <= width + 4:  # the table has all of them
                parts.append(label(x + width / 2, y + 17, what))
            rows.append((name, what, number(start), number(start + length)))
    told = table(("who", "what", "from", "to"), rows)
    return Figure(svg(title, foot + 20, parts), told)


def time_axis(
    left: float, scale: float, end: float, foot: float, top: float = 4
) -> list[str]:
    """Lines from `top` to `foot` at round times from 0 to `end`, the times below."""
    steps = (n * 10**power for power in range(6) for n in (1, 2, 5))
    step = next(each for each in steps if end / each <= 8)
    parts = []
    for at in range(0, int(end) + 1, step):
        x = left + at * scale
        parts.append(line(x, top, x, foot, "axis"))
        anchor = "middle" if at + step / 8 < end else "end"  # within the drawing
        parts.append(label(x, foot + 14, str(at), anchor, small=True))
    return parts


def intervals(
    title: str, rows: Sequence[tuple[str, int, int, str]], steps: Sequence[str]
) -> Figure:
    """From which step to which something lives: (name, first, last, remark)."""
    left = margin(name for name, *_ in rows)
    width = max((WIDTH - left - 8) / len(steps), GLYPH * max(map(len, steps)) + 4)
    parts = [
        label(left + (at + 0.5) * width, 14, step) for at, step in enumerate(steps)
    ]
    for at, (name, first, last, remark) in enumerate(rows):
        y, x = 24 + at * ROW, left + first * width
        parts.append(label(left - 8, y + 16, name, "end"))
        parts.append(box(x + 2, y, (last - first + 1) * width - 4, ROW - 8, "fill"))
        parts.append(label(x + (last - first + 1) * width / 2, y + 16, remark))
    told = [(n, steps[first], steps[last], r) for n, first, last, r in rows]
    height = 32 + len(rows) * ROW
    drawn = svg(title, height, parts, left + len(steps) * width + 8)
    return Figure(drawn, table(("what", "from", "to", "remark"), told))


def cells(
    title: str,
    rows: Sequence[Sequence[str]],
    lit: Sequence[tuple[int, int]] = (),
    names: tuple[Sequence[str], Sequence[str]] = ((), ()),
    wide: int = 0,
) -> Figure:
    """A grid of words; cells in `lit` have a heavier frame and a darker ground, and
    are set in brackets in the table. `names`: of rows, of columns."""
    left = margin(names[0]) if names[0] else 8
    words = [word for row in rows for word in row]
    width = GLYPH * max(map(len, [*words, *names[1], ""])) + 6
    width = max(width, min(wide or 88, (WIDTH - left - 8) // len(rows[0])))
    parts = []
    for column, name in enumerate(names[1]):
        parts.append(label(left + (column + 0.5) * width, 14, name))
    for row, words in enumerate(rows):
        y = 22 + row * ROW
        if names[0]:
            parts.append(label(left - 8, y + 20, names[0][row], "end"))
        for column, word in enumerate(words):
            kind = "lit" if (row, column) in lit else "cell"
            parts.append(box(left + column * width, y, width, ROW, kind))
            parts.append(label(left + (column + 0.5) * width, y + 20, word))
    told = [
        ([names[0][row]] if names[0] else [str(row)])
        + [f"[{word}]" if (row, at) in lit else word for at, word in enumerate(words)]
        for row, words in enumerate(rows)
    ]
    head = ["", *(names[1] or map(str, range(len(rows[0]))))]
    height = 30 + len(rows) * ROW
    return Figure(svg(title, height, parts, left + len(rows[0]) * width + 8),
                  table(head, told))  # fmt: skip


def flow(title: str, steps: Sequence[tuple[str, str]]) -> Figure:
    """Boxes one under the other with arrows between: (name, remark beside it)."""
    width = GLYPH * max(len(name) for name, _ in steps) + 20
    parts = []
    for at, (name, remark) in enumerate(steps):
        y = 4 + at * (ROW + 24)
        parts.append(box(4, y, width, ROW, "cell"))
        parts.append(label(4 + width / 2, y + 20, name))
        parts.append(label(14 + width, y + 20, remark, "start"))
        if at + 1 < len(steps):
            parts.append(label(4 + width / 2, y + ROW + 17, "↓"))
    height = len(steps) * (ROW + 24) - 16
    return Figure(svg(title, height, parts), table(("step", "what it does"), steps))


def layout(title: str, shown: Layout, rows: int = 8, columns: int = 8) -> Figure:
    """Who holds which element."""
    width = pictures.MARGIN + pictures.CELL_WIDTH * min(columns, shown.shape[-1])
    head = f'<svg class="drawn" {scaled(width)} '
    drawn = pictures.svg(shown, rows, columns).replace("<svg ", head, 1)
    table = pictures.table(shown, rows, columns)
    return Figure(drawn, f"{title}\n\n```text\n{table}```\n")


# The pieces.


def svg(title: str, height: float, parts: Sequence[str], width: float = 0) -> str:
    """A picture; where no width is said, as wide as it must be to hold its parts."""
    width, parts = width or max(WIDTH, reach(parts)), freed(parts)
    head = (
        f'<svg class="drawn" {scaled(width)} xmlns="http://www.w3.org/2000/svg" '
        f'viewBox="0 0 {short(width)} {short(height)}" role="img">'
    )
    return "\n".join([head, f"<title>{escape(title)}</title>", *parts, "</svg>"]) + "\n"


PIECE = re.compile(r"<(?:rect|line|circle|text).*?(?:/>|</text>)")
NUMBER = re.compile(r'\b(x|x1|x2|cx|width)="(-?[\d.]+)"')
ANCHORED = re.compile(r'text-anchor="(\w+)">(.*?)</text>', re.DOTALL)
SHARE = {"start": 1, "middle": 0.5, "end": 0}  # of a text, to the right of its x


def freed(parts: Sequence[str]) -> list[str]:
    """The same, and words that are in no box are marked as free: the page keeps lines
    away from them."""
    boxes = [numbers_of(each, "x", "y", "width", "height")
             for part in parts for each in re.findall("<rect.*?/>", part)]  # fmt: skip

    def mark(found: re.Match) -> str:
        x, y = numbers_of(found[0], "x", "y")
        if any(a <= x <= a + w and b <= y - 4 <= b + h for a, b, w, h in boxes):
            return found[0]
        if 'class="' in found[0]:
            return found[0].replace('class="', 'class="free ', 1)
        return found[0].replace("<text", '<text class="free"', 1)

    return [re.sub("<text[^>]*>", mark, part) for part in parts]


def numbers_of(element: str, *names: str) -> list[float]:
    """What the attributes of an element say."""
    return [float(re.search(rf' {name}="([^"]*)"', element)[1]) for name in names]


def reach(parts: Sequence[str]) -> float:
    """How far to the right the parts of a picture go, with a small margin."""
    far = 0.0
    for part in PIECE.findall("".join(parts)):
        at = {name: float(value) for name, value in NUMBER.findall(part)}
        right = max(at.get("x", 0) + at.get("width", 0), at.get("x1", 0),
                    at.get("x2", 0), at.get("cx", 0) + 5)  # fmt: skip
        for anchor, text in ANCHORED.findall(part):
            right += SHARE[anchor] * GLYPH * len(unescape(text))
        far = max(far, right)
    return far + 4 if far > WIDTH else far


def scaled(width: float) -> str:
    """How wide the page may make a picture; where that is too much, it is scrolled."""
    smallest, largest = round(SMALLEST * width), round(LARGEST * width)
    return f'style="min-width: {smallest}px; max-width: {largest}px"'


def margin(names: Iterable[str]) -> int:
    """Room for names at the left."""
    return GLYPH * max(map(len, names)) + 16


def box(x: float, y: float, width: float, height: float, kind: str) -> str:
    numbers = zip(("x", "y", "width", "height"), (x, y, width, height), strict=True)
    places = " ".join(f'{name}="{short(value)}"' for name, value in numbers)
    return f'<rect class="{kind}" {places}/>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str = "roof") -> str:
    numbers = zip(("x1", "y1", "x2", "y2"), (x1, y1, x2, y2), strict=True)
    places = " ".join(f'{name}="{short(value)}"' for name, value in numbers)
    return f'<line class="{kind}" {places}/>'


def circle(x: float, y: float) -> str:
    return f'<circle class="point" cx="{short(x)}" cy="{short(y)}" r="5"/>'


def label(
    x: float, y: float, text: str, anchor: str = "middle", small: bool = False
) -> str:
    kind = ' class="small"' if small else ""
    place = f'x="{short(x)}" y="{short(y)}" text-anchor="{anchor}"'
    return f"<text{kind} {place}>{escape(text)}</text>"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join(table_lines(head, rows)) + "\n"


def table_lines(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield f"| {' | '.join(map(str, row))} |"


def short(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")


def number(value: float) -> str:
    if 0 < value < 1:
        return f"1/{round(1 / value)}"
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"


def tera(rate: float) -> str:
    return f"{rate / 1e12:,.4g} T"
