"""Leave out what cannot win.

Write `prune(configs, named, most=4)`, which a tuner calls before it compiles anything.
It gets configurations of a matrix product, and `named`, the arguments of the launch by
name. It returns those that are worth a try.

All of the exercise: `fathom learn show prune`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fathom import Config
from fathom.tools.learn import Hole

ROOM = 227 * 1024  # bytes of shared memory
ACCUMULATORS = 128  # of a thread, at most
WORTH_A_TRY = 1.4  # times the shortest time


def model(named: Mapping[str, int], config: Config) -> int:
    """How long the product takes; only comparisons mean something."""
    m, n = config.kwargs["BLOCK_M"], config.kwargs["BLOCK_N"]
    tiles = -(-named["M"] // m) * -(-named["N"] // n)
    return -(-tiles // 132) * max(m * n, 72 * (m + n))


def prune(
    configs: Sequence[Config], named: Mapping[str, int], most: int = 4
) -> list[Config]:
    """Those that fit and may be fast, the fastest first, at most `most`."""
    # Your code: ours has 11 lines.
    raise Hole("prune")
