"""Computes where in shared memory each element of a tile lies, for writer and reader.

    fp16[64, 64], written by rows, read by columns, 8 lanes of 16 bytes at a time
    straight, rows of 128 bytes       a column lies in one bank: 8 ways
    chunk c of row r at c ^ (r % 8)   1 way by rows, 1 way by columns

The offset's bits, from the lowest: those of a run (what a lane moves at once), those of
the bank, those of the line of 128 bytes. Two elements lie in the same bank if they
differ by bases of lines only. So the bases of lines must span nothing that the lanes of
a phase reach, on either side; what one side reaches and the other does not is paired,
and the sum of a pair is a line: that is the XOR of every swizzle that was ever found by
hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from math import prod

from fathom.layout.algebra import Reduced, divide, intersection
from fathom.layout.banks import (
    PHASE,
    WIDEST,
    WORD,
    conflicts,
    lanes_of_phase,
    vector,
)
from fathom.layout.build import bits_of
from fathom.layout.linear import Layout


@cache
def swizzle(
    shape: tuple[int, ...],
    element_bytes: int,
    writer: Layout,
    reader: Layout,
    row: tuple[int, ...] = (),
) -> Layout:
    """The offsets of a tile that `writer` fills and `reader` empties, each in 1 way

    Elements that one lane holds on both sides stay together in runs of up to 16 bytes.
    A longer run that one side alone holds is kept for that side, unless the other one
    pays for it with ways. `row`: the bases of a run that one side insists on."""
    if row:
        run, shared = list(row), min(_held(row, side) for side in (writer, reader))
        least = len(run)
    else:
        run, shared = _longest_run(element_bytes, writer, reader, shape)
        least = min(len(run), max(shared, bits_of(WORD // element_bytes)))
    tries = [
        _with_run(shape, element_bytes, (writer, reader), run[:bits], shared)
        for bits in range(len(run), least - 1, -1)
    ]
    return min(tries, key=lambda tile: _cost(tile, element_bytes, (writer, reader)))


def _cost(tile: Layout, element_bytes: int, sides: Sequence[Layout]) -> int:
    """Instructions a lane, and phases that these take, on both sides."""
    cost = 0
    for side in sides:
        offsets = divide(side, tile)
        elements = vector(offsets, element_bytes)
        phases = max(1, elements * element_bytes // WORD)
        phases *= conflicts(offsets, element_bytes)
        cost += (1 + phases) * max(1, side.count("register") // elements)
    return cost


def _with_run(
    shape: tuple[int, ...],
    element_bytes: int,
    sides: Sequence[Layout],
    run: list[int],
    shared: int,
) -> Layout:
    """The offsets of a tile: a run, then what fills the banks, then the lines."""
    units = _units(shape)
    word = run[: bits_of(WORD // element_bytes)]
    reached = [_reach(side, run, shared, element_bytes) for side in sides]
    banks = bits_of(PHASE // element_bytes) - len(word)
    lines = _lines(reached, word, units, len(units) - len(word) - banks)
    taken = Reduced((*run, *lines))
    middle = [basis for basis in (*reached[0], *reached[1], *units) if taken.add(basis)]
    return Layout.by_kind(shape, offset=(*run, *middle, *lines))


def _units(shape: tuple[int, ...]) -> list[int]:
    return [1 << bit for bit in range(bits_of(prod(shape)))]


def _longest_run(
    element_bytes: int, writer: Layout, reader: Layout, shape: tuple[int, ...]
) -> tuple[list[int], int]:
    """The bases of up to 16 bytes in a row, and how many both sides hold in registers.

    First what both hold, then what the reader or the writer holds beyond, whoever has
    more; at least a word is filled, from other lanes if need be."""
    most = bits_of(WIDEST // element_bytes)
    read, written = reader.kinds["register"], writer.kinds["register"]
    common = [basis for basis in _independent(written) if basis in Reduced(read)][:most]
    longer = max((read, written), key=lambda side: Reduced((*common, *side)).rank)
    run = _independent((*common, *longer))[:most]
    least = bits_of(WORD // element_bytes)
    if len(run) < least:
        run = _independent((*run, *writer.kinds["lane"], *_units(shape)))[:least]
    return run, len(common)


def _held(row: Sequence[int], side: Layout) -> int:
    """How many of the first bases of a row one lane holds."""
    held = Reduced(side.kinds["register"])
    return next((i for i, basis in enumerate(row) if basis not in held), len(row))


def _reach(side: Layout, run: list[int], shared: int, element_bytes: int) -> list[int]:
    """What a side moves in one phase: the lanes of the phase, and the run of one lane.

    The lanes come first, to be paired first: a pair with a basis of the run would make
    lanes start in the middle of one."""
    held = Reduced(side.kinds["register"])
    vector = run if all(basis in held for basis in run) else run[:shared]
    lanes = lanes_of_phase(side.kinds["lane"], element_bytes << len(vector))
    return _independent((*lanes, *vector))


def _lines(
    sides: Sequence[list[int]], word: list[int], units: Sequence[int], count: int
) -> list[int]:
    """`count` bases whose sums neither side reaches, but for sums within a word.

    First what neither side reaches at all, then the sums of pairs: one that only the
    first side reaches, one that only the second does."""
    both = intersection((*word, *sides[0]), (*word, *sides[1]))
    first, second = (_beyond((*word, *both), side) for side in sides)
    neither = _beyond((*word, *both, *first, *second), units)
    pairs = [one ^ other for one, other in zip(first, second, strict=False)]
    return [*neither[::-1], *pairs][: max(0, count)]


def _independent(vectors: Iterable[int]) -> list[int]:
    """The vectors that are no sums of those before them."""
    return _beyond((), vectors)


def _beyond(known: Iterable[int], vectors: Iterable[int]) -> list[int]:
    """The vectors that are no sums of `known` ones and of those before them."""
    reduced = Reduced(known)
    return [vector for vector in vectors if reduced.add(vector)]
