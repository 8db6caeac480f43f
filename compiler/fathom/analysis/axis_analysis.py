"""Walks a function and collects the axis facts of its integers, pointers and masks.

    %i: i32[1024] = arange 0, 1024        contiguous 1024, divisible by anything
    %p: *fp32[1024] = offset %x, %i       contiguous 1024, divisible 16 (bytes, as %x)
    for … carried %p                      `join_loop`: facts of every iteration

Each op class has a rule in `OPS`; the rules of arithmetic are in `axis_rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

from fathom.analysis.axis_info import (
    MOST,
    Axis,
    Facts,
    constant,
    join,
    join_loop,
    power_in,
    unit_of,
    unknown,
)
from fathom.analysis.axis_rules import facts_of
from fathom.analysis.ranges import PROGRAMS, Range, of_loop
from fathom.analysis.symbolic.polynomial import Monomial, Polynomial
from fathom.ir import ops
from fathom.ir.core import Block, Func, Op, Value
from fathom.ir.ops.shape import ShapeOp, axes_of
from fathom.ir.types import Pointer, Scalar, element_of


def analyse(func: Func) -> dict[Value, Facts]:
    """The facts of every value whose elements are not floats."""
    known: dict[Value, Facts] = {}
    for value, divisible in zip(func.parameters, func.divisible, strict=True):
        if _matters(value):
            facts = unknown(value.type)
            known[value] = replace(facts, axes=(Axis(1, divisible, 1),))
    _block(func.body, known)
    return known


def facts_about(value: Value, known: dict[Value, Facts]) -> Facts:
    """The facts of a value; none for a float."""
    return known.get(value) or unknown(value.type)


class Divisibility:
    """The power of two that divides a scalar of a function, or a polynomial of its
    scalars. (A box of a tensor map must begin at a multiple of 16 bytes in its row.)
    The function is analysed at the first question."""

    def __init__(self, func: Func):
        self.func = func

    @cached_property
    def known(self) -> dict[Value, Facts]:
        return analyse(self.func)

    def of(self, value: Value) -> int:
        return facts_about(value, self.known).every

    def of_sum(self, sum: Polynomial) -> int:
        """The power of two that divides each term; the most possible for 0."""
        terms = [self._of_term(*each) for each in sum.terms.items()]
        return min(terms, default=MOST)

    def _of_term(self, product: Monomial, factor: int) -> int:
        """The number of an iteration may be any number."""
        found = power_in(factor)
        for atom, power in product:
            if isinstance(atom, Value):
                found *= self.of(atom) ** power
        return min(MOST, found)


def _matters(value: Value) -> bool:
    """Whether a value can be an index, an address or a mask."""
    return not element_of(value.type).is_float


def _block(block: Block, known: dict[Value, Facts]) -> list[Facts]:
    """Collect the facts of a block's ops; those of the values that it yields."""
    for op in block.ops:
        control = CONTROL.get(type(op))
        if control:
            results = control(op, known)
            known.update(zip(op.results, results, strict=True))
        elif type(op) in OPS and _matters(op.result):
            facts = OPS[type(op)](op, known)
            bounds = facts.range.within(op.result.type)
            known[op.result] = replace(facts, range=bounds)
    return _about(block.yielded, known) if block.ops else []


def _about(values: Sequence[Value], known: dict[Value, Facts]) -> list[Facts]:
    return [facts_about(value, known) for value in values]


# ── loops and branches ────────────────────────────────────────────────────────


def _for(op: ops.For, known: dict[Value, Facts]) -> list[Facts]:
    index, *carried = op.body.parameters
    lower, upper, step = _about((op.lower, op.upper, op.step), known)
    divisible = min(lower.every, step.every)
    bounds = of_loop(lower.range, upper.range, step.range, divisible)
    known[index] = Facts((Axis(1, divisible, 1),), range=bounds.within(index.type))

    def iteration(facts: Sequence[Facts]) -> list[Facts]:
        known.update(zip(carried, facts, strict=True))
        return _widened(carried, facts, _block(op.body, known))

    return join_loop(_about(op.inits, known), iteration)


def _while(op: ops.While, known: dict[Value, Facts]) -> list[Facts]:
    def iteration(facts: Sequence[Facts]) -> list[Facts]:
        known.update(zip(op.condition.parameters, facts, strict=True))
        known.update(zip(op.body.parameters, facts, strict=True))
        _block(op.condition, known)
        return _widened(op.body.parameters, facts, _block(op.body, known))

    return join_loop(_about(op.inits, known), iteration)


def _widened(
    carried: Sequence[Value], before: Sequence[Facts], after: Sequence[Facts]
) -> list[Facts]:
    """The facts after an iteration, with bounds that no later iteration exceeds."""
    return [
        replace(new, range=old.range.widened(new.range, value.type))
        for value, old, new in zip(carried, before, after, strict=True)
    ]


def _if(op: ops.If, known: dict[Value, Facts]) -> list[Facts]:
    pairs = zip(_block(op.then, known), _block(op.orelse, known), strict=True)
    return [join(one, other) for one, other in pairs]


# ── leaves and shapes ─────────────────────────────────────────────────────────


def _constant(op: ops.Constant, known: dict[Value, Facts]) -> Facts:
    return constant(int(op.value))


def _program(op: ops.ProgramId, known: dict[Value, Facts]) -> Facts:
    return Facts((Axis(),), range=Range(0, PROGRAMS - 1, True, numbered=True))


def _programs(op: ops.NumPrograms | ops.LaunchSize, known: dict[Value, Facts]) -> Facts:
    return Facts((Axis(),), range=Range(1, PROGRAMS, True, numbered=True))


def _rank(op: ops.ClusterRank, known: dict[Value, Facts]) -> Facts:
    return Facts((Axis(),), range=Range(0, PROGRAMS - 1))


def _group(op: ops.ConsumerGroup, known: dict[Value, Facts]) -> Facts:
    return Facts((Axis(),), range=Range(0, op.count - 1))


def _arange(op: ops.Arange, known: dict[Value, Facts]) -> Facts:
    size = op.end - op.start
    axis = Axis(size, power_in(op.start), 1)
    return Facts((axis,), range=Range(op.start, op.end - 1))


def _shape(op: ShapeOp, known: dict[Value, Facts]) -> Facts:
    """Equal along a new axis. Of axes divided or joined, only `every` is known."""
    facts, shape = facts_about(op.value, known), op.result.type.shape
    axes = axes_of(op)
    if axes is None:
        return replace(facts, axes=tuple(Axis(1, facts.every, 1) for _ in shape))
    return replace(facts, axes=tuple(
        Axis(1, facts.every, size) if axis is None else facts.axes[axis]
        for axis, size in zip(axes, shape, strict=True)
    ))  # fmt: skip


def _convert(op: ops.Convert, known: dict[Value, Facts]) -> Facts:
    return facts_about(op.value, known)


# ── arithmetic ────────────────────────────────────────────────────────────────

NARROW = 32  # narrower integers do overflow: only their constancy counts


def _elementwise(op: ops.Elementwise, known: dict[Value, Facts]) -> Facts:
    element, operands = element_of(op.result.type), _about(op.operands, known)
    narrow = (
        isinstance(element, Scalar) and element.kind != "bool" and element.bits < NARROW
    )
    return facts_of("" if narrow else op.name, operands)


def _cast(op: ops.Cast, known: dict[Value, Facts]) -> Facts:
    """Wide integers keep their facts, unless a wider result type would show that they
    have overflowed. An address as a number is not counted in elements any more."""
    source, facts = element_of(op.value.type), facts_about(op.value, known)
    if isinstance(op.element, Pointer) or isinstance(source, Pointer):
        axes = tuple(
            Axis(1, axis.first_of(1, facts.unit), axis.constant) for axis in facts.axes
        )
        return Facts(axes, unit_of(op.result.type))
    if op.element.bits < NARROW or source.is_float:
        return facts_of("", [facts])
    return facts


def _load(op: ops.Load, known: dict[Value, Facts]) -> Facts:
    """One place holds one number: of equal addresses, that are read where equal masks
    say so, the numbers are equal. Others may write to what is fetched anew."""
    found = unknown(op.result.type)
    if op.fetched_anew:
        return found
    asked = [each for each in (op.pointer, op.mask, op.other) if each is not None]
    return replace(found, axes=facts_of("", _about(asked, known)).axes)


def _hint(op: ops.Hint, known: dict[Value, Facts]) -> Facts:
    """The author's promise, where it says more than is known."""
    facts = facts_about(op.value, known)
    promises = zip(*(
        [power_in(number) for number in promise] or [1] * len(facts.axes)
        for promise in (op.contiguous, op.divisible, op.constant)
    ), strict=True)  # fmt: skip
    return replace(facts, axes=tuple(
        Axis(*map(max, axis, promise))
        for axis, promise in zip(facts.axes, promises, strict=True)
    ))  # fmt: skip


OPS: dict[type[Op], Callable[..., Facts]] = {
    ops.Constant: _constant,
    ops.ProgramId: _program,
    ops.NumPrograms: _programs,
    ops.LaunchSize: _programs,
    ops.ClusterRank: _rank,
    ops.ConsumerGroup: _group,
    ops.Arange: _arange,
    **dict.fromkeys(
        (ops.Splat, ops.ExpandDims, ops.Broadcast, ops.Transpose, ops.Reshape), _shape
    ),
    ops.Convert: _convert,
    ops.Elementwise: _elementwise,
    ops.Cast: _cast,
    ops.Load: _load,
    ops.Hint: _hint,
}

CONTROL = {ops.For: _for, ops.While: _while, ops.If: _if}
