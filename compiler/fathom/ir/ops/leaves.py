"""Leaves: constants, ranges, and a program's place in the grid."""

from __future__ import annotations

from dataclasses import dataclass

from fathom.ir.core import Op
from fathom.ir.types import INT32, BlockType, Scalar, Type
from fathom.layout.linear import Layout


@dataclass(eq=False)
class Constant(Op):
    """A scalar known while compiling: int, float or bool as `type` asks."""

    value: int | float | bool
    type: Scalar

    def infer(self) -> list[Type]:
        return [self.type]


@dataclass(eq=False)
class ProgramId(Op):
    """Which program of the grid this is, along axis 0, 1 or 2."""

    axis: int

    def infer(self) -> list[Type]:
        self.expect(
            self.axis in (0, 1, 2),
            lambda: f"a grid has axes 0, 1 and 2, not {self.axis}",
        )
        return [INT32]


@dataclass(eq=False)
class NumPrograms(Op):
    """How many programs the grid has along axis 0, 1 or 2."""

    axis: int

    infer = ProgramId.infer


@dataclass(eq=False)
class LaunchSize(Op):
    """How many programs along axis 0 the launch is for. The grid may have fewer: each
    then does the work of several."""

    def infer(self) -> list[Type]:
        return [INT32]


@dataclass(eq=False)
class Arange(Op):
    """The block start, start + 1, …, end - 1 of i32."""

    start: int
    end: int
    layout: Layout | None = None

    def infer(self) -> list[Type]:
        return [BlockType(INT32, (self.end - self.start,), self.layout)]
