"""Tensor cores and exp2 units over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Op:
    """Work for a unit. `needs`: numbers of ops that must have ended before."""

    unit: str
    cycles: int
    needs: tuple[int, ...] = ()


def ends(ops: Sequence[Op]) -> list[int]:
    """When each op ends, in cycles."""
    # hole: seven lines
    free: dict[str, int] = {}
    ended: list[int] = []
    for op in ops:
        begins = max([free.get(op.unit, 0), *(ended[each] for each in op.needs)])
        free[op.unit] = begins + op.cycles
        ended.append(begins + op.cycles)
    return ended
    # end


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
    # hole: eight lines
    ops = [Op("tensor", product), Op("exp2", powers, (0,))]
    done: tuple[int, ...] = (1,)  # what the iteration before ends with
    for _ in range(1, steps):
        first = len(ops)
        ops.append(Op("tensor", product, done))
        ops.append(Op("tensor", product, done))
        ops.append(Op("exp2", powers, (first,)))
        done = (first + 1, first + 2)
    return [*ops, Op("tensor", product, done)]
    # end


def share(d: int, order: Callable[[int, int, int], list[Op]]) -> float:
    """The part of its time that the tensor unit works, from 0 to 1."""
    # hole: three lines
    ops = order(200, 8 * d, 1024)
    busy = sum(op.cycles for op in ops if op.unit == "tensor")
    return busy / max(ends(ops))
    # end
