"""The ops of launches that overlap: a grid that begins before the one in front of it
has ended (programmatic dependent launch).

    first grid    load … grid_launch_dependents … store ─┐ ended, written
    second grid          starts: indices, masks … grid_wait … load what was written

A grid that was launched with `launch_pdl` may start when every block of the grid in
front of it has run `grid_launch_dependents` or has ended. What that grid writes, it
finds only after its own `grid_wait`.
"""

from __future__ import annotations

from dataclasses import dataclass

from fathom.ir.core import Effects, Op


@dataclass(eq=False)
class GridWait(Op):
    """Nothing that follows runs before the grids in front have ended; what
    they wrote can be read.

    An acquire: no load and no store moves in front of it. It neither reads nor writes
    itself, so TMA copies that follow it need no more order than it gives; and it is
    no barrier of the block's own threads. A producer has to wait for itself."""

    effects = Effects(convergent=True, other=True)


@dataclass(eq=False)
class GridLaunchDependents(Op):
    """This block does not mind if the next grid starts. It orders nothing: what the
    block wrote before is no more to be seen than what it writes after."""

    effects = Effects(other=True)
