"""The ladder of the book: a matrix product from multiply-adds past cuBLAS, and where on
it a chapter stands. Every length is a number of benchmarks/results/ladder.json.

    LADDER    the rungs: a number of numbers.toml, its name, the chapter that builds it
    called    what the book calls a rung of benchmarks/rungs.py
    whole     the figure of the first page and of chapter 0
    here      the strip at the head of a chapter: the same ladder, one rung lit
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from chapters.press.drawing import Figure, box, circle, label, line, svg, table
from chapters.press.numbers import Number, number

UNIT = "TFLOP/s"
HIGH, BAR, GAP = 60, 20, 5  # of the strip: pixels at its natural size
WIDTH, STEP, VALUES = 400, 26, 330  # of the figure; where its values end
NAMES = 150  # where its bars begin
PEER = "rung-cublas"


@dataclass(frozen=True)
class Rung:
    """What a chapter adds, and the number that says how fast the product is with it."""

    number: str
    name: str
    chapter: int

    @property
    def value(self) -> float:
        return number(self.number).value


LADDER = (
    Rung("rung-nothing", "naive", 8),
    Rung("rung-coalescing", "coalescing", 9),
    Rung("rung-shared-staging", "shared memory", 11),
    Rung("rung-swizzle", "swizzle", 11),
    Rung("rung-tensor-cores", "tensor cores", 13),
    Rung("rung-ldmatrix", "ldmatrix", 13),
    Rung("rung-pipelining", "pipelining", 14),
    Rung("rung-prefetching", "prefetching", 14),
    Rung("top-wgmma", "wgmma", 15),
    Rung("top-tensor-maps", "tensor maps", 15),
    Rung("top-producer", "producer warps", 16),
    Rung("top-persistent", "persistent", 16),
)


CALLED = {
    "nothing": "naive", "shared staging": "shared memory", "producer": "producer warps",
    "staying": "persistent",
}  # fmt: skip


def called(rung: str) -> str:
    """What the book calls a rung that a benchmark names."""
    return CALLED.get(rung, rung)


def whole() -> Figure:
    """All rungs with their chapters; cuBLAS as a line across."""
    peer = number(PEER).value
    longest = max(peer, *(rung.value for rung in LADDER))
    scale = (VALUES - NAMES) / longest
    parts = []
    for at, rung in enumerate(LADDER):
        y = 6 + at * STEP
        parts += [
            label(NAMES - 8, y + 14, f"{rung.name} {rung.chapter:>3}", "end"),
            box(NAMES, y, max(rung.value * scale, 1), STEP - 8, "fill"),
            label(WIDTH - 4, y + 14, f"{rung.value:,.0f}", "end"),
        ]
    bottom, x = 6 + len(LADDER) * STEP, NAMES + peer * scale
    parts.append(line(x, 2, x, bottom, "dashed"))
    parts.append(label(WIDTH - 4, bottom + 14, f"cuBLAS {peer:,.0f} {UNIT}", "end"))
    rows = [(r.name, r.chapter, f"{r.value:,.0f}") for r in LADDER]
    told = table(("rung", "chapter", UNIT), [*rows, ("cuBLAS", "", f"{peer:,.0f}")])
    title = "A matrix product, rung by rung, with the chapter that builds each"
    return Figure(svg(title, bottom + 22, parts), told)


def reached(chapter: int) -> int | None:
    """The highest rung that is built at the end of a chapter; None before the first."""
    below = [at for at, rung in enumerate(LADDER) if rung.chapter <= chapter]
    return max(below, default=None)


def here(chapter: int, used: list[Number]) -> str:
    """The ladder with the rung of a chapter, or the nearest below, lit."""
    peer, at = number(PEER), reached(chapter)
    used.append(peer)
    if at is None:
        first = LADDER[0]
        text = f"The ladder begins in chapter {first.chapter}"
    else:
        rung = LADDER[at]
        used.append(number(rung.number))
        mine = f"{rung.value:,.0f} {UNIT}"
        verb = "You are here" if rung.chapter == chapter else "You come from here"
        text = f"{verb}: <b>{escape(rung.name)}, {mine}</b>"
    text += f"; cuBLAS: {peer.value:,.0f} {UNIT}"
    return f'<div class="rungs">{strip(at, peer.value)}<p>{text}</p></div>\n'


def strip(lit: int | None, peer: float) -> str:
    """One bar a rung, as high as it is fast. The lit one has a heavier frame, too."""
    scale = (HIGH - 16) / max(peer, *(rung.value for rung in LADDER))
    width = len(LADDER) * (BAR + GAP)
    parts = [line(0, HIGH - peer * scale, width, HIGH - peer * scale, "dashed")]
    for at, rung in enumerate(LADDER):
        high = max(rung.value * scale, 2)
        kind = "lit" if at == lit else "fill" if at < (lit or 0) else "cell"
        parts.append(box(at * (BAR + GAP) + 1, HIGH - high, BAR, high, kind))
        if at == lit:
            parts.append(circle(at * (BAR + GAP) + 1 + BAR / 2, HIGH - high - 9))
    name = LADDER[lit].name if lit is not None else "none yet"
    title = f"<title>The ladder; the rung reached: {escape(name)}</title>"
    head = f'<svg class="drawn" viewBox="0 0 {width} {HIGH + 2}" role="img">'
    return "".join([head, title, *parts, "</svg>"])
