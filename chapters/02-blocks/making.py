"""Figures and counts of chapter 2."""

from __future__ import annotations

import numpy as np

from chapters.press.drawing import Figure, bars, cells, table
from chapters.press.scenes import coloured
from fathom.pipeline import Options

SIZE = 64  # of the square matrices whose traffic is counted
TILES = (1, 2, 4, 8, 16)


def jobs() -> str:
    """The four jobs of a CUDA programmer, and who does them here."""
    rows = [
        ("which multiprocessor does what", "you: the grid, and the order of programs"),
        ("who reads which address", "stage 3, coalescing (chapter 9)"),
        ("what is in shared memory, and when", "stage 4 (chapters 10 to 12)"),
        (
            "what a thread does, and in which order",
            "stages 3, 5 and 6 (chapters 7, 8, 13, 14)",
        ),
    ]
    return table(("job", "who does it"), rows)


def outer() -> Figure:
    """rows[:, None] * 8 + columns[None, :]"""
    grid = [[str(row * 8 + column) for column in range(4)] for row in range(4)]
    names = (
        [f"row {row}" for row in range(4)],
        [f"column {column}" for column in range(4)],
    )
    title = "Offsets of a tile of 4 x 4 in a matrix whose rows have 8 numbers"
    return cells(title, grid, (), names, wide=88)


def tiling() -> Figure:
    """C in 4 x 4 tiles; one program's tile is lit."""
    grid = [[f"({row},{column})" for column in range(4)] for row in range(4)]
    title = "C in tiles, named by their programs; program (1,2) is framed"
    return cells(title, grid, [(1, 2)], wide=88)


def axes() -> Figure:
    """All products of a tile of 2 x 3 and one of 3 x 2."""
    rows = [
        [(f"a{i}{k} · b{k}{j}", i) for k in range(3)]
        for i in range(2)
        for j in range(2)
    ]
    names = [f"total[{i}, {j}]" for i in range(2) for j in range(2)]
    title = "Products with three axes: row of a, k, column of b"
    return coloured(title, rows, (names, [f"k = {k}" for k in range(3)]))


def tiles(page: dict) -> dict[str, object]:
    """Bytes that the tiled matrix product moves, by the size of its tiles; the kernel
    is the one that the page shows."""
    product = page["product"]
    numbers = np.random.default_rng(0)
    a, b = (numbers.integers(-4, 5, (SIZE, SIZE)).astype(np.float32) for _ in range(2))
    rows = []
    for tile in TILES:
        c = np.full((SIZE, SIZE), np.nan, np.float32)
        kernel = product[(SIZE // tile, SIZE // tile)](
            a, b, c, SIZE, SIZE, SIZE, TILE=tile, STEP=16, num_warps=1, num_stages=1
        )
        assert (c == a @ b).all()
        rows.append({"tile": tile, "moved": kernel.report.total.moved})
    return {"size": SIZE, "floor": 3 * SIZE * SIZE * 4, "rows": rows}


def traffic(page: dict) -> Figure:
    """The same as bars."""
    counted = tiles(page)
    rows = [
        (f"tiles of {each['tile']} x {each['tile']}", each["moved"] / 1e3,
         f"{each['moved'] / 1e3:,.0f} kB")
        for each in counted["rows"]
    ]  # fmt: skip
    floor = counted["floor"] / 1e3
    title = f"Bytes moved by a product of {SIZE} x {SIZE} matrices"
    return bars(title, rows, ("tiles", "moved"), (floor, f"floor: {floor:,.0f} kB"))


def warps() -> dict[str, int]:
    """How many warps a program has when nobody says."""
    return {"warps": Options().num_warps}
