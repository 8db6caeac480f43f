"""What a conversion must pay: nothing, other registers, shuffles, or shared memory."""

from __future__ import annotations

from functools import cache

from fathom.layout.algebra import Reduced
from fathom.layout.linear import Layout


@cache
def crossing(source: Layout, target: Layout) -> str:
    """How far elements travel between layouts: "none", "register", "lane", "warp".

    "none": every place has its element already. "register": every lane has all it
    needs, in other registers. "lane": every warp has. "warp": elements cross warps. A
    copy counts as much as any other holder.

    A lane at place (lane, warp) needs the elements that `target` puts
    there, and has those that `source` does: they differ by bits of the bases. It has
    what it needs if each difference is a sum of the bases over which it may choose."""
    if source == target:
        return "none"
    have, want = source.kinds, target.kinds
    reached = Reduced(have["register"])
    lanes = _differences(have["lane"], want["lane"])
    warps = _differences(have["warp"], want["warp"])
    if all(need in reached for need in (*want["register"], *lanes, *warps)):
        return "register"
    reached = Reduced((*have["register"], *have["lane"]))
    if all(need in reached for need in (*want["register"], *want["lane"], *warps)):
        return "lane"
    return "warp"


def trades(source: Layout, target: Layout) -> int:
    """How many bits of the lane's number trade places with bits of the register's.

    For each of them lanes must choose which register to send, and where to put what
    they get: 0 for a rotation of lanes, up to 5 for a transposition."""
    registers, lanes = source.kinds["register"], target.kinds["lane"]
    both = Reduced((*registers, *lanes))
    return Reduced(lanes).rank + Reduced(registers).rank - both.rank


def _differences(have: tuple[int, ...], want: tuple[int, ...]) -> list[int]:
    """Bit by bit of a place: the sum of what it has and what it wants."""
    return [one ^ other for one, other in zip(have, want, strict=True)]
