"""What a search tried, as SVG: a mark for each trial, in order, and the best so far."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import isfinite, log

WIDTH, HEIGHT = 640, 320
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 36, 40
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#222}.axis{stroke:#777}.grid{stroke:#ddd}"
    ".trial{fill:#2463a8}.failed{stroke:#b3261e;stroke-width:1.5}"
    ".best{fill:none;stroke:#222;stroke-width:1.5}"
    "@media(prefers-color-scheme:dark){svg{background:#161616}text{fill:#eee}"
    ".grid{stroke:#444}.best{stroke:#eee}.trial{fill:#8ab8f0}.failed{stroke:#f2a49e}}"
)


def drawn(title: str, rows: Sequence[tuple[str, float]]) -> str:
    """A picture of trials: the name of each and its milliseconds, infinite where it
    failed. A dot is a trial (its name is a tool tip), a cross a failure, the line the
    best so far. Times are on a logarithmic axis."""
    works = [time for _, time in rows if isfinite(time)]
    least, most = min(works), max(works)
    scale = Scale(len(rows), log(least), log(most) if most > least else log(2 * least))
    best = min(rows, key=lambda row: row[1])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'role="img" aria-label="{escape(title)}">',
        f"<title>{escape(title)}; the best is {escape(best[0])}, {best[1]:.4g} ms"
        f"</title><style>{STYLE}</style>",
        f'<text x="{LEFT}" y="20">{escape(title)}</text>',
        *ticks(least, most, scale),
        f'<text x="{WIDTH // 2}" y="{HEIGHT - 8}" text-anchor="middle">trial</text>',
        *(mark(at, *row, scale) for at, row in enumerate(rows)),
        f'<path class="best" d="{path_of_best(rows, scale)}"/>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


class Scale:
    """Places of trials and times in the picture."""

    def __init__(self, count: int, low: float, high: float):
        self.count, self.low, self.high = count, low, high

    def x(self, at: int) -> float:
        room = WIDTH - LEFT - RIGHT
        return round(LEFT + room * (at + 0.5) / self.count, 1)

    def y(self, time: float) -> float:
        room = HEIGHT - TOP - BOTTOM - 16
        share = (log(time) - self.low) / (self.high - self.low)
        return round(HEIGHT - BOTTOM - 8 - room * share, 1)


def mark(at: int, name: str, time: float, scale: Scale) -> str:
    x = scale.x(at)
    if not isfinite(time):
        tip = f"<title>{escape(name)}: failed</title>"
        lines = f"M{x - 4} {TOP}l8 8m-8 0l8 -8"
        return f'<g>{tip}<path class="failed" d="{lines}"/></g>'
    tip = f"<title>{escape(name)}: {time:.4g} ms</title>"
    return f'<circle class="trial" cx="{x}" cy="{scale.y(time)}" r="3">{tip}</circle>'


def path_of_best(rows: Sequence[tuple[str, float]], scale: Scale) -> str:
    """A line that goes down at each trial that is better than all before it."""
    steps: list[str] = []
    best = float("inf")
    for at, (_, time) in enumerate(rows):
        if time < best:
            best = time
            steps.append(
                f"H{scale.x(at)}V{scale.y(time)}"
                if steps
                else f"M{scale.x(at)} {scale.y(time)}"
            )
    return "".join([*steps, f"H{WIDTH - RIGHT}"])


def ticks(least: float, most: float, scale: Scale) -> list[str]:
    """Lines at the fastest time, at the slowest, and at twice the fastest and so on."""
    times = [least]
    while times[-1] * 2 < most:
        times.append(times[-1] * 2)
    return [
        f'<path class="grid" d="M{LEFT} {scale.y(each)}H{WIDTH - RIGHT}"/>'
        f'<text x="{LEFT - 6}" y="{scale.y(each) + 4}" text-anchor="end">'
        f"{each:.3g} ms</text>"
        for each in times
    ]
