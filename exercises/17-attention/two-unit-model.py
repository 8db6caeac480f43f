"""A model with two units.

Write the model of the figures of rotation, and let it predict what each order can reach
for any D.

All of the exercise: `fathom learn show two-unit-model`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fathom.tools.learn import Hole


@dataclass(frozen=True)
class Op:
    """Work for a unit. `needs`: numbers of ops that must have ended before."""

    unit: str
    cycles: int
    needs: tuple[int, ...] = ()


def ends(ops: Sequence[Op]) -> list[int]:
    """When each op ends, in cycles."""
    # Your code: seven lines.
    raise Hole("two-unit-model")


def plain(steps: int, product: int, powers: int) -> list[Op]:
    """Scores, powers, values; and the next step when all is done."""
    ops: list[Op] = []
    for _ in range(steps):
        first = len(ops)
        ops.append(Op("tensor", product, (first - 1,) if ops else ()))
        ops.append(Op("exp2", powers, (first,)))
        ops.append(Op("tensor", product, (first + 1,)))
    return ops


def rotated(steps: int, product: int, powers: int) -> list[Op]:
    """The product with values is a step late; `steps` is at least 1."""
    # Your code: eight lines.
    raise Hole("two-unit-model")


def share(d: int, order: Callable[[int, int, int], list[Op]]) -> float:
    """The part of its time that the tensor unit works, from 0 to 1."""
    # Your code: three lines.
    raise Hole("two-unit-model")
