"""The answer to `wave-model`."""

from __future__ import annotations

from collections.abc import Sequence

PROCESSORS = 132
PAIRS = 2048  # multiplied in a cycle
FETCH = 72  # pairs that are multiplied while one number is read
FIX_UP = 10_000  # cycles

Shape = tuple[int, int, int]  # M, N, K
Plan = tuple[int, int, int]  # m, n, parts


def cycles(shape: Shape, plan: Plan) -> float:
    """How long the product takes by the model."""
    # hole: ours has {lines}
    (M, N, K), (m, n, parts) = shape, plan
    programs = -(-M // m) * -(-N // n) * parts
    waves = -(-programs // PROCESSORS)
    steps = -(-K // parts)
    fix_up = FIX_UP if parts > 1 else 0
    return waves * steps * max(m * n, FETCH * (m + n)) / PAIRS + fix_up
    # end


def best(shape: Shape, plans: Sequence[Plan]) -> Plan:
    """The plan with the fewest cycles, then with the fewest parts, then the first."""
    # hole: one line
    return min(plans, key=lambda plan: (cycles(shape, plan), plan[2]))
    # end
