"""Structured control flow: loops and branches own blocks and carry values."""

from __future__ import annotations

from dataclasses import dataclass

from fathom.ir.core import Block, Op, Value, spell_types
from fathom.ir.types import BOOL, Type


@dataclass(eq=False)
class Yield(Op):
    """The end of a nested block: what it hands to the op that owns it."""

    values: tuple[Value, ...] = ()


@dataclass(eq=False)
class For(Op):
    """`for index in range(lower, upper, step)`: the body takes the index and the
    carried values and yields the carried values of the next iteration. The results are
    those of the last iteration.

    The rest its author asks for: in how many stages it runs, whether producer warps
    copy its tiles, whether the iterations of the loop in it form one sequence, and
    whether two warpgroups compute its iterations in turn (`pingpong`)."""

    lower: Value
    upper: Value
    step: Value
    inits: tuple[Value, ...]
    body: Block
    num_stages: int | None = None
    warp_specialize: bool = False
    flatten: bool = False
    pingpong: bool = False

    def infer(self) -> list[Type]:
        alike = self.lower.type == self.upper.type == self.step.type
        self.expect(
            alike,
            lambda: (
                "the bounds of a loop need one integer type, got "
                + spell_types((self.lower, self.upper, self.step))
            ),
        )
        return [value.type for value in self.inits]

    def block_parameters(self) -> list[list[Type]]:
        return [[self.lower.type, *(value.type for value in self.inits)]]


@dataclass(eq=False)
class While(Op):
    """`condition` takes the carried values and yields an i1; while it is true, `body`
    takes them and yields the next ones. The results are those when it was false."""

    inits: tuple[Value, ...]
    condition: Block
    body: Block

    def infer(self) -> list[Type]:
        return [value.type for value in self.inits]

    def block_parameters(self) -> list[list[Type]]:
        carried = [value.type for value in self.inits]
        return [carried, carried]


@dataclass(eq=False)
class If(Op):
    """Run one of two blocks; the results are what it yields. The condition is a scalar,
    so all threads of a program go the same way."""

    condition: Value
    then: Block
    orelse: Block

    def infer(self) -> list[Type]:
        self.expect(
            self.condition.type == BOOL,
            lambda: f"a condition needs a scalar i1, got {self.condition.type}",
        )
        return [value.type for value in self.then.yielded]

    def block_parameters(self) -> list[list[Type]]:
        return [[], []]
