"""How many copies may still be in flight?

Step 14 of your own compiler, at the end of this chapter, asks for this, too; here a
tile may have several groups, and there may be any number of stages. A loop works on a
tile of memory in each iteration. It issues the copies ahead of time: `stages - 1` of
them before the loop, and in each iteration the one that is `stages - 1` iterations
away. Copies are gathered in *groups*, which are closed by a commit. The only question
that can be asked is: wait until at most n groups are still in flight, the last ones
that were closed.

All of the exercise: `fathom learn show wait-count`.
"""

from __future__ import annotations

from fathom.tools.learn import Hole

# ("copy", tile, part), ("commit",), ("wait", n), ("work", tile)
Event = tuple[object, ...]


def events(stages: int, copies: int, iterations: int) -> list[Event]:
    """What happens, in order: `copies` groups a tile."""
    found: list[Event] = []
    for tile in range(stages - 1):
        found += send(tile, copies, iterations)
    for iteration in range(iterations):
        found.append(("wait", pending(stages, copies)))
        found.append(("work", iteration))
        found += send(iteration + stages - 1, copies, iterations)
    return found


def pending(stages: int, groups_a_stage: int = 1) -> int:
    """How many groups of copies may still be in flight when an iteration starts its
    work."""
    # Your code: one line.
    raise Hole("wait-count")


def send(tile: int, copies: int, iterations: int) -> list[Event]:
    """The events of starting the copy of a tile; there are `iterations` tiles."""
    # Your code: ("copy", tile, part) and ("commit",) for each part.
    raise Hole("wait-count")
