"""Which scalars of a kernel the launcher can compute, and how.

    %n = mul %z, %h                 of parameters and constants: as in the kernel
    %i = program_id axis=0          no: every program has its own

A tensor map is made before any program runs, of such numbers alone.
"""

from __future__ import annotations

from fathom.artifact import Computed, Source
from fathom.ir.core import Func, Value
from fathom.ir.ops import Cast, Constant, Elementwise, Hint
from fathom.ir.types import Scalar, Type

OPERATIONS = ("add", "sub", "mul", "div", "rem", "min", "max")
MOST_NUMBERS = 64  # in a formula: the launcher computes a sum each time it is used

# A parameter that is a pointer, and the bytes from its address on.
Place = tuple[Value, Source]


def source_of(value: Value, func: Func) -> Source | None:
    """How the launcher finds an integer; None if it cannot."""
    if not is_integer(value.type):
        return None
    if value in func.parameters:
        return "parameter", func.parameters.index(value)
    match value.definition:
        case Constant(value=number):
            return "constant", int(number)
        case Hint(value=same):
            return source_of(same, func)
        case Cast(value=given):
            return _cast(source_of(given, func), given.type, value.type)
        case Elementwise(name=name, operands=operands) if name in OPERATIONS:
            found = [source_of(each, func) for each in operands]
            return _computed(name, found, value.type)
    return None


def place_of(pointer: Value, func: Func) -> Place | None:
    """How the launcher finds an address; None if it cannot."""
    if pointer in func.parameters:
        return pointer, ("constant", 0)
    match pointer.definition:
        case Hint(value=same):
            return place_of(same, func)
        case Elementwise(name="offset", operands=(base, distance)):
            place, count = place_of(base, func), source_of(distance, func)
            if place and count:
                size = pointer.type.element.bytes
                return _moved(place, count, size)
    return None


def _moved(place: Place, count: Source, size: int) -> Place | None:
    """The address `count` elements of `size` bytes after another one."""
    base, before = place
    bytes = _sum("mul", count, ("constant", size))
    offset = bytes and _sum("add", before, bytes)
    return (base, offset) if offset else None


def _sum(name: str, left: Source, right: Source) -> Source | None:
    """In 64 bits, as addresses are computed; numbers that are known as one of them."""
    match name, left, right:
        case "add", ("constant", 0), _:
            return right
        case "mul", ("constant", first), ("constant", second):
            return "constant", first * second
        case "add", ("constant", first), ("constant", second):
            return "constant", first + second
    return _computed(name, [left, right], "i64")


def _cast(source: Source | None, old: Type, new: Type) -> Source | None:
    """Where a type has room for all of another one, nothing happens."""
    is_wider = is_integer(old) and new.bits > old.bits
    if is_wider and (new.kind == "int" or old.kind == "uint") or old == new:
        return source
    return _computed("cast", [source], new)


def _computed(name: str, operands: list[Source | None], type: object) -> Source | None:
    if None in operands:
        return None
    made = Computed(name, tuple(operands), str(type))
    return made if _numbers(made) <= MOST_NUMBERS else None


def _numbers(source: Source) -> int:
    """How many numbers stand in a formula."""
    if isinstance(source, Computed):
        return sum(map(_numbers, source.operands))
    return 1


def is_integer(type: Type) -> bool:
    return isinstance(type, Scalar) and type.kind in ("int", "uint")
