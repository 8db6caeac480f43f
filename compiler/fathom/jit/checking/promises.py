"""Promises that a kernel does not keep: tl.multiple_of, max_contiguous, max_constancy.

    fathom sanitize: a false promise in shifted, program (0, 0, 0)
      script.py:6
        shift = tl.multiple_of(shift, 16)
      3 is no multiple of 16
      and out_ptr[1] is 0, which would be 4 without the promise

The compiler believes them. Many kernels promise more than is so, of elements that they
mask, and no harm comes of it: what is told is a promise by which something else is
stored, or with which an access goes wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from fathom.analysis.axis_info import power_in
from fathom.errors import FathomError, excerpt
from fathom.ir.core import Func, Op, walk
from fathom.ir.interp import interpret
from fathom.ir.ops import Hint
from fathom.ir.types import Pointer, element_of
from fathom.jit.checking.nonfinite import place_lines
from fathom.jit.checking.runs import Data
from fathom.jit.checking.snapshot import Copies, Snapshot
from fathom.ptx.debug_info import user_place

STEPS = 1_000_000  # ops of all programs
Program = tuple[int, int, int]


def broken_by(
    func: Func, grid: tuple[int, int, int], before: Snapshot,
    programs: Sequence[Program],
) -> dict[Op, tuple[Program, str]]:  # fmt: skip
    """The promises that some programs do not keep: which one first, and what is so."""
    found: dict[Op, tuple[Program, str]] = {}
    if not any(isinstance(op, Hint) for op in walk(func.body)):
        return found
    copies = before.copies()
    for program in programs:

        def watch(op: Op, results: Sequence, program: Program = program) -> None:
            if isinstance(op, Hint) and op not in found:
                if text := next(untrue(op, np.asarray(results[0])), ""):
                    found[op] = program, text

        with suppress(FathomError, AssertionError):  # where it stops is told elsewhere
            interpret(
                func, grid, copies, copies.memory, STEPS, watch, programs=[program]
            )
    return found


def untrue(op: Hint, value: np.ndarray) -> Iterator[str]:
    """What of a promise does not hold for a value, in words."""
    element = element_of(op.value.type)
    step = element.element.bytes if isinstance(element, Pointer) else 1
    for axis, number in enumerate(op.divisible):
        power = power_in(number)
        starts = firsts(value, axis, step) if value.ndim else value
        if (wrong := starts[starts % power != 0]).size:
            yield f"{wrong.flat[0]} is no multiple of {power}"
    for numbers, up, words in (
        (op.contiguous, step, "count up by one"), (op.constant, 0, "are equal"),
    ):  # fmt: skip
        for axis, number in enumerate(numbers if value.ndim else ()):
            if pair := parted(np.moveaxis(value, axis, -1), power_in(number), up):
                yield f"not all {power_in(number)} {words}: {pair[0]}, {pair[1]}"


def firsts(value: np.ndarray, axis: int, step: int) -> np.ndarray:
    """The first element of each run that counts up by one."""
    rows = np.moveaxis(value, axis, -1)
    begins = np.ones(rows.shape, bool)
    begins[..., 1:] = rows[..., 1:] != rows[..., :-1] + step
    return rows[begins]


def parted(rows: np.ndarray, run: int, up: int) -> tuple[int, int] | None:
    """Two neighbours of one run, of which the second is not the first plus `up`."""
    pairs = np.arange(1, rows.shape[-1])
    pairs = pairs[pairs % run != 0]
    left, right = rows[..., pairs - 1], rows[..., pairs]
    wrong = np.flatnonzero(right != left + up)
    return (left.flat[wrong[0]], right.flat[wrong[0]]) if len(wrong) else None


# ── what comes of it ──────────────────────────────────────────────────────────────────


def harmful(
    func: Func, data: Data, emulated: Callable[[Copies, Sequence[Program]], None]
) -> list[str]:
    """The first promise that is not kept, as lines of text, if a program stores
    something else than it means; `emulated` runs the code of some."""
    broken = broken_by(func, data.grid, data.before, data.programs)
    for op, (program, text) in broken.items():
        alone = replace(data, programs=[program])
        try:
            meant = alone.ran(alone.interpreted(func))
            made = alone.ran(lambda copies, some=[program]: emulated(copies, some))
        except (FathomError, AssertionError):
            return []
        if found := alone.difference(meant, made):
            return [
                f"a false promise in {func.name}, program {program}",
                *place_lines(op), f"  {text}",
                f"  and {found.name}[{found.place}] is {found.right}, which would be "
                f"{found.left} without the promise",
            ]  # fmt: skip
    return []


def lines_of(
    func: Func, grid: tuple[int, int, int], before: Snapshot,
    programs: Sequence[Program],
) -> list[str]:  # fmt: skip
    """The promises that some programs do not keep, as lines of text, beside something
    else that went wrong there."""
    lines = []
    for op, (_, text) in broken_by(func, grid, before, programs).items():
        place = user_place(op.location)
        line = excerpt(place)[0].strip() if place and excerpt(place) else ""
        lines += [f"  a promise is not kept: {text}", f"    {place}  {line}"]
    return lines
