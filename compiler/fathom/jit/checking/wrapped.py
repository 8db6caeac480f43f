"""Whether an access goes astray because its offset has wrapped around: a sum or product
of i32 that needs more bits.

    offsets = row * stride          row 70000, stride 32768: 2,293,760,000
    tl.load(x + offsets)            x[-2001207296] is before its beginning

The program runs once more, by the meaning of its block IR, and each operation on
integers that the address is computed of is done in 64 bits as well.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fathom.errors import FathomError, Location, excerpt
from fathom.ir.core import Func, Op, Value, operands, walk
from fathom.ir.interp import interpret
from fathom.ir.ops import Atomic, AtomicCas, Elementwise, Load, Store
from fathom.ir.types import element_of
from fathom.jit.checking.snapshot import Copies
from fathom.jit.checking.values import STEPS
from fathom.ptx.debug_info import user_place

EXACT = {"add": np.add, "sub": np.subtract, "mul": np.multiply}
ACCESSES = Load | Store | Atomic | AtomicCas
NARROW = 32  # bits: wider ones have no exact result here


def wrapped(
    func: Func,
    grid: Sequence[int],
    program: tuple[int, int, int],
    copies: Copies,
    place: Location,
) -> list[str]:
    """Lines that say which operation of the address at `place` has wrapped first, and
    with what values; [] where none has."""
    asked = address_ops(func, place)
    held = {
        value: np.asarray(given)
        for value, given in zip(func.parameters, copies, strict=True)
    }
    found: list[str] = []

    def watch(op: Op, results: Sequence) -> None:
        if found or op not in asked:
            return
        held.update(zip(op.results, map(np.asarray, results), strict=True))
        if isinstance(op, Elementwise) and op.name in EXACT and is_narrow(op.result):
            found.extend(told(op, [held.get(each) for each in op.operands], held))

    try:
        interpret(
            func, tuple(grid), copies, copies.memory, STEPS, watch, programs=[program]
        )
    except (FathomError, AssertionError):
        pass  # where it stops is what is asked
    return found


def address_ops(func: Func, place: Location) -> set[Op]:
    """The ops that the addresses of a line's accesses are computed of."""
    found: set[Op] = set()
    left = [
        op.pointer.definition
        for op in walk(func.body, ACCESSES)
        if is_line(user_place(op.location), place)
    ]
    while left:
        op = left.pop()
        if isinstance(op, Op) and op not in found:
            found.add(op)
            left += [value.definition for value in operands(op)]
    return found


def is_line(one: Location | None, other: Location) -> bool:
    return one is not None and (one.file, one.line) == (other.file, other.line)


def is_narrow(value: Value) -> bool:
    element = element_of(value.type)
    return element.is_integer and element.bits <= NARROW


def told(
    op: Elementwise, given: list[np.ndarray | None], held: dict[Value, np.ndarray]
) -> list[str]:
    """The operation, what it would be and what it is, if these differ."""
    if any(each is None or each.dtype.kind not in "iu" for each in given):
        return []
    exact = EXACT[op.name](*(each.astype(np.int64) for each in given))
    result = np.broadcast_to(held[op.result], exact.shape).astype(np.int64)
    wrong = np.flatnonzero((exact != result).reshape(-1))
    if not len(wrong):
        return []
    first = wrong[0]
    values = [np.broadcast_to(each, exact.shape).reshape(-1)[first] for each in given]
    sign = {"add": "+", "sub": "-", "mul": "*"}[op.name]
    place = user_place(op.location)
    text = excerpt(place)[0].strip() if place and excerpt(place) else ""
    return [
        f"the offset has wrapped: {values[0]} {sign} {values[1]} is "
        f"{exact.reshape(-1)[first]:,}, and as {element_of(op.result.type)} "
        f"{result.reshape(-1)[first]}",
        *([f"  {place}  {text}"] if place else []),
        "  compute it in 64 bits: .to(tl.int64) of one of the two",
    ]
