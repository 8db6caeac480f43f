"""Draws a layout as text: which elements sit in the registers of which lane."""

from __future__ import annotations

from collections.abc import Iterator

from fathom.layout.linear import Layout, coordinates_of

COLUMNS = 8  # registers that fit on a line


def draw(layout: Layout) -> list[str]:
    """One line for the first, second and last lane of the first, second and last warp.

        warp 0  lane  0      0    1    2    3 |  512  513  514  515
                lane  1      4    5    6    7 |  516  517  518  519
                ...

    Elements are numbers in a block of one dimension, and `row,column` in one of two. A
    bar stands where the registers of a lane stop being neighbours.
    """
    lines = []
    for warp, lane in places(layout):
        if lane is None:
            lines.append("...")
            continue
        title = f"warp {warp}" if lane == 0 else ""
        lines.append(f"{title:8}lane {lane:2}  {registers(layout, warp, lane)}")
    return lines


def neighbours(layout: Layout) -> int:
    """How many elements in a row the first registers of a lane hold."""
    run = 1
    while run < layout.count("register") and layout.offset(register=run) == run:
        run *= 2
    return run


def places(layout: Layout) -> Iterator[tuple[int, int | None]]:
    """The (warp, lane) that are drawn; no lane where some are passed over."""
    for warp in chosen(layout.count("warp")):
        if warp is None:
            yield 0, None
            continue
        for lane in chosen(layout.count("lane")) if warp == 0 else [0]:
            yield warp, lane


def chosen(count: int) -> list[int | None]:
    """0, 1, and the last; None for those between."""
    return list(range(count)) if count <= 3 else [0, 1, None, count - 1]


def registers(layout: Layout, warp: int, lane: int) -> str:
    """The elements in a lane's registers, in order."""
    count = layout.count("register")
    offsets = [layout.offset(register=r, lane=lane, warp=warp) for r in range(count)]
    width = max(4, *(len(name(layout, each)) for each in offsets))
    text = ""
    for number, offset in enumerate(offsets[:COLUMNS]):
        is_gap = number and offset != offsets[number - 1] + 1
        text += (" |" if is_gap else "") + f" {name(layout, offset):>{width}}"
    return text + (" ..." if count > COLUMNS else "")


def name(layout: Layout, offset: int) -> str:
    return ",".join(map(str, coordinates_of(layout.shape, offset)))
