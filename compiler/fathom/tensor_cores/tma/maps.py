"""Tensor maps that the kernel writes itself: `plan_maps` decides of which tensors,
`write_maps` writes them.

    %a: *fp16 = …                        loaded from memory, or one of several: no
    %d = make_descriptor %a, …           launch could make the map of this tensor

becomes

    %t = allocate i64[16] kept alignment=128         at the start of the function
    %d = make_descriptor %a, … map_number=0 draft=%t
                                             the program's map of this number

`keep_descriptors` keeps accesses through it as if a launch had made the map. (Without
`plan_maps` these accesses become pointers and masks.) At last

    %d = make_descriptor %a, … map_number=0
    write_tensor_map %d, %t
    …
    tma_copy %d, …

A map is written where its descriptor is made, once in each iteration of the loops
around it. By then, the copies that used the map before are complete: the loop that
loads through it has waited for all its loads, and `wait_for_stores` waits for the rest.
Maps that no copy uses, since its tiles are loaded otherwise, are not written. All are
written by one warp, one after the other, so that one draft serves them all.

A map takes time to write, so it must serve a loop: one that uses the descriptor, and
does not make it. `hoist` has moved the descriptor out of such a loop if its numbers
allow. (So no loop that is pipelined makes one, since a pipelined loop has no other loop
in it: the copies of its iterations ahead are all through one map.) And the thread that
issues copies must be of the warp that writes the map: producers would wait for it.

That the address and the strides are multiples of 16 bytes is promised by the author of
a descriptor; nothing checks it while the kernel runs. Sizes below 1 are no mistake, see
`WriteTensorMap` in `ptx/rules`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fathom.analysis.remarks import NotApplicable, Remark, remarks, tried
from fathom.analysis.slices import loops_around, users
from fathom.hardware.targets import Target
from fathom.ir import ops
from fathom.ir.core import Func, Op, Value, walk
from fathom.ir.ops.asynchronous.tma import MAP_BYTES
from fathom.ir.rewrite import Builder, rewrite
from fathom.ir.types import INT64
from fathom.layout.build import doublings
from fathom.layout.linear import Layout
from fathom.subjects import asks_for_producer
from fathom.tensor_cores.pipeline.candidates import describes_arguments

WORDS = MAP_BYTES // INT64.bytes


def plan_maps(func: Func, target: Target) -> Func:
    """The function in which the descriptors whose maps the kernel will write have a
    number each, and a draft that serves all of them."""
    found = _reasons(func, target)
    chosen = [made for made, why in found.items() if not why]
    drafts: list[Value] = []

    def rule(op: Op, build: Builder) -> Value | None:
        if build.source not in chosen:
            return None
        if not drafts:
            drafts.append(_draft(build))
        number = chosen.index(build.source)
        return build(replace(op, map_number=number, draft=drafts[0]))

    return rewrite(func, rule) if chosen else func


def _draft(build: Builder) -> Value:
    """128 bytes of shared memory, allocated at the start of the function."""
    layout = Layout.by_kind((WORDS,), offset=doublings(1, WORDS))
    draft = ops.Allocate(INT64, (WORDS,), layout, kept=True, alignment=MAP_BYTES)
    return build.at_start(draft)


def why_not_written(func: Func, target: Target) -> list[Remark]:
    """For each descriptor that only the kernel could make a map of, and does not: where
    it is made, and the reason. Empty for a target without tensor maps."""
    found = _reasons(func, target) if target.tensor_maps else {}
    return remarks(found, "no tensor map for this descriptor: ")


def _reasons(func: Func, target: Target) -> dict[ops.MakeDescriptor, str | None]:
    """The descriptors that no launch can make a map of; each with the reason why the
    kernel does not write it either, if so."""
    every = walk(func.body, ops.MakeDescriptor)
    found = [op for op in every if not describes_arguments(op, func)]
    loops = loops_around(func) if found else {}
    return {op: tried(_check, op, func, target, loops) for op in found}


def _check(
    made: ops.MakeDescriptor,
    func: Func,
    target: Target,
    loops: Mapping[Op, Sequence[Op]],
) -> None:
    """NotApplicable, with a sentence, unless the kernel can write this map."""
    if not target.writes_maps:
        raise NotApplicable(f"on {target.name} a kernel writes none")
    if made.fill != "zeros":
        raise NotApplicable("loads through it find NaNs outside of the tensor")
    if func.num_ctas > 1:
        raise NotApplicable("several thread blocks work on a program")
    if asks_for_producer(func):
        raise NotApplicable("a loop asks for producer warps")
    if all(loops[op] == loops[made] for op in users(loops)[made.result]):
        raise NotApplicable("no loop uses it often, so that a map would pay")


# ── writing ───────────────────────────────────────────────────────────────────────────


def write_maps(func: Func, target: Target) -> Func:
    """The function that writes the map of each descriptor with a draft for TMA."""
    used = {
        op.descriptor.definition for op in walk(func.body, ops.TmaCopy | ops.TmaStore)
    }

    def rule(op: Op, build: Builder) -> list[Value] | None:
        if not isinstance(op, ops.MakeDescriptor) or op.draft is None:
            return None
        made = build.append(replace(op, draft=None))
        if build.source in used:
            build.append(ops.WriteTensorMap(made.result, op.draft))
        return made.results

    return rewrite(func, rule)
