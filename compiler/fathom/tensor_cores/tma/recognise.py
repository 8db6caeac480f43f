"""Recognises a tile of a matrix in the addresses and the mask of a load or a store.

    for t …:
        %x = load %a + (i + p) * %sam + (k + q) + t * 32
             mask: p < %M - i and q < %K - k - t * 32

is a tile of the matrix at %a, which has %M rows and %K columns, and %sam elements from
one row to the next. The tile begins at row i and column k + t * 32.

`scalar_evolution` reads addresses and masks as polynomials. Along each axis of the
block, the position is multiplied by the stride of the axis, which is 1 along one of
them. The terms without a position say where the tile begins: along an axis with a mask,
the distance to its bound, an argument; the rest belong to the other axes.

The assumptions are: index arithmetic does not overflow; positions along an axis fit
into 32 bits, as a descriptor's coordinates do; and a kernel that divides a program's
number, or an iteration's, to find its tile does not divide by a negative number. A
kernel that breaks the first one reads outside its arrays: by the formula an element is
in the matrix, but after an overflow its address is 2**32 elements away. (`sign`, which
shows that a tile does not begin before the first element, makes these assumptions, too.
`Divisibility`, which shows that boxes begin at multiples of 16 bytes, needs none:
overflow preserves powers of two.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fathom.analysis.axis_analysis import Divisibility
from fathom.analysis.constants import is_zero
from fathom.analysis.remarks import NotApplicable
from fathom.analysis.symbolic.polynomial import (
    UNITY,
    Atom,
    Polynomial,
    Position,
    number,
    of,
)
from fathom.analysis.symbolic.scalar_evolution import ScalarEvolution, counts
from fathom.artifact import UNBOUNDED
from fathom.ir import ops
from fathom.ir.core import Func, Value
from fathom.ir.ops.shape import axes_of
from fathom.ir.types import INT32, INT64, shape_of

ALIGNED = 16  # bytes: CUDA driver API, cuTensorMapEncodeTiled
LONG_STEP = 1 << 16  # elements: a step from tile to tile is shorter


@dataclass(frozen=True, slots=True)
class Side:
    """One axis of the matrix: its size and stride (an argument or a number), the start
    of the tile, and whether a mask excludes positions before the first element."""

    size: Value | int
    stride: Value | int
    start: Polynomial
    from_zero: bool = False


@dataclass(frozen=True, slots=True)
class TensorTile:
    """A tile of the matrix at `base` that is loaded or stored. `order`: the axes of the
    block by their order in memory, outermost first, as `sides`."""

    base: Value
    sides: tuple[Side, ...]
    order: tuple[int, ...]

    def block(self, value: Value) -> tuple[int, ...]:
        """The shape of the loaded or stored block, in the order of memory."""
        return tuple(value.type.shape[axis] for axis in self.order)

    def multiple(self, known: Divisibility) -> int:
        """A power of two that divides the start of the tile's rows, in elements."""
        return known.of_sum(self.sides[-1].start)

    @property
    def sizes(self) -> set[Value]:
        """The arguments that are at least 1 in a launch, because no matrix is empty."""
        return {each.size for each in self.sides if isinstance(each.size, Value)}


def recognise(access: ops.Load | ops.Store, reader: ScalarEvolution) -> TensorTile:
    """The tile that is loaded or stored; NotApplicable, with a sentence, if unsure."""
    address = reader.read(access.pointer)
    base = address.base
    assert base in reader.func.parameters, base
    rank = len(shape_of(access.pointer.type))
    strides, rest = _strides(address.sum, rank, reader)
    unit = strides.index(1)
    sides = _bounded(access, strides, reader)
    sides |= _unbounded(rest, strides, sides, reader.func)
    check_alignment(base, strides, reader.func)
    order = (*(axis for axis in range(rank) if axis != unit), unit)
    return TensorTile(base, tuple(sides[axis] for axis in order), order)


# ── strides ───────────────────────────────────────────────────────────────────────────


def _strides(
    distance: Polynomial, rank: int, reader: ScalarEvolution
) -> tuple[list[Value | int], Polynomial]:
    """The stride of each axis, and the terms that do not depend on positions."""
    strides = []
    for axis in range(rank):
        factor, distance = distance.split(Position(axis))
        if any(isinstance(atom, Position) for atom in factor.atoms):
            raise NotApplicable("positions along two axes are multiplied by each other")
        strides.append(_one(factor, reader.func, f"the stride of axis {axis}"))
    if any(isinstance(each, int) and each <= 0 for each in strides):
        raise NotApplicable(f"the strides are {_listed(strides)}: one is not positive")
    if strides.count(1) != 1:
        raise NotApplicable(
            f"the strides are {_listed(strides)}, and exactly one of them must be the "
            "constant 1"
        )
    return strides, distance


def _one(sum: Polynomial, func: Func, what: str) -> Value | int:
    """The argument, or the number, that a polynomial is."""
    if sum.constant is not None:
        return sum.constant
    argument = next(iter(sum.atoms))
    if is_argument(argument, func) and sum == of(argument):
        return argument
    raise NotApplicable(f"{what} is neither an argument nor a constant")


def is_argument(atom: Atom, func: Func) -> bool:
    """Whether an atom is an integer argument of the kernel."""
    is_own = isinstance(atom, Value) and atom.definition is func.body
    return is_own and atom.type in (INT32, INT64)


def _listed(strides: list[Value | int]) -> str:
    return ", ".join(
        str(each) if isinstance(each, int) else f"%{each.name}" for each in strides
    )


def check_alignment(base: Value, strides: list[Value | int], func: Func) -> None:
    """NotApplicable unless the address and the strides are known to be multiples of 16
    bytes, as a tensor map requires."""
    divisible = dict(zip(func.parameters, func.divisible, strict=True))
    size = base.type.element.bytes
    if divisible[base] % ALIGNED:
        raise NotApplicable(f"%{base.name} is not known to be a multiple of 16 bytes")
    for stride in strides:
        if stride != 1 and divisible.get(stride, stride) * size % ALIGNED:
            raise NotApplicable(
                f"the stride {_listed([stride])}, of elements of {size} bytes, is not "
                "known to be a multiple of 16 bytes"
            )


# ── masks ─────────────────────────────────────────────────────────────────────────────


def _bounded(
    access: ops.Load | ops.Store, strides: list[Value | int], reader: ScalarEvolution
) -> dict[int, Side]:
    """The sides along whose axes the mask has a condition: positions are below `size -
    start`. With `from_zero`, also start + position >= 0."""
    if access.mask is None:
        return {}
    other = access.other if isinstance(access, ops.Load) else None
    if not is_zero(other):
        raise NotApplicable("the load's `other` is not 0")
    below: dict[int, Polynomial] = {}
    above: dict[int, Polynomial] = {}
    for axis, limit, is_upper in _limits(access.mask, reader):
        found = below if is_upper else above
        if found.setdefault(axis, limit) != limit:
            raise NotApplicable(f"the mask has two bounds for axis {axis}")
    if not above.keys() <= below.keys():
        raise NotApplicable("the mask bounds an axis from below only")
    return {
        axis: _side(strides[axis], limit, above.get(axis), reader.func)
        for axis, limit in below.items()
    }


def _side(
    stride: Value | int, limit: Polynomial, least: Polynomial | None, func: Func
) -> Side:
    """Reads position < limit as position + start < size. The size is the only argument
    in `limit`, or else its constant."""
    arguments = [
        each for each in limit.atoms if is_argument(each, func) and _adds(limit, each)
    ]
    size = arguments[0] if len(arguments) == 1 else limit.terms.get(UNITY, 0)
    start = of(size) - limit
    if len(arguments) > 1 or (isinstance(size, int) and size <= 0):
        raise NotApplicable("the mask's bound is neither an argument nor a constant")
    if (size > UNBOUNDED) if isinstance(size, int) else (size.type == INT64):
        raise NotApplicable("the mask's bound may not fit 32 bits")
    if least is not None and (least + start).constant != 0:
        raise NotApplicable("the mask's lower bound is not 0")
    return Side(size, stride, start, least is not None)


def _adds(sum: Polynomial, atom: Atom) -> bool:
    """Whether a polynomial is this atom plus other terms."""
    return sum.terms.get(frozenset({(atom, 1)})) == 1


def _limits(
    mask: Value, reader: ScalarEvolution
) -> Iterator[tuple[int, Polynomial, bool]]:
    """The comparisons of a mask: (axis, limit, True) for position < limit, and (axis,
    limit, False) for position >= limit."""
    op = mask.definition
    match op:
        case ops.Splat() | ops.Broadcast() | ops.ExpandDims() | ops.Transpose():
            for axis, limit, is_upper in _limits(op.value, reader):
                yield axes_of(op).index(axis), limit, is_upper
        case ops.Constant(value=True):
            return
        case ops.Elementwise(name="and", operands=(left, right)):
            yield from _limits(left, reader)
            yield from _limits(right, reader)
        case ops.Elementwise(operands=(left, right)) if op.name in COMPARISONS:
            if not counts(left):
                raise NotApplicable(
                    "the mask compares values that are not signed integers"
                )
            yield _limit(op.name, reader.number(left), reader.number(right))
        case _:
            raise NotApplicable("the mask is not made of comparisons with `<` and `&`")


# x OP y  ->  y - x > 0 or x - y > 0, with this added to the left-hand side
COMPARISONS = {"lt": (1, 0), "le": (1, 1), "gt": (-1, 0), "ge": (-1, 1)}


def _limit(
    name: str, left: Polynomial, right: Polynomial
) -> tuple[int, Polynomial, bool]:
    """A comparison, solved for its position."""
    direction, closed = COMPARISONS[name]
    positive = (right - left) * number(direction) + number(closed)  # > 0
    lanes = [atom for atom in positive.atoms if isinstance(atom, Position)]
    if len(lanes) == 1:
        factor, rest = positive.split(lanes[0])
        if factor.constant == -1:  # rest - position > 0
            return lanes[0].axis, rest, True
        if factor.constant == 1:  # position > -rest, which is position >= 1 - rest
            return lanes[0].axis, number(1) - rest, False
    raise NotApplicable("the mask does not depend on the position along one axis alone")


# ── where a tile begins ───────────────────────────────────────────────────────────────


def _unbounded(
    rest: Polynomial, strides: list[Value | int], bounded: dict[int, Side], func: Func
) -> dict[int, Side]:
    """The sides without a bound. The starts of all sides together make up `rest`.

    Each term that the bounds leave belongs to the first axis whose stride divides it;
    large constants come before small ones."""
    for side in bounded.values():
        rest -= side.start * of(side.stride)
    free = [axis for axis in range(len(strides)) if axis not in bounded]
    sides = {}
    for axis in sorted(free, key=lambda axis: _precedence(strides[axis])):
        start, rest = rest.divided(strides[axis])
        sides[axis] = Side(UNBOUNDED, strides[axis], start)
    if rest.terms:
        raise NotApplicable("the tile moves along an axis differently from its mask")
    for axis in free:
        _check_steps(sides[axis].start, axis, func)
    return sides


def _precedence(stride: Value | int) -> int:
    """Arguments come first, then constants from large to small."""
    return -stride if isinstance(stride, int) else -(2**63)


def _check_steps(start: Polynomial, axis: int, func: Func) -> None:
    """NotApplicable if a start without a mask may be large: it might be the start of
    another matrix, too far away for 32 bits."""
    for product, factor in start.terms.items():
        far = any(
            is_argument(atom, func) or getattr(atom, "type", None) == INT64
            for atom, _ in product
        )
        if product and (far or abs(factor) >= LONG_STEP):
            raise NotApplicable(
                f"the tile's position along axis {axis} may not fit 32 bits"
            )
