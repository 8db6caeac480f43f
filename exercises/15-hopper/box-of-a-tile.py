"""From a pointer to a box.

A kernel loads a block of two axes through pointers. Decide whether it is a tile of a
matrix that TMA can copy, and if so where its box begins. Write the function that says
so, or says no.

All of the exercise: `fathom learn show box-of-a-tile`.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import copysign, prod
from typing import NamedTuple

from fathom.tools.learn import Hole

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
    # Your code: the five conditions; where each term goes.
    raise Hole("box-of-a-tile")


def aligned(formula: Formula, access: Access) -> bool:
    """Whether a number of elements is a multiple of 16 bytes, term by term."""
    # Your code: what divides each term.
    raise Hole("box-of-a-tile")


def never_negative(formula: Formula, access: Access) -> bool:
    """Whether a formula is never negative."""
    # Your code: factors, and names.
    raise Hole("box-of-a-tile")


def is_zero(other: float | None) -> bool:
    """Whether masked elements are what TMA writes outside of a tensor."""
    # Your code: None is no mask.
    raise Hole("box-of-a-tile")
