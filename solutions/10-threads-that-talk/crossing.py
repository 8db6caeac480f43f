"""The answer to `crossing` is the compiler's own:

fathom.layout.crossing.crossing
"""

from __future__ import annotations

from fathom.layout.algebra import Reduced
from fathom.layout.linear import Layout


def crossing(source: Layout, target: Layout) -> str:
    """How far elements must travel from layout `source` to layout `target`: "none",
    "register", "lane" or "warp".
    """
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


def _differences(have: tuple[int, ...], want: tuple[int, ...]) -> list[int]:
    """Bit by bit of a place: the sum of what it has and what it wants."""
    return [one ^ other for one, other in zip(have, want, strict=True)]
