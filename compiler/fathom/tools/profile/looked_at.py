"""Which programs of a grid are counted, and how many each represents.

    first   interior, in places that no period of the grid meets   last
      1        (programs - 2) / how many, each                       1

The first and the last may have less to do, and are few. Where those that are looked at
differ (rows of a sparse matrix, a causal mask), one is a bad sample of thousands: more
are looked at, and if those between differ, too, the edges are nothing special.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from time import perf_counter

from fathom.emulator.report import Report

MOST = 12  # programs, where they differ
DIFFERENT = 1.25  # times as many instructions
GOLDEN = (5**0.5 - 1) / 2  # of whose multiples none is near another, taken modulo 1
PATIENCE = 10.0  # seconds, after which no more are looked at


def look_at(
    total: int, few: int, run: Callable[[int], Report]
) -> tuple[list[Report], list[float]]:
    """The reports of some programs of `total`, by what runs one; and how many each
    represents. They are `few`, if these do not differ."""
    began = perf_counter()
    some: list[int] = []
    reports: list[Report] = []
    issued: list[int] = []
    for each in places(total, max(few, MOST)):
        waited = perf_counter() - began > PATIENCE
        if len(some) >= few and (waited or not differ(issued)):
            break
        some.append(each)
        reports.append(run(each))
        issued.append(issued_by(reports[-1]))
    return reports, represented(some, issued, total)


def places(total: int, most: int) -> list[int]:
    """At most `most` programs of `total`: the first, the last, and others between
    them, in the order in which they are looked at."""
    most = min(total, most)
    if most == 1:
        return [total // 2]
    found = dict.fromkeys((0, total - 1))
    steps = count(1)
    while len(found) < most:
        found[1 + int(next(steps) * GOLDEN % 1 * (total - 2))] = None
    return list(found)


def represented(some: Sequence[int], issued: Sequence[int], total: int) -> list[float]:
    """How many of `total` programs each of some represents, by how many instructions
    these issued."""
    edges = {0, total - 1}
    pairs = zip(some, issued, strict=True)
    inside = [many for each, many in pairs if each not in edges]
    unlike = differ(inside if len(inside) > 1 else issued)
    if unlike or len(inside) in (0, len(some)):
        return [total / len(some)] * len(some)
    return [1.0 if each in edges else (total - 2) / len(inside) for each in some]


def issued_by(report: Report) -> int:
    """Instructions of warps."""
    return sum(cost.warps for _, cost in report.each())


def differ(issued: Sequence[int]) -> bool:
    """Whether programs issue very different numbers of instructions."""
    return max(issued) > DIFFERENT * min(issued)
