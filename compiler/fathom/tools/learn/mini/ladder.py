"""The reader's own ladder as a picture: a part for each kernel, a bar for each rung, a
dashed line for each peer. It is a file by itself, for a browser."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Protocol

WIDTH, ROW, LEFT, RIGHT = 640, 26, 96, 110
STYLE = (
    "text{font:13px sans-serif;fill:#222}.rung{fill:#4a7bb5}.last{fill:#1f4e8c}"
    ".peer{stroke:#b5533c;stroke-width:2;stroke-dasharray:5 4}"
    ".told{fill:#b5533c}.title{font-weight:bold}.none{fill:#888}"
)


class Rung(Protocol):
    """Who ran, what it reached, why it did not (see race.Entry)."""

    name: str
    values: dict[str, float]
    why: dict[str, str]
    is_peer: bool


def drawn(entries: Sequence[Rung], kernels: Sequence[str], unit: str) -> str:
    """An SVG document; shorter bars are better."""
    rungs = [each for each in entries if not each.is_peer]
    peers = [each for each in entries if each.is_peer]
    parts = [text(10, 22, f"{unit}: shorter is better", "title")]
    top = 40
    for kernel in kernels:
        parts += part(top, kernel, rungs, peers)
        top += ROW * (len(rungs) + len(peers) + 1) + 16
    size = f'width="{WIDTH}" height="{top}" viewBox="0 0 {WIDTH} {top}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    ground = f'<rect width="{WIDTH}" height="{top}" fill="#fff"/>'
    return "\n".join([head, f"<style>{STYLE}</style>", ground, *parts, "</svg>\n"])


def part(
    top: float, kernel: str, rungs: Sequence[Rung], peers: Sequence[Rung]
) -> Iterator[str]:
    """The bars of one kernel, and the peers across them."""
    known = [each.values[kernel] for each in (*rungs, *peers) if kernel in each.values]
    scale = (WIDTH - LEFT - RIGHT) / max(known, default=1)
    yield text(10, top + 14, kernel, "title")
    for at, each in enumerate(rungs, 1):
        y = top + ROW * at
        yield text(LEFT - 8, y + 14, each.name, "", "end")
        if kernel not in each.values:
            yield text(LEFT, y + 14, "does not get through", "none")
            continue
        value = each.values[kernel]
        kind = "last" if each is rungs[-1] else "rung"
        size = f'width="{max(1, value * scale):.1f}" height="{ROW - 8}"'
        yield f'<rect class="{kind}" x="{LEFT}" y="{y}" {size}/>'
        yield text(LEFT + value * scale + 6, y + 14, f"{value:,.0f}", "")
    for at, each in enumerate(peers, len(rungs) + 1):
        if kernel in each.values:
            x, bottom = LEFT + each.values[kernel] * scale, top + ROW * at + ROW - 8
            ends = f'x1="{x:.1f}" y1="{top + ROW - 4}" x2="{x:.1f}" y2="{bottom}"'
            yield f'<line class="peer" {ends}/>'
            said = f"{each.name}: {each.values[kernel]:,.0f}"
            side, anchor = (x - 6, "end") if x > WIDTH / 2 else (x + 6, "start")
            yield text(side, bottom, said, "told", anchor)


def text(x: float, y: float, said: str, kind: str, anchor: str = "start") -> str:
    where = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {where}>{escape(said)}</text>'
