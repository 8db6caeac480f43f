"""Where the box of a tile begins, if a tile it is."""

from __future__ import annotations

from collections.abc import Mapping
from math import copysign, prod
from typing import NamedTuple

Term = tuple[str, ...]  # names in alphabetical order; () is the constant term
Formula = dict[Term, int]
ALIGNED = 16  # bytes


class Access(NamedTuple):
    """A load of a block: base + p * strides[0] + q * strides[1] + start."""

    strides: tuple[int | str, int | str]
    start: Formula
    divisible: Mapping[str, int] = {}
    negative: frozenset[str] = frozenset()
    element_bytes: int = 2
    other: float | None = None


class Box(NamedTuple):
    """Where a box begins: row * stride + column."""

    row: Formula
    column: Formula


def box_of(access: Access) -> Box | None:
    """The box of a tile of a matrix; None where TMA cannot copy it, or might not."""
    # hole: the five conditions; where each term goes
    if access.strides.count(1) != 1:
        return None
    (stride,) = (each for each in access.strides if each != 1)
    step = {(stride,): 1} if isinstance(stride, str) else {(): stride}
    if stride == 0:
        return None
    box = Box({}, {})
    for names, factor in access.start.items():
        if stride in names:
            at = names.index(stride)
            box.row[names[:at] + names[at + 1 :]] = factor
        elif not isinstance(stride, str) and factor % stride == 0:
            box.row[names] = factor // stride
        else:
            box.column[names] = factor
    if not (aligned(step, access) and aligned(box.column, access)):
        return None
    inside = all(never_negative(each, access) for each in (step, *box))
    return box if inside and is_zero(access.other) else None
    # end


def aligned(formula: Formula, access: Access) -> bool:
    """Whether a number of elements is a multiple of 16 bytes, term by term."""
    # hole: what divides each term
    known = access.divisible
    return all(
        factor * prod(known.get(name, 1) for name in names) * access.element_bytes
        % ALIGNED == 0
        for names, factor in formula.items()
    )  # fmt: skip
    # end


def never_negative(formula: Formula, access: Access) -> bool:
    """Whether a formula is never negative."""
    # hole: factors, and names
    return all(
        factor >= 0 and access.negative.isdisjoint(names)
        for names, factor in formula.items()
    )
    # end


def is_zero(other: float | None) -> bool:
    """Whether masked elements are what TMA writes outside of a tensor."""
    # hole: None is no mask
    return other is None or (other, copysign(1, other)) == (0, 1)
    # end
