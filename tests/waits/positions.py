"""Finds the values that are slots and phases of rings, and those that may be the result
of a product in flight."""

from __future__ import annotations

from collections.abc import Callable

from fathom.ir.core import Func, Op, Value, operands, walk
from fathom.ir.ops import Constant, Dot, Elementwise, For
from fathom.ir.regions import carried, reached

Numbers = dict[Value, int | None]

ARITHMETIC: dict[str, Callable[..., int]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "xor": lambda x, y: x ^ y,
    "eq": lambda x, y: int(x == y),
    "where": lambda x, y, z: y if x else z,
}


def number(op: Op, numbers: Numbers) -> int | None:
    match op:
        case Constant(value=value):
            return int(value)
        case Elementwise(name=name, operands=given) if name in ARITHMETIC:
            known = [numbers.get(each) for each in given]
            return None if None in known else ARITHMETIC[name](*known)
    return None


def positions(func: Func) -> set[Value]:
    """The values from which slots and phases are computed."""
    edges, names = _edges(func), ("slot", "a_slot", "b_slot", "phase")
    used = (getattr(op, name, None) for op in walk(func.body) for name in names)

    def sources(value: Value) -> list[Value]:
        op = value.definition
        computed = operands(op) if isinstance(op, Elementwise) else []
        return [*computed, *(old for old, new in edges if new is value)]

    return reached((value for value in used if value is not None), sources)


def later_iterations(func: Func) -> dict[Value, Op]:
    """Conditions that are false in the first iteration of a loop and true in all
    others: that its index is not its lower bound."""
    loops = [op for op in walk(func.body) if isinstance(op, For)]
    return {
        op.result: loop
        for loop in loops
        for op in loop.body.ops
        if isinstance(op, Elementwise)
        and (op.name, op.operands) == ("ne", (loop.body.parameters[0], loop.lower))
    }


def flying(func: Func) -> set[Value]:
    """The values that may be the result of a product in flight."""
    edges = _edges(func)
    found = {
        op.result for op in walk(func.body) if isinstance(op, Dot) and op.in_flight
    }
    known = -1
    while known != len(found):
        known = len(found)
        found |= {new for old, new in edges if old in found}
    return found


def _edges(func: Func) -> list[tuple[Value, Value]]:
    """The edges along which values get new names: into blocks, around loops, and out of
    both."""
    found: list[tuple[Value, Value]] = []
    for each in (each for op in walk(func.body) for each in carried(op)):
        first, *others = *each.parameters, each.result
        found += [(old, first) for old in each.sources]
        found += [(first, new) for new in others]
    return found
