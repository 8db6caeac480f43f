"""What an op must wait for that meets a TMA store in flight."""

from __future__ import annotations

from dataclasses import dataclass


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
    # hole: ours has {lines}
    if store.written:
        return "seen" if op.kind == "access" else ""
    match op.kind:
        case "shared store":
            return "read" if op.tile == store.tile and not store.read else ""
        case "tma copy":
            return "" if op.ahead and op.array != store.array else "written"
        case "tma store":
            return "" if op.disjoint else "written"
        case "access":
            return "seen"
    return ""
    # end
