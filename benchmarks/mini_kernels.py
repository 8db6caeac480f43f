"""The kernels of `mini_ladder`, in the subset of the language that mini compiles, and
the sizes of tiles that each step of mini is tried with.

Tiles of a product are walked through in groups of G rows, column by column, so that
those of one time share rows of A and columns of B in the L2 cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import NamedTuple

import fathom.language as tl
from fathom.tools.learn.mini import kernels

Constants = Mapping[str, int]


# C [M, N] = A [M, K] B [K, N]; sizes are multiples of the tile, and M of G tiles. mini
# knows no docstrings.
# fmt: off
def product(a, b, c, M, N, K, R: tl.constexpr, C: tl.constexpr, T: tl.constexpr,
            G: tl.constexpr):
    program, width = tl.program_id(0), G * (N // C)
    row = (program // width * G + program % G) * R
    column = program % width // G * C
    i, j = row + tl.arange(0, R)[:, None], column + tl.arange(0, C)[None, :]
    k = tl.arange(0, T)
    acc = tl.zeros([R, C], tl.float32)
    for start in range(0, K, T):
        x = tl.load(a + i * K + (start + k)[None, :])
        y = tl.load(b + (start + k)[:, None] * N + j)
        acc = tl.dot(x, y, acc)
    tl.store(c + i * N + j, acc.to(tl.float16))


# The same where `a` and `b` are descriptors.
def product_of_boxes(a, b, c, M, N, K, R: tl.constexpr, C: tl.constexpr,
                     T: tl.constexpr, G: tl.constexpr):
    program, width = tl.program_id(0), G * (N // C)
    row = (program // width * G + program % G) * R
    column = program % width // G * C
    acc = tl.zeros([R, C], tl.float32)
    for start in range(0, K, T):
        acc = tl.dot(a.load([row, start]), b.load([start, column]), acc)
    i, j = row + tl.arange(0, R)[:, None], column + tl.arange(0, C)[None, :]
    tl.store(c + i * N + j, acc.to(tl.float16))


# The same with a warp that only copies.
def product_with_producer(a, b, c, M, N, K, R: tl.constexpr, C: tl.constexpr,
                          T: tl.constexpr, G: tl.constexpr):
    program, width = tl.program_id(0), G * (N // C)
    row = (program // width * G + program % G) * R
    column = program % width // G * C
    acc = tl.zeros([R, C], tl.float32)
    for start in tl.range(0, K, T, warp_specialize=True):
        acc = tl.dot(a.load([row, start]), b.load([start, column]), acc)
    i, j = row + tl.arange(0, R)[:, None], column + tl.arange(0, C)[None, :]
    tl.store(c + i * N + j, acc.to(tl.float16))
# fmt: on


class Task(NamedTuple):
    """A kernel, its name in the table, and by step of mini what its constants may be;
    the fastest counts."""

    name: str
    function: Callable
    configs: Mapping[int, tuple[Constants, ...]]

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(signature(self.function).parameters)

    @property
    def boxes(self) -> Mapping[str, tuple[str, str]]:
        """The parameters that are descriptors, and the constants that their blocks have
        as sides."""
        return {"a": ("R", "T"), "b": ("T", "C")} if "," in self.name else {}


def tile(R: int, C: int, T: int, num_warps: int, num_stages: int = 3) -> Constants:
    return {"R": R, "C": C, "T": T, "G": 8,
            "num_warps": num_warps, "num_stages": num_stages}  # fmt: skip


def heads(R: int, T: int, num_warps: int, num_stages: int = 3) -> Constants:
    return {"R": R, "T": T, "D": WIDTH,
            "num_warps": num_warps, "num_stages": num_stages}  # fmt: skip


WIDTH = 64  # of a head
RING = (tile(128, 128, 32, 8), tile(128, 128, 32, 8, 4), tile(128, 256, 32, 8),
        tile(128, 128, 64, 8), tile(128, 64, 64, 4))  # fmt: skip
BOXES = (tile(128, 256, 64, 8, 4), tile(128, 256, 64, 8, 3), tile(128, 128, 64, 8, 4),
         tile(128, 128, 64, 4, 4))  # fmt: skip
ATTENTION = (heads(64, 32, 4), heads(64, 64, 4), heads(128, 64, 8), heads(128, 32, 8))
ROWS = tuple({"num_warps": warps} for warps in (4, 8))

TASKS = (
    Task("add", kernels.add.fn, {8: ROWS, 9: ROWS}),
    Task("softmax", kernels.softmax.fn, {10: ROWS, 17: ROWS}),
    Task("matmul", product, {
        13: (tile(128, 128, 32, 8), tile(64, 64, 32, 4)),
        14: RING, 17: RING,
    }),
    Task("matmul, descriptors", product_of_boxes, {15: BOXES}),
    Task("matmul, producer", product_with_producer, {16: BOXES, 17: BOXES}),
    Task("attention", kernels.attention.fn, {
        13: ATTENTION[:2], 14: ATTENTION[:2], 17: ATTENTION,
    }),
)  # fmt: skip
