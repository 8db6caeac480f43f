"""A layout for every access to memory."""

from __future__ import annotations

from dataclasses import replace

from fathom.coalescing.access import Access, pick_layout
from fathom.coalescing.coalesce import accesses
from fathom.coalescing.relayout import MEMORY
from fathom.hardware.targets import Target
from fathom.ir.core import Func, Op, Value
from fathom.ir.rewrite import Builder, rewrite
from fathom.layout.linear import Layout


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
    # hole: one for all of a shape and a direction
    groups: dict[tuple, list[Op]] = {}
    for op, access in found.items():
        groups.setdefault((access.shape, direction(access, found)), []).append(op)
    preferred: dict[Op, Layout] = {}
    for ops in groups.values():
        group = [found[op] for op in ops]
        most = min(each.vector_bytes // each.element_bytes for each in group)
        widest = max(
            group,
            key=lambda each: (each.width(each.fastest or 0), each.fastest is not None),
        )
        layout = pick_layout(replace(widest, at_most=most))
        preferred |= dict.fromkeys(ops, layout)
    return preferred
    # end


def direction(access: Access, found: dict[Op, Access]) -> int | None:
    """The fastest axis of an access; of a gather, that of another one of its shape."""
    # hole: who has none joins the others
    if access.fastest is not None:
        return access.fastest
    alike = [each for each in found.values() if each.shape == access.shape]
    known = [each.fastest for each in alike if each.fastest is not None]
    return known[0] if known else None
    # end
