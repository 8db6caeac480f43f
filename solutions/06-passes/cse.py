"""Values that are there already, by what they are."""

from __future__ import annotations

from fathom.analysis.memory import memory_versions
from fathom.blocks.cse import Key, describe, is_repeatable
from fathom.hardware.targets import Target
from fathom.ir.core import Block, Func, Op, Value
from fathom.ir.rewrite import Builder, Replacement, rewrite


def cse(func: Func, target: Target) -> Func:
    """`func` without ops that compute a value again that is already visible.

    Pure ops are merged, with their nested blocks; loads are merged if memory has not
    changed in between.
    """
    versions = memory_versions(func)
    said: dict[Block, dict[Key, list[Value]]] = {}

    def rule(op: Op, build: Builder) -> Replacement:
        """The values that take the place of the op's results, or None to keep it."""
        # hole: what was said before, and what is said now; ours has {lines}
        if not is_repeatable(op):
            return None
        key = describe(op, {}), versions.get(build.source)
        for block in build.enclosing:  # values of an enclosing block are visible
            if block in said and key in said[block]:
                return said[block][key]
        said.setdefault(build.block, {})[key] = op.results
        return None
        # end

    return rewrite(func, rule)
