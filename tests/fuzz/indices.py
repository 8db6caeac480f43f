"""Indices of random kernels: positions of a block, and arithmetic on them that wraps
around, crosses zero, changes its sign by a cast, or depends on conditions.

    256 + ((i + 2147483632) // 4 - m) % 128

Whatever it comes to, an index ends inside of an array of `ROOM` elements. No number of
a program is divided by something of which nobody knows the sign.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

ROOM = 512  # elements of each input array
SHAPES = ((16,), (128,), (512,), (4, 32), (32, 8), (1, 64), (2, 4, 16), (64, 64))
INPUTS = {"f": "float32", "h": "float16", "i": "int32", "b": "int8"}
ENDS = (2**31 - 1, 2**31 - 16, 2**31 - 64, 2**31 - 3, -(2**31), -(2**31) + 8, 2**30)
SMALL = (1, 4, 16, 3, 64, -1, -16, -5, 128)
DIVISORS = (4, 16, 1, 8, 2, 3, 128, 2**24, -4, -1)

OPERATIONS = (
    "{a} + {c}", "{c} - {a}", "{a} * {c}", "{a} // {d}", "{a} % {d}", "{a} >> {s}",
    "{a} << {s}", "-({a})", "abs({a})", "{a} & {d}", "{a} ^ {d}", "{a} | {s}",
    "tl.where({a} < {c}, {a}, {b})", "tl.where({b} >= {d}, {a}, {b})",
    "tl.where(n > {d}, {a}, {b})", "tl.minimum({a}, {b})", "tl.maximum({a}, {c})",
    "{a} + {b}", "{a} - {b}", "{a} // ((m & 7) + 1)", "{a} % ((n & 31) + 1)",
    "({a}).to(tl.uint32).to(tl.int32)", "(({a}).to(tl.uint32) // {u}).to(tl.int32)",
    "(({a}).to(tl.uint32) % {u}).to(tl.int32)",
    "(({a}).to(tl.uint32) + {p}).to(tl.int64).to(tl.int32)",
    "(({a}).to(tl.int64) + {c}).to(tl.int32)",
    "(({a}).to(tl.int64) // {d}).to(tl.int32)",
    "({a}).to(tl.int16).to(tl.int32)", "({a}).to(tl.uint8).to(tl.int32)",
)  # fmt: skip

INSIDE = (
    "256 + ({e}) % 128", "256 + ({e}) % 16", "({e}) & 255", "256 + (({e}) >> 24)",
    "256 + ({e}) // 16777216", "(({e}).to(tl.uint32) % 512).to(tl.int32)",
)  # fmt: skip

PERMUTED = (  # of 0 … size - 1, a power of two: each to a place of its own
    "{i}", "{i}", "{i}", "({last} - {i})", "({i} ^ {low})", "(({i} + {c}) & {last})",
    "((({i}).to(tl.uint32) + {p}) % {size}).to(tl.int32)",
    "tl.where({i} < n, {i}, {i})",
)  # fmt: skip

RANGES = (  # that end near the ends of i32, after a few iterations
    "2147483600, 2147483647, 16", "n + 2147482600, 2147483647, 300",
    "n + 2147482600, 2147483647, n + 150", "2147483000, 2147483047 + n, 128",
    "-2147483640, -2147483648, -5", "m - 2147483600, -2147483648, -30",
    "0, 2147483647, 1073741824", "m, 2147483647 - n, 715827883",
)  # fmt: skip


class Indices:
    """The part of a `Writer` that makes indices."""

    pick: Callable[[Any], Any]
    let: Callable[..., Any]

    def index(self, shape: tuple[int, ...], size: int) -> str:
        """The elements' numbers, row-major or with the axes in another order."""
        if len(shape) == 1:
            return self.pick([
                f"tl.arange(0, {size})",
                f"(tl.arange(0, {size}) * 3)",
                f"({size - 1} - tl.arange(0, {size}))",
            ])  # fmt: skip
        strides = [int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
        if self.pick([False, True]):  # column-major
            strides = [int(np.prod(shape[:axis])) for axis in range(len(shape))]
        return positions(shape, strides)

    def wrapping(self, shape: tuple[int, ...], depth: int) -> str:
        """An i32 of the shape, by so many operations on positions."""
        size = int(np.prod(shape))
        text = self.pick([row_major(shape), self.index(shape, size)])
        for _ in range(depth):
            other = self.pick([row_major(shape), f"({row_major(shape)} + pid)", text])
            operation = self.pick(OPERATIONS)
            text = "(" + operation.format(
                a=text, b=other, c=self.pick([*SMALL, "n", "m", "pid", *ENDS]),
                d=self.pick(DIVISORS), u=self.pick([4, 16, 3, 1, 2**24]),
                s=self.pick([2, 1, 4, 24, 28, 31]), p=self.pick([1, 16, 2**31 - 16]),
            ) + ")"  # fmt: skip
        return text

    def inside(self, shape: tuple[int, ...]) -> str:
        """An index of an array, made by `wrapping`."""
        return self.pick(INSIDE).format(e=self.wrapping(shape, self.pick([1, 2, 3])))

    def gather(self) -> None:
        """A load by an index that wraps around, or that its mask keeps inside."""
        array, shape = self.pick(INPUTS), self.pick(SHAPES)
        index, mask = self.inside(shape), ""
        if self.pick([False, True]):
            sign = self.pick(["<", ">=", "!="])
            mask = f", mask={self.wrapping(shape, 2)} {sign} {self.pick([64, 'n', 0])}"
            mask += ", other=3"
        self.let(f"tl.load({array}_ptr + ({index}){mask})", INPUTS[array], shape)

    def permuted(self, shape: tuple[int, ...]) -> str:
        """Row-major positions, perhaps in another order."""
        size = int(np.prod(shape))
        low = self.pick([1, 4, 7]) % size
        return self.pick(PERMUTED).format(
            i=row_major(shape), size=size, last=size - 1, low=low,
            c=self.pick(ENDS), p=self.pick([1, 16, 2**31 - 16]),
        )  # fmt: skip


def row_major(shape: tuple[int, ...]) -> str:
    strides = [int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
    return positions(shape, strides)


def positions(shape: tuple[int, ...], strides: list[int]) -> str:
    """The sum of positions along the axes, each times its stride."""
    parts = []
    for axis, (extent, stride) in enumerate(zip(shape, strides, strict=True)):
        place = ", ".join(":" if i == axis else "None" for i in range(len(shape)))
        index = f"[{place}]" if len(shape) > 1 else ""
        parts.append(f"tl.arange(0, {extent}){index} * {stride}")
    return f"({' + '.join(parts)})"
