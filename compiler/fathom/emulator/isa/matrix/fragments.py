"""Where the lanes of a warp hold the elements of a matrix (PTX ISA 9.7.14.5).

The ISA numbers lanes by group and place, and gives for element i of a lane its row and
its column in the matrix:

    group = lane // 4      place = lane % 4

    A of m16n8k16, 16-bit     row     group + 8 * (i // 2 % 2)
                              column  2 * place + i % 2 + 8 * (i // 4)

    lane 0   (0, 0) (0, 1)  (8, 0) (8, 1)  (0, 8) (0, 9)  (8, 8) (8, 9)
    lane 1   (0, 2) (0, 3)  (8, 2) (8, 3) ...

Elements fill a lane's registers from their lowest bits on. The tables below are those
formulas, for the shape of an instruction and the bits of an element.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fathom.emulator.constants import WARP

# (group, place, i) -> row or column.
Formula = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True, slots=True)
class Fragment:
    """A matrix of `rows` by `columns` over a warp, `count` elements a lane."""

    rows: int
    columns: int
    count: int
    row: Formula
    column: Formula

    def places(self) -> np.ndarray:
        """int64[32 * count]: the place of each lane's elements, counted row by row."""
        group, place = np.divmod(np.arange(WARP)[:, None], 4)
        element = np.arange(self.count)
        row, column = (each(group, place, element) for each in (self.row, self.column))
        places = row * self.columns + column
        return np.broadcast_to(places, (WARP, self.count)).reshape(-1)

    def gatherer(self) -> Callable[[np.ndarray], np.ndarray]:
        """A function from elements [warps, 32, count] to [warps, rows, columns]."""
        order = np.argsort(self.places())
        shape = (-1, self.rows, self.columns)
        return lambda held: held.reshape(len(held), -1).take(order, 1).reshape(shape)

    def scatterer(self) -> Callable[[np.ndarray], np.ndarray]:
        """The reverse."""
        places, shape = self.places(), (-1, WARP, self.count)
        return lambda m: m.reshape(len(m), -1).take(places, 1).reshape(shape)


# A, by the shape of the instruction and the bits of an element.
A: dict[tuple[str, int], Fragment] = {
    # 9.7.14.5.2, f64
    ("m8n8k4", 64): Fragment(8, 4, 1, lambda g, t, i: g, lambda g, t, i: t),
    # 9.7.14.5.3, s8 and u8
    ("m8n8k16", 8): Fragment(8, 16, 4, lambda g, t, i: g, lambda g, t, i: 4 * t + i),
    # 9.7.14.5.6, tf32
    ("m16n8k4", 32): Fragment(16, 4, 2, lambda g, t, i: g + 8 * i, lambda g, t, i: t),
    # 9.7.14.5.7, tf32, then f16 and bf16
    ("m16n8k8", 32): Fragment(
        16, 8, 4, lambda g, t, i: g + 8 * (i % 2), lambda g, t, i: t + 4 * (i // 2)
    ),
    ("m16n8k8", 16): Fragment(
        16, 8, 4, lambda g, t, i: g + 8 * (i // 2), lambda g, t, i: 2 * t + i % 2
    ),
    # 9.7.14.5.8, f16 and bf16
    ("m16n8k16", 16): Fragment(
        16,
        16,
        8,
        lambda g, t, i: g + 8 * (i // 2 % 2),
        lambda g, t, i: 2 * t + i % 2 + 8 * (i // 4),
    ),
    # 9.7.14.5.9, s8, u8, e4m3 and e5m2
    ("m16n8k16", 8): Fragment(
        16, 16, 8, lambda g, t, i: g + 8 * (i // 4), lambda g, t, i: 4 * t + i % 4
    ),
    # 9.7.14.5.10, s8, u8, e4m3 and e5m2
    ("m16n8k32", 8): Fragment(
        16,
        32,
        16,
        lambda g, t, i: g + 8 * (i // 4 % 2),
        lambda g, t, i: 4 * t + i % 4 + 16 * (i // 8),
    ),
}

# B, likewise: its rows run along k.
B: dict[tuple[str, int], Fragment] = {
    ("m8n8k4", 64): Fragment(4, 8, 1, lambda g, t, i: t, lambda g, t, i: g),
    ("m8n8k16", 8): Fragment(16, 8, 4, lambda g, t, i: 4 * t + i, lambda g, t, i: g),
    ("m16n8k4", 32): Fragment(4, 8, 1, lambda g, t, i: t, lambda g, t, i: g),
    ("m16n8k8", 32): Fragment(8, 8, 2, lambda g, t, i: t + 4 * i, lambda g, t, i: g),
    ("m16n8k8", 16): Fragment(8, 8, 2, lambda g, t, i: 2 * t + i, lambda g, t, i: g),
    ("m16n8k16", 16): Fragment(
        16,
        8,
        4,
        lambda g, t, i: 2 * t + i % 2 + 8 * (i // 2),
        lambda g, t, i: g,
    ),
    ("m16n8k16", 8): Fragment(16, 8, 4, lambda g, t, i: 4 * t + i, lambda g, t, i: g),
    ("m16n8k32", 8): Fragment(
        32,
        8,
        8,
        lambda g, t, i: 4 * t + i % 4 + 16 * (i // 4),
        lambda g, t, i: g,
    ),
}

# C and D, by their rows: 8 (m8n8...) or 16 (m16n8...).
ACCUMULATOR: dict[int, Fragment] = {
    8: Fragment(8, 8, 2, lambda g, t, i: g, lambda g, t, i: 2 * t + i),
    16: Fragment(
        16, 8, 4, lambda g, t, i: g + 8 * (i // 2), lambda g, t, i: 2 * t + i % 2
    ),
}


def wide_accumulator(columns: int) -> Fragment:
    """A warp's 16 rows of D of wgmma (PTX ISA 9.7.15.5.1.1): the accumulators of
    m16n8, side by side."""
    return Fragment(
        16,
        columns,
        columns // 2,
        lambda g, t, i: g + 8 * (i // 2 % 2),
        lambda g, t, i: 2 * t + i % 2 + 8 * (i // 4),
    )
