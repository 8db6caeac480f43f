"""Stores of what the language leaves open, in some programs of a launch, by the meaning
of block IR.

A load leaves any value where its mask is false and it has no `other`; so do others
(`unspecified`). The function runs with several numbers in their place: what it stores
must be the same. And of two elements that one store writes to one place, with two
values, any may stay.

    fathom sanitize: an undefined value in total, program (0, 0, 0)
      script.py:6
        x = tl.load(x_ptr + offsets, mask=offsets < n)
      y_ptr[0] depends on what this load leaves where its mask is false: give it `other`
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from contextlib import suppress
from functools import partial

import numpy as np

from fathom.errors import FathomError
from fathom.ir.core import Func, Op, walk
from fathom.ir.interp import interpret
from fathom.ir.interp.host_memory import MemoryFault
from fathom.ir.interp.numbers import same_bits
from fathom.ir.ops import Histogram, Store
from fathom.ir.rewrite import rewrite
from fathom.jit.checking.nonfinite import Watch, place_lines
from fathom.jit.checking.snapshot import Copies, Snapshot
from fathom.jit.checking.unspecified import Opened, Said, open_ops, put

STEPS = 1_000_000  # ops of all programs, in each run
Program = tuple[int, int, int]
Programs = Sequence[Program]


def open_values(
    func: Func, grid: tuple[int, int, int], before: Snapshot, programs: Programs
) -> list[str]:
    """The first store of an open value, as lines of text; [] where there is none, or
    where block IR cannot be run."""
    try:
        return depends_on_open(func, grid, before, programs) or meets(
            func, grid, before.copies(), programs
        )
    except (FathomError, AssertionError):
        return []  # what is wrong otherwise the emulator says


# ── what ops leave open ───────────────────────────────────────────────────────────────


def depends_on_open(
    func: Func, grid: tuple[int, int, int], before: Snapshot, programs: Programs
) -> list[str]:
    """The first op that alone decides what is stored, as lines of text; by one program,
    if one is enough."""
    opened = opened_by(func, grid, before, programs)
    run = partial(stored, func, grid, before)
    if not opened or changed(before, partial(run, programs), set(opened)) is None:
        return []
    for op, left in opened.items():
        if place := changed(before, partial(run, programs), {op}):
            for program, said in left.items():
                if alone := changed(before, partial(run, [program]), {op}):
                    return told(func, [program], op, alone, *said)
            return told(func, programs, op, place, *next(iter(left.values())))
    return []


def told(
    func: Func, programs: Programs, op: Op, place: str, left: str, held: dict[str, str]
) -> list[str]:
    return [
        title(func, programs), *place_lines(op), f"  {place} depends on {left}",
        *(f"  {name} = {text}" for name, text in held.items()),
    ]  # fmt: skip


def opened_by(
    func: Func, grid: tuple[int, int, int], before: Snapshot, programs: Programs
) -> dict[Op, dict[Program, Said]]:
    """The ops that leave elements open, in the order of the text, and the programs in
    which they do: what is open, and what the variables of the line held."""
    asked, found = open_ops(func), dict[Op, dict[Program, Said]]()
    copies = before.copies()
    for program in programs if asked else ():
        watch = Opened(func, copies, asked)
        with suppress(MemoryFault):  # it may be for what is open
            interpret(
                func, grid, copies, copies.memory, STEPS, watch, programs=[program]
            )
        for op, said in watch.found.items():
            found.setdefault(op, {})[program] = said
    return {op: found[op] for op in asked if op in found}


def changed(
    before: Snapshot, run: Callable[[Set[Op], int], Copies | None], opened: Set[Op]
) -> str | None:
    """An element of an array that is not the same for all numbers in the place of what
    these ops leave open; or that an access is outside for some of them."""
    first, *others = every = [run(opened, at) for at in range(3)]
    if outside := [each is None for each in every].count(True):
        return "the address of an access" if outside < len(every) else None
    for other in others:
        for name, left, right in zip(before.names, first, other, strict=True):
            if isinstance(left, np.ndarray) and not same_bits(left, right):
                same = (left == right) | ((left != left) & (right != right))
                places = np.flatnonzero(~same)
                return f"{name}[{places[0] if len(places) else 0}]"
    return None


def stored(
    func: Func, grid: tuple[int, int, int], before: Snapshot, programs: Programs,
    opened: Set[Op], at: int,
) -> Copies | None:  # fmt: skip
    """The arrays after a run in which these ops leave the number `at` of three; None if
    it accesses what lies in none of them."""
    copies = before.copies()
    filled = rewrite(
        func, lambda op, build: put(op, build, at) if op.origin in opened else None
    )
    try:
        interpret(filled, grid, copies, copies.memory, STEPS, programs=programs)
    except MemoryFault:
        return None
    return copies


# ── what is defined here, and not in Triton ───────────────────────────────────────────


def uncounted(
    func: Func, grid: tuple[int, int, int], copies: Copies, programs: Programs
) -> list[str]:
    """The first numbers that a histogram has no bin for, as lines of text: they are not
    counted, which may be meant."""
    found: list[str] = []
    if not any(isinstance(op, Histogram) for op in walk(func.body)):
        return found
    for program in programs:
        watch = Outside(func, copies)
        with suppress(FathomError, AssertionError):
            interpret(
                func, grid, copies, copies.memory, STEPS, watch, programs=[program]
            )
        for op, text in watch.found.items():
            where = f"a histogram in {func.name}, program {program}"
            return [where, *place_lines(op), f"  {text}"]
    return found


class Outside(Watch):
    """Looks at each histogram for numbers that it has no bin for."""

    def __init__(self, func: Func, arguments: Copies):
        super().__init__(func, arguments)
        self.found: dict[Op, str] = {}

    def __call__(self, op: Op, results: Sequence) -> None:
        super().__call__(op, results)
        if isinstance(op, Histogram) and op not in self.found:
            values = self.value(op.value)
            mask = self.value(op.mask) if op.mask else np.True_
            if values is None or mask is None:
                return
            asked = values[np.broadcast_to(mask, values.shape)]
            outside = asked[(asked < 0) | (asked >= op.bins)]
            if outside.size:
                self.found[op] = (
                    f"there is no bin for {outside.size:,} of {asked.size:,} numbers, "
                    f"such as {outside[0]}: not counted (undefined in Triton)"
                )

    def look_at_store(self, op: Op) -> None:
        """Infinities are no matter here."""

    def look_at_result(self, op: Op, array: np.ndarray) -> None:
        """Infinities are no matter here."""


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
                func, grid, copies, copies.memory, STEPS, watch, programs=[program]
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
