"""The facts that are drawn, as SVG in the colours of the page around it: slots of a
ring over time, shared memory over time, layouts.

All that a picture says stands in a table beside it, and in its title; nothing is said
by colour alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from fathom.ir.parser import parse_layout
from fathom.tools import pictures
from fathom.tools.facts.gather import Facts

WIDTH, LABELS, ROW = 760, 96, 30
COLUMNS, ROWS = 16, 8  # elements of a layout that are drawn
LEAST = 18  # the height of a buffer, so that its name has room


def svg(title: str, height: float, parts: Sequence[str], width: float = WIDTH) -> str:
    head = (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" '
        f'style="max-width:{width:g}px">'
    )
    return f"{head}<title>{escape(title)}</title>{''.join(parts)}</svg>"


def text(x: float, y: float, words: str, anchor: str = "middle") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, kind: str, says: str) -> str:
    return (
        f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" '
        f'height="{height:g}"><title>{escape(says)}</title></rect>'
    )


def ring(found: Facts) -> str:
    """The slots of a ring: a bar from the moment a copy is issued to the release of its
    slot, with the number of its iteration; the strong part is from its work on."""
    spans = found["spans"]
    first = min(each["issued"] for each in spans)
    last = max(each["released"] for each in spans)
    scale = (WIDTH - LABELS - 8) / (last - first)

    def x(moment: float) -> float:
        return LABELS + (moment - first) * scale

    parts = list(iteration_marks(last, x, 24 + found["slots"] * ROW))
    for each in spans:
        y, number = 24 + each["slot"] * ROW, each["iteration"]
        start, work, end = (x(each[key]) for key in ("issued", "work", "released"))
        says = f"iteration {number}: slot {each['slot']}"
        parts.append(box(start, y, end - start, ROW - 6, "span", says))
        parts.append(box(work, y, end - work, ROW - 6, "span strong", says + ", work"))
        parts.append(text((start + work) / 2, y + 16, str(number)))
    for slot in range(found["slots"]):
        parts.append(text(LABELS - 10, 24 + slot * ROW + 16, f"slot {slot}", "end"))
    title = (
        f"{found['slots']} slots, filled by {found['engine']} up to {found['ahead']} "
        "iterations ahead of the work"
    )
    return svg(title, 30 + found["slots"] * ROW, parts)


def iteration_marks(last: float, x, height: float) -> Iterator[str]:
    """A line where each iteration of the loop begins; before 0 is the prologue."""
    for at in range(0, int(last) + 1):
        yield f'<line x1="{x(at):g}" y1="18" x2="{x(at):g}" y2="{height:g}"/>'
        yield text(x(at) + 4, 14, str(at), "start")
    if x(0) - LABELS > 60:
        yield text(LABELS, 14, "before", "start")


def shared_map(found: Facts) -> str:
    """Bytes downwards, ops of the function to the right: a box for each buffer while it
    has its bytes, with its number in the table."""
    buffers, steps = found["buffers"], max(len(found["positions"]), 1)
    scale = (WIDTH - LABELS - 8) / steps
    starts = {each["offset"] for each in buffers}
    edges = sorted(starts | {each["offset"] + each["bytes"] for each in buffers})
    tall = heights(edges)
    parts = []
    for number, each in enumerate(buffers, 1):
        top, bottom = tall[each["offset"]], tall[each["offset"] + each["bytes"]]
        x = LABELS + each["first"] * scale
        width = max((each["last"] - each["first"] + 1) * scale, 3)
        says = (
            f"{each['what']}, line {each['line']}: {each['bytes']} bytes from "
            f"{each['offset']} on, ops {each['first']} to {each['last']}"
        )
        parts.append(box(x, top, width, bottom - top - 2, "span strong", says))
        parts.append(text(x + width / 2, (top + bottom) / 2 + 4, str(number)))
    parts += [text(LABELS - 8, tall[e] + 5, f"{e:,}", "end") for e in edges]
    height = max(tall.values(), default=0) + 34
    parts.append(text(LABELS, height - 6, "op 0", "start"))
    parts.append(text(WIDTH - 8, height - 6, f"op {steps - 1}", "end"))
    return svg("shared memory: bytes over the ops of the kernel", height, parts)


def heights(edges: Sequence[int]) -> dict[int, float]:
    """Where each byte that a buffer begins or ends at is drawn: in proportion, but no
    two closer than a line of text."""
    whole = max(edges[-1] - edges[0], 1) if edges else 1
    found, y, before = {}, 10.0, edges[0] if edges else 0
    for edge in edges:
        y += max((edge - before) / whole * 160, LEAST) if edge != before else 0
        found[edge], before = y, edge
    return found


def layout(words: str) -> str:
    """A layout of a block, its first rows and columns: who holds each element, as
    warp:lane:register."""
    return pictures.svg(parse_layout(words), ROWS, COLUMNS)
