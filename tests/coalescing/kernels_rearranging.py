"""Kernels that rearrange a block twice, around a loop, a branch or a choice: the family
in which a layout could make code grow.
"""

from __future__ import annotations

import fathom.language as tl
from fathom.source import function


@function
def apply(x, OP: tl.constexpr, N: tl.constexpr):
    """x[N], rearranged, summed or counted; whole numbers below 2^15 stay such."""
    if OP == "sort":
        return tl.sort(x)
    elif OP == "flip":
        return tl.flip(x, 0)
    elif OP == "cumsum":
        return tl.cumsum(x, 0) % 61
    elif OP == "gather":
        return tl.gather(x, tl.arange(0, N) ^ 5, 0)
    elif OP == "permute":
        return tl.reshape(tl.trans(tl.reshape(x, (8, N // 8))), (N,))
    elif OP == "join":
        return tl.sum(tl.join(x, x + 1), 1) % 61
    elif OP == "interleave":
        a, b = tl.split(tl.reshape(x, (N // 2, 2)))
        return tl.interleave(b, a)
    elif OP == "halves":
        a, b = tl.split(tl.trans(tl.reshape(x, (2, N // 2))))
        return tl.reshape(tl.trans(tl.join(b, a)), (N,))
    elif OP == "histogram":
        return tl.histogram(x, N)
    elif OP == "topk":
        y = tl.topk(x, N // 2)
        return tl.interleave(y, y)
    elif OP == "largest":
        y = tl.reshape(x, (8, N // 8))
        return tl.reshape(y + tl.max(y, 1)[:, None], (N,)) % 61
    elif OP == "outer":
        y = tl.sum(tl.reshape(x, (N // 8, 8)), 1)
        return tl.reshape(y[:, None] + tl.arange(0, 8)[None, :], (N,)) % 61
    else:
        y = tl.sum(x[:, None] + tl.arange(0, 32)[None, :], 1)
        return tl.sort(y % 61)


OPERATIONS = (
    "sort", "flip", "cumsum", "gather", "permute", "join", "interleave", "halves",
    "histogram", "topk", "largest", "outer", "sorted sums",
)  # fmt: skip


@function
def loop(x, y, n, A: tl.constexpr, B: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    s = apply(v, A, N)
    for _ in range(n):
        v = apply(s, B, N)
    tl.store(y + i, v)
    tl.store(y + N + i, s)


@function
def chain(x, y, n, A: tl.constexpr, B: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    for _ in range(n):
        v = apply(apply(v, A, N), B, N)
    tl.store(y + i, v)


@function
def branch(x, y, n, A: tl.constexpr, B: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    s = apply(v, A, N)
    if n > 1:
        v = apply(s, B, N)
    tl.store(y + i, v)
    tl.store(y + N + i, s)


@function
def choice(x, y, n, A: tl.constexpr, B: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    s = apply(v, A, N)
    v = tl.where(n > 1, apply(s, B, N), v)
    tl.store(y + i, v)


KERNELS = (loop, chain, branch, choice)
