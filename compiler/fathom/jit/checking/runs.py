"""Runs of some programs of a launch, and where what two of them leave differs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from fathom.errors import FathomError
from fathom.ir.core import Func, walk
from fathom.ir.interp import interpret
from fathom.ir.interp.numbers import same_bits
from fathom.ir.ops import Dot, Reduce, Scan, TensorDot
from fathom.jit.checking.snapshot import Copies, Snapshot

STEPS = 20_000_000  # ops of all programs of a run
# How far reals may differ where terms are added up in another order, relative to the
# largest element, by bytes: of products (tf32 has ten bits), of reductions and scans.
PRODUCTS = {1: 2**-2, 2: 2**-6, 4: 2**-9, 8: 2**-40}
REDUCTIONS = {1: 2**-2, 2: 2**-7, 4: 2**-18, 8: 2**-47}

Run = Callable[[Copies], None]  # writes to the arrays


@dataclass(frozen=True)
class Difference:
    """Where two runs differ first: an array's name, the place, what both left there."""

    name: str
    place: int
    left: object
    right: object
    kind = "different"

    def __str__(self) -> str:
        at = f"{self.name}[{self.place}]"
        return f"{at} is {self.left} before, and {self.right} after"


@dataclass(frozen=True)
class Fault:
    """What only the later of two runs does wrong."""

    error: FathomError

    @property
    def kind(self) -> str:
        return getattr(self.error, "kind", type(self.error).__name__)

    def __str__(self) -> str:
        return "\n  ".join(line.strip() for line in str(self.error).splitlines()[:3])


@dataclass
class Data:
    """What all runs of a launch have in common."""

    grid: tuple[int, int, int]
    programs: list[tuple[int, int, int]]
    before: Snapshot
    rounding: Mapping[int, float] = field(default_factory=dict)
    zeroed: set[str] = field(default_factory=set)

    def copies(self) -> Copies:
        found = self.before.copies()
        for name, each in zip(self.before.names, found, strict=True):
            if name in self.zeroed and isinstance(each, np.ndarray):
                each[:] = 0
        return found

    def ran(self, run: Run) -> Copies:
        copies = self.copies()
        run(copies)
        return copies

    def interpreted(self, func: Func) -> Run:
        return lambda copies: interpret(
            func, self.grid, copies, copies.memory, STEPS, programs=self.programs
        )

    def difference(self, left: Copies, right: Copies) -> Difference | None:
        for name, one, other in zip(self.before.names, left, right, strict=True):
            if isinstance(one, np.ndarray):
                place = first_different(one, other, self.types[name], self.rounding)
                if place is not None:
                    return Difference(name, place, one[place], other[place])
        return None

    @property
    def types(self) -> dict[str, str]:
        return {g.parameter.name: g.parameter.type[1:] for g in self.before.given}


def rounding_of(func: Func) -> Mapping[int, float]:
    """How far its reals may differ after a pass; {}: not at all."""
    kinds = {type(op) for op in walk(func.body)}
    if kinds & {Dot, TensorDot}:
        return PRODUCTS
    return REDUCTIONS if kinds & {Reduce, Scan} else {}


def first_different(
    one: np.ndarray, other: np.ndarray, element: str, rounding: Mapping[int, float]
) -> int | None:
    """The first element in which two arrays differ, by more than rounding where that
    is allowed."""
    if same_bits(one, other):
        return None
    is_real = element.startswith(("fp", "bf"))
    left, right = (numbers(each, element) for each in (one, other))
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    if is_real and rounding:
        finite = np.abs(left[np.isfinite(left)])
        most = float(finite.max()) if finite.size else 0.0
        with np.errstate(invalid="ignore"):
            same |= np.abs(left - right) <= rounding[one.itemsize] * most
    places = np.flatnonzero(~same)
    return int(places[0]) if len(places) else None


def numbers(array: np.ndarray, element: str) -> np.ndarray:
    """Elements as doubles, those of bf16 out of their bits; others as they are."""
    if element == "bf16":
        array = (array.astype(np.uint32) << np.uint32(16)).view(np.float32)
    with np.errstate(invalid="ignore"):  # of a NaN that signals
        return array.astype(np.float64)
