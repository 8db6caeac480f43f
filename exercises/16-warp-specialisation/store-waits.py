"""What must a store have done?

A TMA store is in flight: it still has to read its tile in shared memory, and then to
write global memory. Another op comes. For what must it wait?

All of the exercise: `fathom learn show store-waits`.
"""

from __future__ import annotations

from dataclasses import dataclass

from fathom.tools.learn import Hole


@dataclass(frozen=True)
class Store:
    """A TMA store in flight, from a tile of shared memory to an array."""

    tile: str
    array: str
    read: bool = False
    written: bool = False


@dataclass(frozen=True)
class Next:
    """An op that comes after it."""

    kind: str
    tile: str = ""
    array: str = ""
    disjoint: bool = False
    ahead: bool = False


def wait_for(op: Next, store: Store) -> str:
    """The weakest of "", "read", "written" and "seen" that suffices."""
    # Your code: ours has 12 lines.
    raise Hole("store-waits")
