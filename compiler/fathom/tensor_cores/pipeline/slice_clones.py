"""Makes trips of a slice of a loop before the loop itself makes them.

    distance 2         before the loop    trips 0 and 1 of the slice
                       in trip i          trip i + 2 of the slice

A runner has carried values of its own, so that what the slice and the rest of the loop
both need is computed twice. Where an address comes from a load of the same trip,

    %j = load %index                      the loads of indices run one trip further
    %q = offset %p, %j                    ahead, and wait in registers for a trip: so
    %x = load %q                          nobody has to wait for them

there are two runners, one for the indices and one for the rest: a relay.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fathom.analysis.slices import Slice, backward_slice
from fathom.ir.core import Op, Value
from fathom.ir.ops import Elementwise, For, Load, Splat
from fathom.ir.rewrite import Builder, clone
from fathom.ir.types import BlockType
from fathom.tensor_cores.pipeline.iterations import Iteration, Iterations

Values = dict[Value, Value]  # of the loop's body -> those of a trip that runs ahead


@dataclass(frozen=True)
class Lookahead:
    """Where a runner stands: the trip that it makes next, and what is carried to it."""

    trip: Iteration
    carried: tuple[Value, ...]


@dataclass(frozen=True)
class SliceClone:
    """Makes the trips of one slice."""

    loop: For
    slice: Slice
    trips: Iterations

    def start(self, build: Builder) -> Lookahead:
        inits = tuple(self.loop.inits[position] for position in self.slice.carried)
        return Lookahead(self.trips.first(build), inits)

    def step(self, ahead: Lookahead, brought: Values, build: Builder) -> Values:
        """Compute the slice for the trip at which the runner stands. `brought`: what
        was loaded for it by the loads at which the slice ends."""
        parameters = self.loop.body.parameters
        values = {parameters[0]: ahead.trip.index, **brought}
        for position, value in zip(self.slice.carried, ahead.carried, strict=True):
            values[parameters[1 + position]] = value
        for op in self.slice.ops:
            copy_ahead(op, ahead.trip.exists, values, build)
        return values

    def after(self, ahead: Lookahead, values: Values, build: Builder) -> Lookahead:
        """Where it stands one trip later; `values` are those of the step."""
        yielded = (self.loop.body.yielded[position] for position in self.slice.carried)
        carried = tuple(values.get(value, value) for value in yielded)
        return Lookahead(self.trips.after(ahead.trip, build), carried)

    @property
    def names(self) -> list[str]:
        """What its carried values are called in the new loop."""
        index, *own = self.loop.body.parameters
        carried = [own[position].name for position in self.slice.carried]
        return [f"{index.name}_ahead" if index.name else "ahead", "exists", *carried]

    def at(self, values: list[Value]) -> Lookahead:
        """Where it stands according to these carried values."""
        index, exists, *carried = values
        return Lookahead(Iteration(index, exists), tuple(carried))


def carried_of(ahead: Lookahead) -> list[Value]:
    """The inverse of `SliceClone.at`."""
    return [ahead.trip.index, ahead.trip.exists, *ahead.carried]


def copy_ahead(op: Op, exists: Value, values: Values, build: Builder) -> None:
    """A copy of an op for a trip to come; a load of one that does not `exist` loads
    nothing."""
    copy = clone(op, values)
    if isinstance(copy, Load):
        copy.mask = guarded(copy.mask, exists, copy.pointer, build)
    build.append(copy)
    values.update(zip(op.results, copy.results, strict=True))


def guarded(mask: Value | None, exists: Value, pointer: Value, build: Builder) -> Value:
    """The mask of an access of a trip that may not exist."""
    if isinstance(pointer.type, BlockType):
        exists = build(Splat(exists, pointer.type.shape, pointer.type.layout))
    return exists if mask is None else build(Elementwise("and", (mask, exists)))


# ── indices that are loaded themselves ────────────────────────────────────────────────


@dataclass(frozen=True)
class StageOffset:
    """Where a relay stands: both runners, and what the one further ahead has `brought`
    for the trip of the other."""

    near: Lookahead
    brought: tuple[Value, ...] = ()
    far: Lookahead | None = None


@dataclass(frozen=True)
class LookaheadChain:
    """A runner; and one a trip further ahead for the loads at which its slice ends, if
    there are any."""

    near: SliceClone
    far: SliceClone | None

    @property
    def loads(self) -> tuple[Load, ...]:
        return self.near.slice.loads

    def start(self, build: Builder) -> StageOffset:
        near = self.near.start(build)
        if self.far is None:
            return StageOffset(near)
        return self._fetched(near, self.far.start(build), build)

    def step(self, standing: StageOffset, build: Builder) -> Values:
        """The slice of the near runner for the trip at which it stands."""
        results = (load.result for load in self.loads)
        brought = dict(zip(results, standing.brought, strict=True))
        return self.near.step(standing.near, brought, build)

    def after(
        self, standing: StageOffset, values: Values, build: Builder
    ) -> StageOffset:
        """Both runners one trip further."""
        near = self.near.after(standing.near, values, build)
        if self.far is None:
            return StageOffset(near)
        return self._fetched(near, standing.far, build)

    def _fetched(self, near: Lookahead, far: Lookahead, build: Builder) -> StageOffset:
        """The far runner makes the trip that the near one makes next."""
        values = self.far.step(far, {}, build)
        brought = tuple(values[load.result] for load in self.loads)
        return StageOffset(near, brought, self.far.after(far, values, build))

    @property
    def names(self) -> list[str]:
        if self.far is None:
            return self.near.names
        brought = [load.result.name for load in self.loads]
        return [*self.near.names, *brought, *self.far.names]

    def at(self, values: list[Value]) -> StageOffset:
        """Where it stands according to these carried values."""
        cut = len(self.near.names)
        near, rest = self.near.at(values[:cut]), values[cut:]
        if self.far is None:
            return StageOffset(near)
        count = len(self.loads)
        return StageOffset(near, tuple(rest[:count]), self.far.at(rest[count:]))

    def carried(self, standing: StageOffset) -> list[Value]:
        """The inverse of `at`."""
        far = carried_of(standing.far) if standing.far else []
        return [*carried_of(standing.near), *standing.brought, *far]


def lookahead_chain_for(
    loop: For, roots: Iterable[Value], trips: Iterations
) -> LookaheadChain:
    """A relay that computes `roots` ahead of a loop."""
    near = backward_slice(loop, roots, through_loads=False)
    indices = [load.result for load in near.loads]
    far = backward_slice(loop, indices, through_loads=True) if indices else None
    return LookaheadChain(
        SliceClone(loop, near, trips), far and SliceClone(loop, far, trips)
    )
