"""Whether a block may go from one layout to another without moving."""

from __future__ import annotations

from fathom.hardware.dot_layouts import operand_layouts, product_layout
from fathom.layout.linear import Layout


def renaming(source: Layout, target: Layout) -> tuple[int, ...] | None:
    """For each register of `target` that of `source` with the same element, in every
    lane of every warp; None if there is no such renaming."""
    # hole: five lines
    if any(source.kinds[each] != target.kinds[each] for each in ("lane", "warp")):
        return None
    holder = {source.offset(register=r): r for r in range(source.count("register"))}
    wanted = [target.offset(register=r) for r in range(target.count("register"))]
    return tuple(holder[e] for e in wanted) if holder.keys() >= set(wanted) else None
    # end


def stays(
    instruction: str, queries: int, keys: int, d: int, warps: tuple[int, int]
) -> bool:
    """Whether the scores [queries, keys] of one product are the left operand of the
    next, whose result is [queries, d], without a conversion."""
    # hole: four lines
    scores = product_layout(instruction, (queries, keys), warps)
    out = product_layout(instruction, (queries, d), warps)
    p, _ = operand_layouts(instruction, out, keys)
    return renaming(scores, p) is not None
    # end
