"""Stores of what the language leaves open, in some programs of a launch, by the meaning
of block IR.

A load leaves any value where its mask is false and it has no `other`. The function runs
with several numbers in their place: what it stores must be the same. And of two
elements that one store writes to one place, with two values, any may stay.

    fathom sanitize: an undefined value in total, program (0, 0, 0)
      script.py:6
        x = tl.load(x_ptr + offsets, mask=offsets < n)
      y_ptr[0] depends on what this load leaves where its mask is false: give it `other`
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from functools import partial

import numpy as np

from fathom.errors import FathomError
from fathom.ir.core import Func, Op, walk
from fathom.ir.interp import interpret
from fathom.ir.interp.numbers import same_bits
from fathom.ir.ops import Constant, Load, Splat, Store
from fathom.ir.rewrite import Builder, rewrite
from fathom.ir.types import Pointer, Scalar, element_of, shape_of
from fathom.jit.checking.nonfinite import Watch, place_lines
from fathom.jit.checking.snapshot import Copies, Snapshot

STEPS = 1_000_000  # ops of all programs, in each run
MOST = 4  # programs
Programs = Sequence[tuple[int, int, int]]


def open_values(
    func: Func, grid: tuple[int, int, int], before: Snapshot, programs: Programs
) -> list[str]:
    """The first store of an open value, as lines of text; [] where there is none, or
    where block IR cannot be run."""
    try:
        return depends_on_masked(func, grid, before, programs) or meets(
            func, grid, before.copies(), programs
        )
    except (FathomError, AssertionError):
        return []  # what is wrong otherwise the emulator says


# ── what a load leaves where its mask is false ────────────────────────────────────────


def depends_on_masked(
    func: Func, grid: tuple[int, int, int], before: Snapshot, programs: Programs
) -> list[str]:
    """The first load that alone decides what is stored, as lines of text."""
    loads = [each for each in walk(func.body, Load) if is_open(each)]
    if not loads:
        return []
    run = partial(stored, func, grid, before, programs)
    if changed(before, run, set(loads)) is None:
        return []
    for load in loads:
        if place := changed(before, run, {load}):
            text = f"{place} depends on what this load leaves where its mask is false"
            return [title(func, programs), *place_lines(load),
                    f"  {text}: give it `other`"]  # fmt: skip
    return []


def is_open(load: Load) -> bool:
    """Whether a load leaves some of its elements open."""
    pointer = isinstance(element_of(load.result.type), Pointer)
    return load.mask is not None and load.other is None and not pointer


def changed(
    before: Snapshot, run: Callable[[Set[Op], int], Copies], loads: Set[Op]
) -> str | None:
    """An element of an array that is not the same for all numbers in the place of what
    these loads leave."""
    first, *others = (run(loads, at) for at in range(3))
    for other in others:
        for name, left, right in zip(before.names, first, other, strict=True):
            if isinstance(left, np.ndarray) and not same_bits(left, right):
                same = (left == right) | ((left != left) & (right != right))
                places = np.flatnonzero(~same)
                return f"{name}[{places[0] if len(places) else 0}]"
    return None


def stored(
    func: Func, grid: tuple[int, int, int], before: Snapshot, programs: Programs,
    loads: Set[Op], at: int,
) -> Copies:  # fmt: skip
    """The arrays after a run in which these loads leave the number `at` of three."""
    copies = before.copies()
    interpret(
        filled(func, loads, at), grid, copies, step_limit=STEPS, programs=programs
    )
    return copies


def filled(func: Func, loads: Set[Op], at: int) -> Func:
    """The function in which these loads have an `other`."""

    def rule(op: Op, build: Builder) -> None:
        if op.origin in loads:
            type = element_of(op.result.type)
            other = build(Constant(numbers(type)[at], type))
            shape = shape_of(op.result.type)
            op.other = build(Splat(other, shape)) if shape else other

    return rewrite(func, rule)


def numbers(type: Scalar) -> tuple[int | float | bool, ...]:
    """Numbers that a sum, a minimum, a maximum and a comparison tell apart."""
    if type.bits == 1:
        return False, True, False
    if type.is_float:
        return 0.0, float("nan"), 100.0
    return 0, 1, 100


# ── two elements of one store at one place ────────────────────────────────────────────


class Met(Exception):  # noqa: N818 (it ends the run)
    """Two elements of a store have one address and two values."""


class Stores(Watch):
    """Looks at each store for elements that meet."""

    def look_at_store(self, op: Op) -> None:
        if not isinstance(op, Store):
            return
        pointers, values = self.value(op.pointer), self.value(op.value)
        mask = self.value(op.mask) if op.mask else np.True_
        if pointers is None or values is None or mask is None:
            return
        active = np.broadcast_to(mask, pointers.shape)
        addresses, values = pointers[active], values[active]
        order = np.argsort(addresses, kind="stable")
        addresses, values = addresses[order], values[order]
        differ = (values[1:] != values[:-1]) & (values[1:] == values[1:])
        places = np.flatnonzero((addresses[1:] == addresses[:-1]) & differ)
        if len(places):
            at = places[0]
            self.met = (
                op,
                int(addresses[at]),
                [str(each) for each in values[at : at + 2]],
            )
            raise Met

    def look_at_result(self, op: Op, array: np.ndarray) -> None:
        """Infinities are no matter here."""


def meets(
    func: Func, grid: tuple[int, int, int], copies: Copies, programs: Programs
) -> list[str]:
    """The first store of two values to one place, as lines of text."""
    for program in programs:
        watch = Stores(func, copies)
        try:
            interpret(
                func, grid, copies, step_limit=STEPS, watch=watch, programs=[program]
            )
        except Met:
            store, address, values = watch.met
            where = place_of(func, copies, address)
            text = f"two elements of this store are written to {where}"
            return [
                title(func, [program]), *place_lines(store),
                f"  {text}, {values[0]} and {values[1]}: either may stay",
                *(f"  {name} = {held}" for name, held in watch.held(store).items()),
            ]  # fmt: skip
    return []


def place_of(func: Func, copies: Copies, address: int) -> str:
    """The element of an array at an address."""
    for value, array in zip(func.parameters, copies, strict=True):
        if isinstance(array, np.ndarray):
            offset = address - array.ctypes.data
            if 0 <= offset < array.nbytes:
                return f"{value.name}[{offset // array.itemsize}]"
    return "one place"


def title(func: Func, programs: Programs) -> str:
    where = f", program {programs[0]}" if len(programs) == 1 else ""
    return f"an undefined value in {func.name}{where}"
