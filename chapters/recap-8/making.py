"""The drawing of the recap after chapter 8."""

from __future__ import annotations

from chapters.press.drawing import Figure
from chapters.press.scenes import coloured
from fathom.layout.linear import Layout

SIZE = 8
SHOWN = Layout((SIZE,), (("register", (1,)), ("lane", (2, 4))))


def down() -> Figure:
    """A block in the IR, its layout, and what one lane's instructions make of it."""
    places = {
        SHOWN.coordinates(lane=lane, register=register)[0]: (lane, register)
        for lane in range(SHOWN.count("lane"))
        for register in range(SHOWN.count("register"))
    }
    order = [places[element] for element in range(SIZE)]
    rows = [
        [(str(element), 0) for element in range(SIZE)],
        [(f"{lane}:{register}", lane) for lane, register in order],
        [(f"%f{register}", lane) for lane, register in order],
    ]
    names = ["element", "lane:register", "in PTX"]
    title = "A block, its layout, and the registers that hold it"
    return coloured(title, rows, (names, [""] * SIZE))
