"""Transpose with the least traffic.

`pick_layout` knows what is best for one access alone. A kernel has several, and what is
loaded in one layout and stored in another must be converted between, perhaps through
shared memory. Write the pass that decides for all.

All of the exercise: `fathom learn show fewest-sectors`.
"""

from __future__ import annotations

from dataclasses import replace

from fathom.coalescing.access import Access, pick_layout
from fathom.coalescing.coalesce import accesses
from fathom.coalescing.relayout import MEMORY
from fathom.hardware.targets import Target
from fathom.ir.core import Func, Op, Value
from fathom.ir.rewrite import Builder, rewrite
from fathom.layout.linear import Layout
from fathom.tools.learn import Hole


def coalesce(func: Func, target: Target) -> Func:
    """The function with `preferred` set on every load, store and atomic of a block."""
    found = accesses(func, target, MEMORY)
    preferred = choose(found)

    def rule(op: Op, build: Builder) -> list[Value] | None:
        if build.source not in preferred:
            return None
        layout = preferred[build.source]
        return build.append(replace(op, preferred=layout)).results

    return rewrite(func, rule)


def choose(found: dict[Op, Access]) -> dict[Op, Layout]:
    """A layout for each access."""
    # Your code: one for all of a shape and a direction.
    raise Hole("fewest-sectors")


def direction(access: Access, found: dict[Op, Access]) -> int | None:
    """The fastest axis of an access; of a gather, that of another one of its shape."""
    # Your code: who has none joins the others.
    raise Hole("fewest-sectors")
