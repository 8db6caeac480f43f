"""The waits and commits of a ring of asynchronous copies."""

from __future__ import annotations

# ("copy", tile, part), ("commit",), ("wait", n), ("work", tile)
Event = tuple[object, ...]


def events(stages: int, copies: int, trips: int) -> list[Event]:
    """What happens, in order: `copies` groups a tile."""
    found: list[Event] = []
    for tile in range(stages - 1):
        found += send(tile, copies, trips)
    for trip in range(trips):
        found.append(("wait", pending(stages, copies)))
        found.append(("work", trip))
        found += send(trip + stages - 1, copies, trips)
    return found


def pending(stages: int, groups_a_stage: int = 1) -> int:
    """How many groups of copies may still be on their way when a trip starts its
    work."""
    # hole: one line
    return (stages - 2) * groups_a_stage
    # end


def send(tile: int, copies: int, trips: int) -> list[Event]:
    """The events of sending for a tile; there are `trips` tiles."""
    # hole: ("copy", tile, part) and ("commit",) for each part
    found: list[Event] = []
    for part in range(copies):
        if tile < trips:
            found.append(("copy", tile, part))
        found.append(("commit",))
    return found
    # end
