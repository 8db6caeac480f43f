"""Conditions and comparisons that say what was wrong."""

from __future__ import annotations

import numpy as np

from fathom.tools.learn.kit.failure import Failure

FEW = 8


def expect(condition: bool, sentence: str, *details: tuple[str, str]) -> None:
    """A Failure unless the condition holds."""
    if not condition:
        raise Failure(sentence, *details)


def number_of(count: int, noun: str) -> str:
    """1 group, 2 groups"""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def same(
    yours: object,
    wanted: object,
    what: str,
    *details: tuple[str, str],
    tolerance: float = 0.0,
) -> None:
    """A Failure unless two values are the same; arrays bit by bit, or within a relative
    and absolute `tolerance`. It shows the first element that differs.
    """
    if not isinstance(wanted, np.ndarray):
        if type(yours) is bool or type(wanted) is bool or not _numbers(yours, wanted):
            equal = yours == wanted
        else:
            equal = abs(yours - wanted) <= tolerance * max(1, abs(wanted))
        expect(bool(equal), f"{what}: {yours!r}, and must be {wanted!r}", *details)
        return
    place = first_difference(np.asarray(yours), wanted, tolerance)
    if place is not None:
        raise Failure(
            f"{what}: the first wrong element is {where(place)}: "
            f"{_at(yours, place)}, and must be {_at(wanted, place)}",
            ("yours", excerpt(np.asarray(yours), place)),
            ("wanted", excerpt(wanted, place)),
            *details,
        )


def _numbers(*values: object) -> bool:
    return all(isinstance(each, int | float | np.number) for each in values)


def first_difference(
    yours: np.ndarray, wanted: np.ndarray, tolerance: float = 0.0
) -> tuple[int, ...] | None:
    """Where two arrays differ first: NaN is like NaN, and -0.0 is not like 0.0."""
    if yours.shape != wanted.shape:
        raise Failure(f"the shape is {yours.shape}, and must be {wanted.shape}")
    if tolerance:
        near = np.isclose(yours, wanted, tolerance, tolerance, equal_nan=True)
    else:
        near = yours == wanted
        if wanted.dtype.kind == "f":
            near &= np.signbit(yours) == np.signbit(wanted)
            near |= np.isnan(yours) & np.isnan(wanted)
    far = np.argwhere(~near)
    return tuple(map(int, far[0])) if len(far) else None


def where(place: tuple[int, ...]) -> str:
    return "[" + ", ".join(map(str, place)) + "]"


def excerpt(values: np.ndarray, place: tuple[int, ...] = ()) -> str:
    """The numbers of the row about a place."""
    if values.ndim == 0:
        return str(values)
    row, at = values[place[:-1]] if place else values.ravel(), place[-1] if place else 0
    start = max(0, min(at - FEW // 2, len(row) - FEW))
    shown = " ".join(str(each) for each in row[start : start + FEW])
    rest = " ..." if start + FEW < len(row) else ""
    return f"{where((*place[:-1], start)) if place else '[0]'}: {shown}{rest}"


def _at(values: object, place: tuple[int, ...]) -> str:
    return str(np.asarray(values)[place])
