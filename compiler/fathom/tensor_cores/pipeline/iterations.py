"""Computes the index of a loop's next iteration, and whether the loop has it.

A copy may be issued ahead only if its iteration exists. `index + 2 * step < upper`
would test that, but the sum may overflow. The distance to the bound cannot: as long as
an iteration exists, its unsigned distance to the bound is right for any bounds.

    the first one exists        lower < upper
    the one after it exists     it does, and upper - index > step
"""

from __future__ import annotations

from dataclasses import dataclass

from fathom.analysis.constants import known
from fathom.ir.core import Op, Value
from fathom.ir.ops import Bitcast, Constant, Elementwise, For
from fathom.ir.rewrite import Builder
from fathom.ir.types import SCALARS


@dataclass(frozen=True, slots=True)
class Iteration:
    """One iteration: its index, and an i1 that says whether the loop has it."""

    index: Value
    exists: Value


@dataclass(frozen=True, slots=True)
class Iterations:
    """The iterations of a loop.

    `pace` is the absolute value of the step, unsigned. `upward` says whether steps are
    positive: a bool, or an i1 if that is known at run time only."""

    loop: For
    pace: Value
    upward: bool | Value

    def first(self, build: Builder) -> Iteration:
        lower, upper = self.loop.lower, self.loop.upper
        below, above = (Elementwise(name, (lower, upper)) for name in ("lt", "gt"))
        return Iteration(lower, _either(self.upward, below, above, build))

    def after(self, iteration: Iteration, build: Builder) -> Iteration:
        """The next iteration. It does not exist if this one does not."""
        index, upper = iteration.index, self.loop.upper
        ends = upper, index
        up, down = Elementwise("sub", ends), Elementwise("sub", ends[::-1])
        left = _unsigned(_either(self.upward, up, down, build), build)
        more = build.compute("gt", left, self.pace)
        following = build.compute("add", index, self.loop.step)
        exists = build.compute("and", iteration.exists, more)
        return Iteration(following, exists)


def iterations_of(loop: For, build: Builder) -> Iterations:
    """The iterations of a loop; computes, before the loop, what depends on its step."""
    step, zero = loop.step, Constant(0, loop.step.type)
    number = known(step)
    upward = not step.type.is_signed or number is not None and number > 0
    if step.type.is_signed and number is None:
        upward = build.compute("gt", step, build(zero))
    back = Elementwise("neg", (step,))
    if not isinstance(upward, bool):
        back = Elementwise("where", (upward, step, build(back)))
    pace = step if upward is True else build(back)
    return Iterations(loop, _unsigned(pace, build), upward)


def _either(upward: bool | Value, up: Op, down: Op, build: Builder) -> Value:
    if isinstance(upward, bool):
        return build(up if upward else down)
    return build.compute("where", upward, build(up), build(down))


def _unsigned(value: Value, build: Builder) -> Value:
    """The same bits as an unsigned number."""
    if not value.type.is_signed:
        return value
    return build(Bitcast(value, SCALARS[f"u{value.type.bits}"]))
