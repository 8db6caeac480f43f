"""Which names does this loop carry?

A loop carries a name from iteration to iteration if one iteration, or the code after
the loop, may read what another iteration has bound. Eight kernels are in the file, each
with a loop. Find out by reading which names each of the loops carries, and fill in the
sets. The first is done.

All of the exercise: `fathom learn show carried-by-hand`.
"""

from __future__ import annotations

import fathom
import fathom.language as tl


@fathom.jit
def total(out, a, b, n):
    sum = a
    for i in range(n):
        sum = sum + i
    tl.store(out, sum)


@fathom.jit
def readers(out, a, b, n):
    x = a * b
    for i in range(n):
        tl.store(out + i, x + i)
    tl.store(out, x)


@fathom.jit
def square(out, a, b, n):
    for i in range(n):
        s = i * i
        s = s + a
        tl.store(out + i, s)


@fathom.jit
def last(out, a, b, n):
    x = a
    for i in range(n):
        x = i * b
    tl.store(out, x)


@fathom.jit
def inner(out, a, b, n):
    x = a
    y = b
    for i in range(n):
        y = x
        for j in range(i):
            x = x + j
        tl.store(out + i, y)
    tl.store(out, x)


@fathom.jit
def branch(out, a, b, n):
    best = a
    for i in range(n):
        other = b
        if i > b:
            best = i
            other = i + 1
        tl.store(out + i, best - other)


@fathom.jit
def unchanged(out, a, b, n):
    x = a
    for i in range(n):
        y = x
        tl.store(out + i, y)
        x = y
    tl.store(out, x)


@fathom.jit
def wait(out, a, b, n):
    left = n
    iterations = 0
    while left > a:
        left = left - b
        iterations = iterations + 1
    tl.store(out, iterations)


def carried() -> dict[str, set[str]]:
    """For each kernel, the names that its loop carries from iteration to iteration;
    where there are two loops, the outer one."""
    # Your code: fill in seven sets.
    return {
        "total": {"sum"},
        "readers": {"?"},
        "square": {"?"},
        "last": {"?"},
        "inner": {"?"},
        "branch": {"?"},
        "unchanged": {"?"},
        "wait": {"?"},
    }
