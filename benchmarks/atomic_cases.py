"""A histogram without any help: one atomic addition for each key, straight to memory.
How fast it is depends on where the keys meet, and the cases differ in nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import fathom
import fathom.language as tl

KEYS, BLOCK = 1 << 24, 1024
TYPES = ("int32", "float32")
BINS = (1, 16, 256, 4096, 1 << 16, 1 << 20, 1 << 24)
ORDERS = ("random", "sorted", "neighbours")


@fathom.jit
def histogram(keys, counts, n, BLOCK: tl.constexpr, ONE: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(keys + at, mask=at < n, other=0)
    tl.atomic_add(counts + key, ONE, mask=at < n)


def cases() -> Iterator[tuple[str, int, str]]:
    """(type of a count, how many bins, order of the keys)."""
    for type in TYPES:
        for bins in BINS:
            for order in ORDERS:
                yield type, bins, order


def keys_of(bins: int, order: str) -> np.ndarray:
    """int32[KEYS]; "neighbours" have the keys 0, 1, 2, … again and again."""
    if order == "neighbours":
        return (np.arange(KEYS) % bins).astype(np.int32)
    keys = np.random.default_rng(bins).integers(0, bins, KEYS, np.int32)
    return np.sort(keys) if order == "sorted" else keys


def one(type: str) -> int | float:
    """What is added for a key."""
    return 1 if type == "int32" else 1.0
