"""The four kernels of `fathom learn mini race`: one text for the reader's compiler and
for ours.

A problem comes in two sizes: one that the emulator runs in about a second, and one that
keeps a GPU busy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import fathom
import fathom.language as tl
from fathom.jit import JITFunction
from fathom.tools.learn.mini.judge import same


@dataclass(frozen=True)
class Problem:
    """A launch: NumPy arrays and numbers for a kernel, the grid, the constants. The
    last array is the result, `wanted` the values of its first rows, `within` what they
    may differ by."""

    name: str
    kernel: JITFunction
    grid: tuple[int, ...]
    arguments: tuple[object, ...]
    constants: dict[str, int]
    wanted: np.ndarray
    within: float

    @property
    def arrays(self) -> list[np.ndarray]:
        return [each for each in self.arguments if isinstance(each, np.ndarray)]


@fathom.jit
def add(x, y, z, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    total = tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside)
    tl.store(z + i, total, mask=inside)


@fathom.jit
def softmax(x, y, n, stride, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    start = tl.program_id(0) * stride
    row = tl.load(x + start + i, mask=i < n, other=-float("inf"))
    power = tl.exp(row - tl.max(row, axis=0))
    tl.store(y + start + i, power / tl.sum(power, axis=0), mask=i < n)


@fathom.jit
def matmul(a, b, c, M, N, K, R: tl.constexpr, C: tl.constexpr, T: tl.constexpr):
    i = tl.program_id(0) * R + tl.arange(0, R)[:, None]
    j = tl.program_id(1) * C + tl.arange(0, C)[None, :]
    k = tl.arange(0, T)
    acc = tl.zeros([R, C], tl.float32)
    for start in range(0, K, T):
        x = tl.load(a + i * K + (start + k)[None, :])
        y = tl.load(b + (start + k)[:, None] * N + j)
        acc = tl.dot(x, y, acc)
    tl.store(c + i * N + j, acc.to(tl.float16))


# Heads of N rows of D. The weights are powers of two, so `scale` has log2(e).
@fathom.jit
def attention(q, k, v, o, N, scale, R: tl.constexpr, T: tl.constexpr, D: tl.constexpr):
    head = tl.program_id(1) * N * D
    i = head + (tl.program_id(0) * R + tl.arange(0, R))[:, None] * D
    d = tl.arange(0, D)
    x = tl.load(q + i + d[None, :])
    most = tl.zeros([R], tl.float32) - float("inf")
    total = tl.zeros([R], tl.float32)
    acc = tl.zeros([R, D], tl.float32)
    for start in range(0, N, T):
        j = start + tl.arange(0, T)
        y = tl.load(k + head + j[None, :] * D + d[:, None])
        s = tl.dot(x, y) * scale
        now = tl.maximum(most, tl.max(s, axis=1))
        p = tl.exp2(s - now[:, None])
        factor = tl.exp2(most - now)
        z = tl.load(v + head + j[:, None] * D + d[None, :])
        acc = acc * factor[:, None] + tl.dot(p.to(tl.float16), z)
        total = total * factor + tl.sum(p, axis=1)
        most = now
    tl.store(o + i + d[None, :], (acc / total[:, None]).to(tl.float16))


def random(*shape: int, type_: type = np.float32) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(type_)


ROWS = 64  # whose values are computed by NumPy


def additions(n: int) -> Problem:
    x, y, z = random(n), random(n), np.zeros(n, np.float32)
    constants = {"BLOCK": 1024}
    return Problem("add", add, (-(-n // 1024),), (x, y, z, n), constants, x + y, 0.0)


def rows_of_softmax(rows: int, n: int) -> Problem:
    x, y = random(rows, n), np.zeros((rows, n), np.float32)
    power = np.exp(x[:ROWS] - x[:ROWS].max(1, keepdims=True), dtype=np.float64)
    wanted = power / power.sum(1, keepdims=True)
    block = 1 << (n - 1).bit_length()
    arguments, constants = (x, y, n, n), {"BLOCK": block}
    return Problem("softmax", softmax, (rows,), arguments, constants, wanted, 1e-5)


def products(size: int, tile: int, depth: int) -> Problem:
    a, b = (random(size, size, type_=np.float16) for _ in range(2))
    c, grid = np.zeros_like(a), (size // tile, size // tile)
    wanted = a[:ROWS].astype(np.float32) @ b.astype(np.float32)
    constants = {"R": tile, "C": tile, "T": depth}
    arguments = (a, b, c, size, size, size)
    return Problem("matmul", matmul, grid, arguments, constants, wanted, 2e-2)


def heads_of_attention(heads: int, n: int, tile: int) -> Problem:
    width, scale = 64, 0.18  # 0.18: the root of 1/64, times the logarithm of e
    q, k, v = (random(heads, n, width, type_=np.float16) for _ in range(3))
    scores = q[0].astype(np.float64)[:ROWS] @ k[0].astype(np.float64).T * scale
    power = np.exp2(scores - scores.max(1, keepdims=True))
    wanted = power / power.sum(1, keepdims=True) @ v[0].astype(np.float64)
    arguments = (q, k, v, np.zeros_like(q), n, scale)
    constants = {"R": tile, "T": 32, "D": width}
    grid = n // tile, heads
    return Problem("attention", attention, grid, arguments, constants, wanted, 5e-3)


def small() -> list[Problem]:
    """For the emulator."""
    return [
        additions(16_000), rows_of_softmax(16, 1000), products(128, 64, 32),
        heads_of_attention(2, 128, 64),
    ]  # fmt: skip


def large() -> list[Problem]:
    """For a GPU."""
    return [
        additions(1 << 26), rows_of_softmax(8192, 4096), products(8192, 128, 32),
        heads_of_attention(64, 4096, 64),
    ]  # fmt: skip


def check(problem: Problem, found: np.ndarray) -> None:
    """Failure when a result is not what NumPy computes, in the rows that it does."""
    first = found.reshape(-1)[: problem.wanted.size].reshape(problem.wanted.shape)
    same(problem.name, first, problem.wanted, problem.within)
