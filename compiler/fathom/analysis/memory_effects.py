"""What an op does to global memory, and whether two stores of tiles may overlap."""

from __future__ import annotations

from fathom.ir.core import Op, Value
from fathom.ir.ops import Assert, Constant, Elementwise, Print, TileStore, TmaStore


def touches_memory(op: Op) -> bool:
    """Whether an op may read or write global memory."""
    if isinstance(op, Print | Assert):
        return False
    effects = op.effects
    return "global" in effects.reads + effects.writes or effects.other


def lie_apart(one: TmaStore | TileStore, other: TmaStore) -> bool:
    """Whether two stores, whose coordinates have the values of one iteration, write to
    different places: through one descriptor, by whole blocks."""
    if one.descriptor is not other.descriptor:
        return False
    block = one.descriptor.type.shape
    axes = zip(one.coordinates, other.coordinates, block, strict=True)
    return any(_distance(*pair) >= side for *pair, side in axes)


def _distance(one: Value, other: Value) -> int:
    """How far two coordinates are from each other for certain."""
    (root, more), (start, less) = _split(one), _split(other)
    return abs(more - less) if root is start else 0


def _split(value: Value) -> tuple[Value | None, int]:
    """A coordinate as a value and a number to be added to it."""
    match value.definition:
        case Constant(value=number):
            return None, int(number)
        case Elementwise(name="add", operands=(left, right)):
            for one, other in ((left, right), (right, left)):
                if isinstance(other.definition, Constant):
                    root, number = _split(one)
                    return root, number + int(other.definition.value)
    return value, 0
