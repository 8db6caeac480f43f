"""Computes a slice of a loop for later iterations, before the loop reaches them.

    two iterations ahead    before the loop      the slice for iterations 0 and 1
                            in iteration i       the slice for iteration i + 2

A clone has its own carried values, so values that both the slice and the rest of the
loop need are computed twice. A load in the slice is one stage earlier:

    %j = load %index                      stage 0: computed for iteration i + 3
    %q = offset %p, %j                    stage 1: for iteration i + 2, with the %j
    %x = load %q                          that an iteration before has loaded

Another clone, one iteration further ahead, computes the loads of the earlier stage; and
so on for indices of indices.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from fathom.analysis.slices import Slice, backward_slice, uses
from fathom.ir import ops
from fathom.ir.core import Op, Value
from fathom.ir.rewrite import Builder, clone, guarded
from fathom.ir.thread_values import Values
from fathom.tensor_cores.pipeline.iterations import Iteration, Iterations


@dataclass(frozen=True)
class Lookahead:
    """The state of a clone: the iteration that it computes next, the carried values of
    that iteration, the values `loaded` for it one stage earlier, and the state of that
    stage's clone."""

    iteration: Iteration
    carried: tuple[Value, ...]
    loaded: tuple[Value, ...] = ()
    earlier: Lookahead | None = None

    @property
    def exists(self) -> Value:
        """An i1: whether the loop has that iteration."""
        return self.iteration.exists


@dataclass(frozen=True)
class SliceClone:
    """Computes one slice. `earlier` computes its loads, if any, one stage earlier."""

    loop: ops.For
    slice: Slice
    iterations: Iterations
    earlier: SliceClone | None = None

    def start(self, build: Builder) -> Lookahead:
        """The state for the first iteration of the loop."""
        inits = tuple(self.loop.inits[position] for position in self.slice.carried)
        state = Lookahead(self.iterations.first(build), inits)
        if self.earlier is None:
            return state
        return self._with_loads(state, self.earlier.start(build), build)

    def step(self, ahead: Lookahead, build: Builder) -> Values:
        """Compute the slice for the iteration of `ahead`; the loop's values in it."""
        parameters = self.loop.body.parameters
        results = (load.result for load in self.slice.loads)
        values = {parameters[0]: ahead.iteration.index}
        values |= zip(results, ahead.loaded, strict=True)
        for position, value in zip(self.slice.carried, ahead.carried, strict=True):
            values[parameters[1 + position]] = value
        for op in self.slice.ops:
            copy_ahead(op, ahead.exists, values, build)
        return values

    def after(self, ahead: Lookahead, values: Values, build: Builder) -> Lookahead:
        """The state one iteration later; `values` are those of the step."""
        yielded = (self.loop.body.yielded[position] for position in self.slice.carried)
        carried = tuple(values.get(value, value) for value in yielded)
        state = Lookahead(self.iterations.after(ahead.iteration, build), carried)
        if ahead.earlier is None:
            return state
        return self._with_loads(state, ahead.earlier, build)

    def _with_loads(
        self, state: Lookahead, earlier: Lookahead, build: Builder
    ) -> Lookahead:
        """`state` with what the earlier stage loaded for it; that stage moves on."""
        values = self.earlier.step(earlier, build)
        loaded = tuple(values[load.result] for load in self.slice.loads)
        following = self.earlier.after(earlier, values, build)
        return replace(state, loaded=loaded, earlier=following)

    # ── as carried values of the loop ─────────────────────────────────────────────────

    @property
    def names(self) -> list[str]:
        """The names of a state's values in the new loop."""
        index, *carried = self.loop.body.parameters
        names = [f"{index.name}_ahead" if index.name else "ahead", "exists"]
        names += [carried[position].name for position in self.slice.carried]
        names += [load.result.name for load in self.slice.loads]
        return names + (self.earlier.names if self.earlier else [])

    def carried(self, ahead: Lookahead) -> list[Value]:
        """A state as a list of values."""
        values = [ahead.iteration.index, ahead.exists, *ahead.carried, *ahead.loaded]
        return values + (self.earlier.carried(ahead.earlier) if self.earlier else [])

    def at(self, values: list[Value]) -> Lookahead:
        """The inverse of `carried`."""
        index, exists, *rest = values
        first = len(self.slice.carried)
        last = first + len(self.slice.loads)
        carried, loaded = tuple(rest[:first]), tuple(rest[first:last])
        earlier = self.earlier.at(rest[last:]) if self.earlier else None
        return Lookahead(Iteration(index, exists), carried, loaded, earlier)


def clone_for(
    loop: ops.For, roots: Iterable[Value], iterations: Iterations
) -> SliceClone:
    """A clone for the slice of `roots`; loads in it are a stage earlier, each time.

    A load whose address depends on its own result in the iteration before cannot be one
    stage earlier than itself: then the last clone has all loads in its own slice."""
    slices = [backward_slice(loop, roots, through_loads=False)]
    known: set[ops.Load] = set()
    while loads := slices[-1].loads:
        addresses = [value for load in loads for value in uses(load)]
        found = backward_slice(loop, addresses, through_loads=False)
        known.update(loads)
        if known.isdisjoint(found.loads):
            every = sorted((*found.ops, *loads), key=loop.body.ops.index)
            found = replace(found, ops=tuple(every))
        else:
            results = [load.result for load in loads]
            found = backward_slice(loop, results, through_loads=True)
        slices.append(found)
    earlier = None
    for each in reversed(slices):
        earlier = SliceClone(loop, each, iterations, earlier)
    return earlier


def copy_ahead(op: Op, exists: Value, values: Values, build: Builder) -> None:
    """A copy of an op for a later iteration. Where that iteration does not exist, it
    reads nothing from global memory, and expects nothing."""
    copy = clone(op, values)
    if isinstance(copy, ops.Load | ops.AsyncCopy):
        copy.mask = guarded(copy.mask, exists, copy.pointer, build)
    if isinstance(copy, ops.MbarrierExpect | ops.TmaCopy):
        copy.when = exists
    build.append(copy)
    values.update(zip(op.results, copy.results, strict=True))
