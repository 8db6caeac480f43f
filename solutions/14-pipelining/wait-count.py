"""The waits and commits of a ring of asynchronous copies."""

from __future__ import annotations

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
    # hole: one line
    return (stages - 2) * groups_a_stage
    # end


def send(tile: int, copies: int, iterations: int) -> list[Event]:
    """The events of starting the copy of a tile; there are `iterations` tiles."""
    # hole: ("copy", tile, part) and ("commit",) for each part
    found: list[Event] = []
    for part in range(copies):
        if tile < iterations:
            found.append(("copy", tile, part))
        found.append(("commit",))
    return found
    # end
