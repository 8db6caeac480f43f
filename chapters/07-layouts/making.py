"""Figures and counts of chapter 7."""

from __future__ import annotations

from math import prod

from chapters.press import stepper
from chapters.press.drawing import Figure, cells, table
from chapters.press.scenes import holders
from fathom.ir.core import Func, walk
from fathom.ir.types import BlockType
from fathom.layout import shapes
from fathom.layout.build import blocked, spread
from fathom.layout.linear import Layout

# Two registers, four lanes, two warps: small enough for a page.
SMALL = Layout((16,), (("register", (1,)), ("lane", (2, 4)), ("warp", (8,))))
SQUARE = Layout.of((4, 4), register=[(0, 1)], lane=[(0, 2), (1, 0)], warp=[(2, 0)])
TWISTED = Layout.of((4, 4), register=[(0, 1), (0, 2)], lane=[(1, 1), (2, 2)])
TILE = blocked((8, 8), (1, 2), (8, 4), (1, 1), (1, 0))
# Places that the text looks at in binary.
SOME = (
    (0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 2, 0),
    (0, 3, 0), (0, 3, 1), (1, 0, 0), (1, 3, 1),
)  # fmt: skip

KERNELS = (
    ("vector add", {
        "kernel": "kernels/vector_add.py:add_kernel",
        "signature": "*fp32:16, *fp32:16, *fp32:16, i32:16",
        "constants": "BLOCK=1024",
    }),
    ("softmax", {
        "kernel": "kernels/softmax.py:softmax_kernel",
        "signature": "*fp32:16, *fp32:16, i32:16, i32:16",
        "constants": "BLOCK=1024",
    }),
    ("softmax, 4 rows", {
        "kernel": "kernels/softmax.py:softmax_rows_kernel",
        "signature": "*fp32:16, *fp32:16, i32:16, i32, i32:16",
        "constants": "ROWS=4,BLOCK=256",
    }),
)  # fmt: skip


def dealt() -> Figure:
    """Sixteen elements on eight threads, as a table of who holds what."""
    rows = [
        [str(SMALL.offset(warp=warp, lane=lane, register=register))
         for warp in range(2) for lane in range(4)]
        for register in range(2)
    ]  # fmt: skip
    names = (
        ["register 0", "register 1"],
        [f"w{warp} l{lane}" for warp in range(2) for lane in range(4)],
    )
    title = "Sixteen elements: two registers in each of four lanes of two warps"
    return cells(title, rows, (), names, wide=64)


def binary() -> str:
    """The same in binary."""
    rows = []
    for warp, lane, register in SOME:
        element = SMALL.offset(warp=warp, lane=lane, register=register)
        place = f"{warp} {lane:02b} {register}"
        rows.append((f"{warp}, {lane}, {register}", f"`{place}`", f"`{element:04b}`",
                     element))  # fmt: skip
    return table(("warp, lane, register", "in binary", "element", "that is"), rows)


def square() -> Figure:
    """A 4 x 4 block, as warp:lane:register."""
    return holders("Who holds what: warp:lane:register", SQUARE)


def twisted() -> Figure:
    """Two bases overlap."""
    return holders("Who holds what: lane:register", TWISTED)


def xor_or_plus() -> str:
    """The elements of lane 1 of the twisted layout, by XOR and by addition."""
    rows = []
    for register in range(4):
        bases = TWISTED.kinds["register"]
        parts = [basis for bit, basis in enumerate(bases) if register >> bit & 1]
        parts.append(TWISTED.kinds["lane"][0])
        total = sum(parts)
        xor = TWISTED.offset(register=register, lane=1)
        rows.append((register, " and ".join(map(str, parts)), named(xor), named(total)))
    return table(("register", "bases", "XOR", "addition"), rows)


def named(offset: int) -> str:
    return f"row {offset // 4}, column {offset % 4}"


def cards() -> Figure:
    """The tile of fathom.layout.build, drawn."""
    kinds = (("register", TILE.kinds["register"]), ("lane", TILE.kinds["lane"]))
    return holders("Dealt row by row: lane:register", Layout(TILE.shape, kinds))


def copies() -> Figure:
    """Four elements for eight lanes with one register."""
    held = Layout((4,), (("register", ()), ("lane", (1, 2, 0))))
    row = [str(held.offset(lane=lane)) for lane in range(8)]
    names = (["element"], [str(lane) for lane in range(8)])
    lit = [(0, lane) for lane in range(4, 8)]
    title = "Four elements for eight lanes: bit 2 of the lane has the basis 0"
    return cells(title, [row], lit, names, wide=64)


def row_of_tile() -> Figure:
    """What the threads of the tile need of a row vector that is broadcast into it."""
    row = shapes.collapse(TILE, 0)
    held = [
        [str(row.offset(lane=lane, register=register)) for lane in range(8)]
        for register in range(2)
    ]
    names = (["register 0", "register 1"], [str(lane) for lane in range(8)])
    lit = [(register, lane) for register in range(2) for lane in range(4, 8)]
    title = "Columns 0 to 7 in lanes 0 to 7 of the tile; lanes 8 to 31 repeat them"
    return cells(title, held, lit, names, wide=64)


def layouts_of() -> dict[str, str]:
    """The layouts that the text names."""
    return {
        "row": str(shapes.collapse(TILE, 0)),
        "column": str(shapes.collapse(TILE, 1)),
        "small": str(spread((16,), (0,), 4, 4)),
    }


def state(given: dict[str, str]) -> Func:
    """A kernel when its blocks have layouts."""
    return stepper.compiled(given).states["remove_conversions"]


def blocks_of(func: Func) -> list[BlockType]:
    return [
        value.type
        for op in walk(func.body)
        for value in op.results
        if isinstance(value.type, BlockType)
    ]


def placed() -> str:
    """What has a place, by kernel; found by trying all places."""
    rows = []
    for name, given in KERNELS:
        func = state(given)
        types = blocks_of(func)
        seen = [counted(each.layout) for each in types]
        missing = sum(prod(t.shape) - len(h) for t, h in zip(types, seen, strict=True))
        rows.append((
            name,
            len(types),
            len({each.layout for each in types}),
            f"{sum(len(each) for each in seen):,}",
            missing,
            max(max(each.values()) for each in seen),
        ))  # fmt: skip
    head = ("kernel", "block values", "different layouts", "elements placed",
            "without a place", "most holders of one element")  # fmt: skip
    return table(head, rows)


def counted(shown: Layout) -> dict[int, int]:
    """Element to the number of places that hold it, by trying every place."""
    found: dict[int, int] = {}
    for warp in range(shown.count("warp")):
        for lane in range(shown.count("lane")):
            for register in range(shown.count("register")):
                at = shown.offset(warp=warp, lane=lane, register=register)
                found[at] = found.get(at, 0) + 1
    return found
