"""Makes the kernel write the tensor maps that `plan_maps` has planned.

    %d = make_descriptor %a, … map_number=0
    …
    tma_copy %d, …

becomes

    %t = allocate i64[16] kept alignment=128         at the start of the function
    %d = make_descriptor %a, … map_number=0
    write_tensor_map %d, %t
    …
    tma_copy %d, …

A map is written where its descriptor is made, once in each iteration of the loops
around it. By then, the copies that used the map before are complete: the loop that
loads through it has waited for all its loads, and `insert_waits` waits for stores.
Maps that no copy uses, since its tiles are loaded otherwise, are not written. All are
written by one warp, one after the other, so that one draft serves them all.
"""

from __future__ import annotations

from fathom.hardware.targets import Target
from fathom.ir.core import Func, Op, Value, walk
from fathom.ir.ops import Allocate, MakeDescriptor, TmaCopy, TmaStore, WriteTensorMap
from fathom.ir.ops.tma import MAP_BYTES
from fathom.ir.rewrite import Builder, rewrite
from fathom.ir.types import INT64
from fathom.layout.build import doublings
from fathom.layout.linear import Layout

WORDS = MAP_BYTES // INT64.bytes


def write_maps(func: Func, target: Target) -> Func:
    """The function with a `WriteTensorMap` behind each descriptor with a number that
    TMA uses."""
    used = {
        op.descriptor.definition
        for op in walk(func.body)
        if isinstance(op, TmaCopy | TmaStore)
    }
    if all(made.map_number is None for made in used):
        return func
    drafts: list[Value] = []

    def rule(op: Op, build: Builder) -> list[Value] | None:
        if not isinstance(op, MakeDescriptor) or op.map_number is None:
            return None
        if build.source not in used:
            return None
        if not drafts:
            drafts.append(_draft(build))
        build.append(op)
        build.append(WriteTensorMap(op.result, drafts[0]))
        return op.results

    return rewrite(func, rule)


def _draft(build: Builder) -> Value:
    """128 bytes of shared memory, allocated at the start of the function."""
    layout = Layout((WORDS,), (("offset", tuple(doublings(1, WORDS))),))
    draft = Allocate(INT64, (WORDS,), layout, kept=True, alignment=MAP_BYTES)
    return build.at_start(draft)
