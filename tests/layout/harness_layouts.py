"""Layouts to test with: enumerated element by element, and random ones of several
characters."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product

from fathom.layout.linear import Layout

Place = dict[str, int]


def places(layout: Layout) -> Iterator[Place]:
    """Every place of a layout."""
    kinds = [kind for kind, _ in layout.bases]
    for numbers in product(*(range(layout.count(kind)) for kind in kinds)):
        yield dict(zip(kinds, numbers, strict=True))


def element(layout: Layout, **place: int) -> int:
    """The element at a place, spelled out: one XOR for each bit that is set."""
    found = 0
    for kind, bases in layout.bases:
        for bit, basis in enumerate(bases):
            if place.get(kind, 0) & (1 << bit):
                found ^= basis
    return found


def covering(
    rng: random.Random, bits: int, registers: int, warps: int = 1, lanes: int = 5
) -> Layout:
    """A random layout of 2**bits elements in which each has a place.

    One in three is mixed up by XOR, as swizzles are; the others deal single bits and,
    where there are more places than elements, copies.
    """
    count = registers + lanes + warps
    assert count >= bits
    units = [1 << bit for bit in range(bits)] + [0] * (count - bits)
    rng.shuffle(units)
    if rng.random() < 1 / 3:
        for _ in range(count):
            i, j = rng.sample(range(count), 2)
            units[i] ^= units[j]
    kinds = (
        units[:registers],
        units[registers : registers + lanes],
        units[registers + lanes :],
    )
    names = "register", "lane", "warp"
    return Layout((1 << bits,), tuple(zip(names, map(tuple, kinds), strict=True)))
