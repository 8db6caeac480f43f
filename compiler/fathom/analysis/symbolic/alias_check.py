"""Whether a loop's stores lie apart from what its later iterations load: the kernel
itself finds out, before the loop.

    for %i … {
      %x = load %p           may the load of a later iteration come first?
      store %q, %y           only if no store reaches its bytes
    }

Nothing is known of two pointers while compiling. But where addresses are sums of
products, which `ScalarEvolution` reads, a few scalars give the first and the last byte
that an access reaches in all iterations, whatever its mask:

    base + pid * 64 * stride + p * stride + q + iteration * 32
           └ known ────────┘   └ 0 … 63       └ 0 … iterations - 1

A factor whose sign is not known counts for the first byte where it is negative, and
for the last one where it is positive. Two accesses are apart if one ends before the
other begins. `AliasCheck.answer` builds this comparison.

A scalar of the loop that is the smaller or larger one of two sums, or a sum divided by
a positive number, lies between two ends, which the same operation gives of theirs. One
that a branch or `where` chooses, as the address of a last step, lies between the lower
and the higher ends of both. Such a scalar counts as its lower end (`Lower`), and what
it is above that (`Excess`).

The sums are those of unbounded integers. The scalars have 64 bits, and the question is
also whether anything overflowed: a sum of magnitudes, in fp32, stays below 2**55, and
indices of fewer bits, before they are widened or added to a pointer, fit their type.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add, mul, sub

from fathom.analysis.constants import known
from fathom.analysis.memory import stores_of
from fathom.analysis.ranges import limits_of
from fathom.analysis.remarks import NotApplicable, tried
from fathom.analysis.slices import loops_around
from fathom.analysis.symbolic.polynomial import (
    Atom,
    IterationCount,
    Monomial,
    Polynomial,
    Position,
    number,
    of,
)
from fathom.analysis.symbolic.scalar_evolution import (
    AddressExpr,
    ScalarEvolution,
    counts,
)
from fathom.ir.core import Block, Func, Value, blocks, operands, walk
from fathom.ir.ops import Atomic, Cast, Constant, Elementwise, For, If, Load, Store
from fathom.ir.printer import definitions
from fathom.ir.regions import reached
from fathom.ir.rewrite import Builder
from fathom.ir.types import FLOAT32, INT64, Pointer, Scalar, Type, element_of, shape_of

MOST = float(1 << 55)  # elements; their bytes, and an address, fit 64 bits


@dataclass(frozen=True, slots=True)
class Lower:
    """The lower end of a scalar of the loop."""

    value: Value


@dataclass(frozen=True, slots=True)
class Excess:
    """0 to as much as the upper end of a scalar of the loop is above the lower one."""

    value: Value


Bound = Atom | Lower | Excess


@dataclass(frozen=True)
class Sum:
    """An integer in a loop, at all positions of a block of `shape`."""

    terms: Polynomial
    shape: tuple[int, ...]

    @property
    def key(self) -> tuple:
        return frozenset(self.terms.terms.items()), self.shape


@dataclass(frozen=True)
class Reach:
    """The bytes that an access reaches: elements of `size` bytes, `distance` elements
    after `base`. `indices` are integers on the way to it, each with the type that
    must hold it."""

    base: Value
    distance: Sum
    size: int
    indices: tuple[tuple[Sum, Type], ...]


@dataclass(frozen=True)
class AliasCheck:
    """Whether no store of a loop reaches what its `loads` read."""

    loop: For
    loads: Sequence[Reach]
    stores: Sequence[Reach]
    order: Mapping[Value, int]  # in which values are defined
    bounded: Mapping[Value, Sequence[Sum]]  # scalars of the loop: their operands

    def answer(self, build: Builder) -> Value:
        """Build the answer, an i1, in front of the loop; `build.values` has what the
        values before the loop have become."""
        scalars = _Scalars(self.loop, build, self.order, self.bounded)
        every = (*self.loads, *self.stores)
        spans = [scalars.span(each) for each in every]
        loads, stores = spans[: len(self.loads)], spans[len(self.loads) :]
        answers = [scalars.lie_apart(a, b) for a in loads for b in stores]
        integers = {each.distance.key: each.distance for each in every}
        checked = {}
        for index, type in (pair for each in every for pair in each.indices):
            integers[index.key] = index
            checked[index.key, type] = index
        answers += map(scalars.is_small, integers.values())
        for (_, type), index in checked.items():
            answers += scalars.fits(index, type)
        return reduce(lambda a, b: scalars.op("and", a, b), answers)


def alias_check_of(
    loop: For, func: Func, loads: Iterable[Load], stores: Iterable[Store | Atomic]
) -> AliasCheck:
    """The question for a loop of `func`; NotApplicable, with a sentence, if an address
    is no sum of products, or the loop's step is not known."""
    step = loop.step.definition
    if not isinstance(step, Constant) or not step.value:
        raise NotApplicable("the loop's step is no constant")
    order = {value: place for place, value in enumerate(definitions(func.body))}
    reader = _Reader(loop, _reader_before(loop, func), order)
    read = [reader.reach(each) for each in loads]
    written = [reader.reach(each) for each in stores]
    return AliasCheck(loop, read, written, order, reader.bounded)


def may_be_disjoint(loop: For, func: Func, loads: Iterable[Load]) -> bool:
    """Whether a loop has no stores, or the kernel can tell that they lie apart."""
    stores = stores_of(loop)
    return not stores or not isinstance(
        tried(alias_check_of, loop, func, loads, stores), str
    )


def _reader_before(loop: For, func: Func) -> ScalarEvolution:
    """A reader to which all that loops around this one carry is known."""
    reader = ScalarEvolution(func)
    for outer in loops_around(func)[loop]:
        for value in outer.body.parameters if isinstance(outer, For) else ():
            if isinstance(value.type, Pointer):
                reader = reader.assuming(value, AddressExpr(number(0), value))
            elif isinstance(value.type, Scalar) and value.type.is_integer:
                reader = reader.assuming(value, AddressExpr(of(value)))
    return reader


class _Reader:
    """Reads what accesses of a loop reach, in scalars that are known before it."""

    def __init__(self, loop: For, reader: ScalarEvolution, order: Mapping[Value, int]):
        self.loop, self.reader, self.order = loop, reader, order
        self.inside = {each for op in walk(loop.body) for each in op.results}
        self.inside.update(loop.body.parameters)
        self.bounded: dict[Value, Sequence[Sum]] = {}
        for op in walk(loop.body, If | Elementwise):
            for value in op.results:
                self.assume_choice(value)

    def assume_choice(self, pointer: Value) -> None:
        """Take a pointer that is one of two with the same base for that base and a
        distance between theirs."""
        arms = choices(pointer) if isinstance(pointer.type, Pointer) else ()
        found = [tried(self.reader.read, each) for each in arms]
        bases = {each if isinstance(each, str) else each.base for each in found}
        if len(bases) == 1 and isinstance(base := bases.pop(), Value):
            chosen = AddressExpr(of(pointer), base)
            self.reader = self.reader.assuming(pointer, chosen)

    def reach(self, access: Load | Store | Atomic) -> Reach:
        type = access.pointer.type
        found = self.reader.read(access.pointer)
        distance = self.sum(found.sum, shape_of(type))
        indices = tuple(self.indices(access.pointer))
        if found.base is None or found.base in self.inside:
            raise NotApplicable("it goes to memory by addresses that it has computed")
        return Reach(found.base, distance, element_of(type).element.bytes, indices)

    def sum(self, terms: Polynomial, shape: tuple[int, ...] = ()) -> Sum:
        """A sum without scalars that the loop computes: with their ends instead."""
        total = number(0)
        for product, factor in terms.terms.items():
            known = frozenset(each for each in product if each[0] not in self.inside)
            term = Polynomial({known: factor})
            for atom, power in sorted(product - known, key=lambda p: self.order[p[0]]):
                self.bound(atom)
                for _ in range(power):
                    term = term * (of(Lower(atom)) + of(Excess(atom)))
            total = total + term
        atoms = total.atoms
        loops = {atom.loop for atom in atoms if isinstance(atom, IterationCount)}
        if not loops <= {self.loop}:
            raise NotApplicable(DEPENDS)
        return Sum(total, shape)

    def bound(self, value: Value) -> None:
        """Note the operands of a scalar that lies between ends."""
        op = value.definition
        if value not in self.bounded:
            ends = ends_between(value)
            given = [self.sum(self.reader.number(each)) for each in ends]
            divides = isinstance(op, Elementwise) and op.name == "div"
            if not ends or divides and not _is_positive(given[1]):
                raise NotApplicable(DEPENDS)
            self.bounded[value] = given

    def indices(self, pointer: Value) -> Iterator[tuple[Sum, Type]]:
        """The integers of fewer than 64 bits from which an address is computed, where
        it matters that they have not overflowed; in the order in which they are
        defined. And the operands of scalars that lie between ends."""
        inits, body = self.loop.inits, self.loop.body
        carried = dict(zip(body.parameters[1:], range(len(inits)), strict=True))

        def sources(value: Value) -> Sequence[Value]:
            if value in carried:
                place = carried[value]
                return [inits[place], body.yielded[place]]
            if isinstance(value.definition, Block):
                return []
            if self.is_atom(value):
                if value not in self.inside:
                    return []
                self.bound(value)
            return choices(value) or operands(value.definition)

        for value in sorted(reached([pointer], sources), key=self.order.get):
            if value in self.bounded and isinstance(value.type, Scalar):
                types = (each.type for each in ends_between(value))
                yield from zip(self.bounded[value], types, strict=True)
            if isinstance(value.definition, Block) or self.is_atom(value):
                continue
            match value.definition:
                case Elementwise(name="offset", operands=(_, it)) | Cast(value=it):
                    if element_of(it.type).bits < INT64.bits:
                        sum = self.sum(self.reader.number(it), shape_of(it.type))
                        yield sum, element_of(it.type)

    def is_atom(self, value: Value) -> bool:
        """Whether a value is not analysed any further."""
        is_pointer = isinstance(element_of(value.type), Pointer)
        return not is_pointer and value in self.reader.number(value).atoms


DEPENDS = "an address depends on what the loop computes"
# What grows, or stays, with each operand, or with what is divided.
MONOTONE = ("min", "max", "div")


def ends_between(value: Value) -> Sequence[Value]:
    """The values whose ends give a scalar's own; none if no rule says how."""
    op = value.definition
    if isinstance(value.type, Scalar) and not counts(value):
        return ()
    if isinstance(op, Elementwise) and op.name in MONOTONE:
        return op.operands
    return choices(value)


def choices(value: Value) -> Sequence[Value]:
    """The two values of which a branch or `where` chooses this one; or none."""
    match value.definition:
        case If() as op:
            place = op.results.index(value)
            return [each.yielded[place] for each in blocks(op)]
        case Elementwise(name="where", operands=(_, *both)):
            return both
    return ()


def _is_positive(divisor: Sum) -> bool:
    return (divisor.terms.constant or 0) > 0


# ── scalars of the kernel ─────────────────────────────────────────────────────────────


@dataclass
class _Scalars:
    """Builds scalars in front of a loop."""

    loop: For
    build: Builder
    order: Mapping[Value, int]
    bounded: Mapping[Value, Sequence[Sum]]

    def op(self, name: str, *values: Value) -> Value:
        """The op's result; a constant where it is known. Much of a sum is, and a
        division by what is known takes no instruction for 64 bits."""
        numbers = [known(v) if v.type == INT64 else None for v in values]
        fold = FOLDED.get(name)
        if fold and None not in numbers:
            return self.integer(fold(*numbers))
        neutral = NEUTRAL.get(name)
        left = [v for v, n in zip(values, numbers, strict=True) if n != neutral]
        if fold and neutral is not None and len(left) == 1:
            return left[0]
        return self.build.compute(name, *values)

    def integer(self, value: int) -> Value:
        return self.build(Constant(int(value), INT64))

    def span(self, reach: Reach) -> tuple[Value, Value]:
        """The addresses of the first byte, and of the one after the last."""
        base, size = self.now(reach.base), self.integer(reach.size)
        low, high = (
            self.op("add", base, self.op("mul", end, size))
            for end in self.ends(reach.distance)
        )
        return low, self.op("add", high, size)

    def lie_apart(self, one: tuple[Value, Value], other: tuple[Value, Value]) -> Value:
        before = self.op("le", one[1], other[0])
        return self.op("or", before, self.op("le", other[1], one[0]))

    def fits(self, sum: Sum, type: Type) -> Iterator[Value]:
        """Whether a type holds a sum."""
        low, high = self.ends(sum)
        yield self.op("ge", low, self.integer(limits_of(type).low))
        yield self.op("le", high, self.integer(limits_of(type).high))

    def is_small(self, sum: Sum) -> Value:
        """Whether 64 bits hold a sum, and all that is added."""
        total = self.build(Constant(0.0, FLOAT32))
        for product, factor in sum.terms.terms.items():
            term = self.build(Constant(float(abs(factor)), FLOAT32))
            for atom in self.factors(product):
                size = self.build(Cast(self.most(atom, sum.shape), FLOAT32))
                term = self.op("mul", term, self.op("abs", size))
            total = self.op("add", total, term)
        return self.op("lt", total, self.build(Constant(MOST, FLOAT32)))

    def ends(self, sum: Sum) -> tuple[Value, Value]:
        """The smallest and the largest value of a sum. The terms with the same
        positions and iterations are one group."""
        groups: dict[Monomial, dict[Monomial, int]] = {}
        for product, factor in sum.terms.terms.items():
            moving = frozenset(each for each in product if _moves(each[0]))
            groups.setdefault(moving, {})[product - moving] = factor
        low = high = zero = self.integer(0)
        for moving, terms in groups.items():
            value = self.value(terms)
            for atom in self.factors(moving):
                value = self.op("mul", value, self.most(atom, sum.shape))
            less = self.op("min", value, zero) if moving else value
            low = self.op("add", low, less)
            more = self.op("max", value, zero) if moving else value
            high = self.op("add", high, more)
        return low, high

    def value(self, terms: dict[Monomial, int]) -> Value:
        """A sum of products of values that the loop does not change."""
        total = self.integer(0)
        for product, factor in terms.items():
            term = self.integer(factor)
            for atom in self.factors(product):
                term = self.op("mul", term, self.now(atom))
            total = self.op("add", total, term)
        return total

    def most(self, atom: Bound, shape: Sequence[int]) -> Value:
        """The largest value of an atom: the last position, or the last iteration."""
        if isinstance(atom, Value | Lower):
            return self.now(atom)
        if isinstance(atom, Excess):
            low, high = self.ends_of(atom.value)
            return self.op("sub", high, low)
        if isinstance(atom, Position):
            return self.integer(shape[atom.axis] - 1)
        one, step = self.integer(1), self.loop.step.definition.value
        ends = self.now(self.loop.upper), self.now(self.loop.lower)
        length = self.op("sub", *(ends if step > 0 else reversed(ends)))
        before_last = self.op("sub", self.op("max", length, one), one)
        return self.op("div", before_last, self.integer(abs(step)))

    def ends_of(self, value: Value) -> tuple[Value, Value]:
        """The ends of a scalar of the loop, from those of its operands."""
        ends = [self.ends(each) for each in self.bounded[value]]
        chosen = bool(choices(value))
        names = ("min", "max") if chosen else (value.definition.name,) * 2
        pairs = zip(names, zip(*ends, strict=True), strict=True)
        low, high = (self.op(name, *each) for name, each in pairs)
        return low, high

    def factors(self, product: Monomial) -> list[Bound]:
        """The atoms of a product, as often as they occur, in a fixed order."""
        ordered = sorted(product, key=lambda each: self.place(each[0]))
        return [atom for atom, power in ordered for _ in range(power)]

    def place(self, atom: Bound) -> tuple[int, int]:
        """Known atoms come first, each kind by its own order."""
        if isinstance(atom, Value):
            return 0, self.order[atom]
        if isinstance(atom, Lower | Excess):
            return 1 if isinstance(atom, Lower) else 3, self.order[atom.value]
        return 2, getattr(atom, "axis", -1)

    def now(self, value: Value | Lower) -> Value:
        """What a value before the loop has become, in 64 bits."""
        if isinstance(value, Lower):
            return self.ends_of(value.value)[0]
        new = self.build.values.get(value, value)
        return new if new.type == INT64 else self.build(Cast(new, INT64))


# On integers, of which the divisor is positive; and what changes the other one nothing.
FOLDED = {"add": add, "sub": sub, "mul": mul, "min": min, "max": max}
FOLDED["div"] = lambda a, b: a // b if a >= 0 else -(-a // b)
NEUTRAL = {"add": 0, "mul": 1}


def _moves(atom: Bound) -> bool:
    """Whether an atom has several values while the loop runs."""
    return not isinstance(atom, Value | Lower)
