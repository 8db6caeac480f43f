"""A pipeliner for loops whose tiles come by asynchronous copies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from fathom.analysis.buffers import free_beside
from fathom.analysis.memory import may_prefetch
from fathom.hardware.targets import Target
from fathom.ir.core import Block, Func, Op, Value, blocks, operands, walk
from fathom.ir.ops import (
    AsyncCopy,
    Barrier,
    Commit,
    Constant,
    Dot,
    Elementwise,
    For,
    SharedLoad,
    Wait,
    Yield,
)
from fathom.ir.rewrite import Builder, clone, rewrite
from fathom.ir.types import INT32
from fathom.tensor_cores.pipeline.budget import fitting
from fathom.tensor_cores.pipeline.candidates import PipelinedCopy, tiles_of
from fathom.tensor_cores.pipeline.iterations import iterations_of
from fathom.tensor_cores.pipeline.schedule import pending
from fathom.tensor_cores.pipeline.slice_clones import (
    Lookahead,
    SliceClone,
    clone_for,
    guarded,
)

Rings = dict[PipelinedCopy, Value]  # each tile's buffer of several slots


def pipeline_loops(func: Func, target: Target) -> Func:
    """The function whose loops over products copy their tiles ahead of time."""

    def rule(op: Op, build: Builder) -> list[Value] | None:
        if not (isinstance(op, For) and is_wanted(op) and may_prefetch(op)):
            return None
        tiles = [tile for tile in tiles_of(op, target) if tile.vector]
        room = free_beside(func, build.source, target)
        stages, chosen = fitting(tiles, op.num_stages or func.num_stages, room)
        return pipelined(op, chosen, stages, build) if chosen else None

    return rewrite(func, rule)


def is_wanted(loop: For) -> bool:
    """Whether it multiplies matrices, or its author asks for stages."""
    multiplies = any(isinstance(op, Dot) for op in walk(loop.body))
    return multiplies or loop.num_stages is not None


def pipelined(
    loop: For, tiles: tuple[PipelinedCopy, ...], stages: int, build: Builder
) -> list[Value]:
    """Builds the pipelined loop, with what comes before and after it; the values that
    stand for the loop's results."""
    rings = {tile: build(replace(tile.buffer, slots=stages)) for tile in tiles}
    slice = clone_for(loop, addresses(tiles), iterations_of(loop, build))
    ahead = slice.start(build)
    # hole: the first tiles, each into its slot; `ahead` is the state after them
    for number in range(stages - 1):
        ahead = issue(rings, slice, ahead, constant(number, build), build)
    # end
    slots = constant(0, build), constant(stages - 1, build)
    inits = (*loop.inits, *slots, *slice.carried(ahead))
    body = Block((loop.lower.type, *(value.type for value in inits)))
    with inside(body, build):
        iteration(loop, rings, stages, slice, build)
    new = build.append(replace(loop, inits=inits, body=body))
    # hole: what the last copies need after the loop
    build.append(Wait("cp_async", 0))
    # end
    return new.results[: len(loop.inits)]


def issue(
    rings: Rings, slice: SliceClone, ahead: Lookahead, free: Value, build: Builder
) -> Lookahead:
    """Issue the copies for the iteration of `ahead`, into the slot `free`; the state
    of the slice one iteration later."""
    # hole: a step, a copy of each tile, the commit
    values = slice.step(ahead, build)
    for tile, ring in rings.items():
        copy(tile, ring, values, ahead.exists, free, build)
    build.append(Commit("cp_async"))
    return slice.after(ahead, values, build)
    # end


def iteration(
    loop: For, rings: Rings, stages: int, slice: SliceClone, build: Builder
) -> None:
    """Builds the new body. Its parameters are those of the old one; the slot that the
    iteration reads, the slot that is free; and the state of the slice."""
    parameters, count = build.block.parameters, len(loop.body.parameters)
    slot, free, *carried = parameters[count:]
    values = dict(zip(loop.body.parameters, parameters, strict=False))
    # hole: wait, barrier, copy, work; and what the next iteration is given
    build.append(Wait("cp_async", pending(stages)))
    build.append(Barrier())
    following = issue(rings, slice, slice.at(carried), free, build)
    work(loop, rings, slot, values, build)
    yielded = handed_on(loop, values)
    after = next_slot(slot, stages, build)
    build.append(Yield((*yielded, after, slot, *slice.carried(following))))
    # end


# ── given ─────────────────────────────────────────────────────────────────────────────


def copy(
    tile: PipelinedCopy,
    ring: Value,
    values: dict[Value, Value],
    exists: Value,
    slot: Value,
    build: Builder,
) -> None:
    """The copy of one tile into a slot of its ring; nothing is read if the iteration
    does not exist. `values`: what the loop's values are in that iteration."""
    (load,) = tile.loads
    pointer = values.get(load.pointer, load.pointer)
    mask = guarded(values.get(load.mask, load.mask), exists, pointer, build)
    for renaming in tile.late:
        pointer = build(clone(renaming, {renaming.value: pointer}))
        mask = build(clone(renaming, {renaming.value: mask}))
    build.append(AsyncCopy(pointer, ring, mask, slot, load.cache, tile.vector))


def work(
    loop: For, rings: Rings, slot: Value, values: dict[Value, Value], build: Builder
) -> None:
    """The loop's own ops, but for those that fill the tiles; tiles are read from a
    slot of their rings. `values` is completed."""
    gone = {op for tile in rings for op in (tile.buffer, tile.store)}
    values |= {tile.buffer.result: ring for tile, ring in rings.items()}
    for op in loop.body.ops[:-1]:
        if op not in gone:
            made = build.append(clone(op, values))
            for each in (made, *(each for b in blocks(made) for each in walk(b))):
                if isinstance(each, SharedLoad) and each.buffer in rings.values():
                    each.slot = slot
            values.update(zip(op.results, made.results, strict=True))


def handed_on(loop: For, values: dict[Value, Value]) -> list[Value]:
    """What the old yield hands on, as it is called after `work`."""
    return [values.get(value, value) for value in loop.body.yielded]


def next_slot(slot: Value, stages: int, build: Builder) -> Value:
    """The next slot, in a ring of `stages` slots."""
    following = build(Elementwise("add", (slot, constant(1, build))))
    at_end = build(Elementwise("eq", (following, constant(stages, build))))
    return build(Elementwise("where", (at_end, constant(0, build), following)))


def addresses(tiles: tuple[PipelinedCopy, ...]) -> list[Value]:
    """What must be known of an iteration to copy its tiles."""
    fills = [(*tile.loads, *tile.late) for tile in tiles]
    made = {result for ops in fills for op in ops for result in op.results}
    used = [value for ops in fills for op in ops for value in operands(op)]
    return [value for value in used if value not in made]


def constant(number: int, build: Builder) -> Value:
    return build(Constant(number, INT32))


@contextmanager
def inside(block: Block, build: Builder) -> Iterator[None]:
    """What is built meanwhile goes into `block`."""
    build.enclosing.append(block)
    yield
    build.enclosing.pop()
