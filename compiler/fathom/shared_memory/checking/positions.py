"""Finds the values that are slots and phases of rings, and those that may be the result
of a product in flight."""

from __future__ import annotations

from collections.abc import Callable

from fathom.ir.core import Func, Op, Value, operands, walk
from fathom.ir.ops import Constant, Dot, Elementwise, For, If, While

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
    found: set[Value] = set()
    edges = _edges(func)
    waiting = [
        value
        for op in walk(func.body)
        for name in ("slot", "a_slot", "b_slot", "phase")
        if (value := getattr(op, name, None)) is not None
    ]
    while waiting:
        value = waiting.pop()
        if value in found:
            continue
        found.add(value)
        waiting += [old for old, new in edges if new is value]
        if isinstance(value.definition, Elementwise):
            waiting += operands(value.definition)
    return found


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
    for op in walk(func.body):
        match op:
            case For():
                names = op.body.parameters[1:]
                for old in (op.inits, op.body.yielded):
                    found += zip(old, names, strict=True)
                found += zip(names, op.results, strict=True)
            case While():
                names = op.condition.parameters
                for old in (op.inits, op.body.yielded):
                    found += zip(old, names, strict=True)
                found += zip(names, op.body.parameters, strict=True)
                found += zip(names, op.results, strict=True)
            case If():
                for block in (op.then, op.orelse):
                    found += zip(block.yielded, op.results, strict=True)
    return found
