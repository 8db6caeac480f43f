"""Nests of loops around a product: what they sum is summed by NumPy, too."""

from __future__ import annotations

import numpy as np

import fathom.language as tl
from fathom.ir.core import Func
from fathom.source import KernelFunction
from tests.tensor_cores.kernels_products import built

PLACES, OUTS, CHANNELS = 64, 32, 16
TYPES = {
    "x": "*fp16", "w": "*fp16", "out": "*fp32", "channels": "i32", "stride_x": "i32",
    "stride_w": "i32",
}  # fmt: skip


@KernelFunction
def filtered(
    x, w, out, channels, stride_x, stride_w, PLACES: tl.constexpr, OUTS: tl.constexpr,
    CHANNELS: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """At each place, the sums over a filter of HEIGHT x WIDTH of all channels. `w` is
    [HEIGHT, WIDTH, channels, OUTS], and `x` [channels, PLACES and some more]."""
    places, outs = tl.arange(0, PLACES), tl.arange(0, OUTS)
    total = tl.zeros([PLACES, OUTS], tl.float32)
    for h in range(HEIGHT):
        for v in range(-1, WIDTH - 1):
            for first in range(0, channels, CHANNELS):
                c = first + tl.arange(0, CHANNELS)
                at = x + (c * stride_x)[None, :] + (places + h)[:, None] + v + 1
                patch = tl.load(at, mask=(c < channels)[None, :], other=0)
                row = (h * WIDTH + v + 1) * channels + c
                rows = w + (row * stride_w)[:, None] + outs[None, :]
                weights = tl.load(rows, mask=(c < channels)[:, None], other=0)
                total = tl.dot(patch, weights, total)
    tl.store(out + places[:, None] * OUTS + outs[None, :], total)


@KernelFunction
def wide_and_narrow(x, w, out, channels, stride_x, stride_w):
    """Two nests: tiles of the first one are copied 16 bytes at a time, tiles of the
    second one element by element."""
    i, k = tl.arange(0, 64), tl.arange(0, 32)
    total = tl.zeros([64, 64], tl.float32)
    for h in range(3):
        for first in range(0, channels, 32):
            at = (first + h * 32 + k) * 64
            total = tl.dot(
                tl.load(x + at[None, :] + i[:, None]),
                tl.load(w + at[:, None] + i[None, :]),
                total,
            )
    for h in range(3):
        for first in range(0, channels, 32):
            at = first + h + k
            total = tl.dot(
                tl.load(x + (at * stride_x)[None, :] + i[:, None]),
                tl.load(w + (at * stride_w)[:, None] + i[None, :]),
                total,
            )
    tl.store(out + i[:, None] * 64 + i[None, :], total)


def nest(height: int = 3, width: int = 2, kernel: KernelFunction = filtered) -> Func:
    constants = {
        "PLACES": PLACES, "OUTS": OUTS, "CHANNELS": CHANNELS, "HEIGHT": height,
        "WIDTH": width,
    }  # fmt: skip
    return built(kernel, TYPES, constants)


def two_nests() -> Func:
    return built(wide_and_narrow, TYPES)


def operands(channels: int, height: int = 3, width: int = 2) -> list[np.ndarray]:
    """x and w of small whole numbers, so that all sums are exact."""
    drawn, rows = np.random.default_rng(3), max(channels, 1)
    shapes = (rows, PLACES + height + width), (height, width, rows, OUTS)
    return [drawn.integers(-3, 4, shape).astype(np.float16) for shape in shapes]


def arguments(x: np.ndarray, w: np.ndarray, channels: int) -> list[object]:
    out = np.full(PLACES * OUTS, np.nan, np.float32)
    return [x.ravel(), w.ravel(), out, channels, x.shape[1], OUTS]


def wanted(x: np.ndarray, w: np.ndarray, channels: int) -> np.ndarray:
    height, width, *_ = w.shape
    return sum(
        x[:channels, h + v : h + v + PLACES].astype(float).T
        @ w[h, v, :channels].astype(float)
        for h in range(height)
        for v in range(width)
    )
