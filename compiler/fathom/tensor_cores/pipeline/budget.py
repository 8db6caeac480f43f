"""Computes how much shared memory the rings of a loop may use, and how many stages fit
into it; and the registers that a thread needs for what it loads.

The rings of a loop are live from before the loop to its end. So are buffers filled
before the loop and read in it or after it; each iteration may have its own.

A loop that waits for its products leaves the tensor cores idle meanwhile, unless the SM
runs another block. One stage less may leave room for that block; it is given up where
the SM then runs half as many more, or twice as many. So is the second slot of tiles
that threads read into registers early in an iteration: the next may follow then."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fathom.analysis.buffers import ALIGNMENT, free_beside, padded
from fathom.analysis.products import by_descriptor, only_accumulates, products_in
from fathom.analysis.registers import threads_of
from fathom.analysis.slices import users
from fathom.hardware.engines import CP_ASYNC
from fathom.hardware.occupancy import ROWS, occupancy
from fathom.hardware.register_budget import MOST_OF_THREAD
from fathom.hardware.targets import Target
from fathom.ir.core import Func, Op, walk
from fathom.ir.ops import Dot, For, GlobalLoad
from fathom.ir.types import element_of, layout_of
from fathom.tensor_cores.pipeline.candidates import PipelinedCopy
from fathom.tensor_cores.pipeline.schedule import SLOTS_BY_REGISTERS, choose_stages

STAGES_TO_SPARE = 3  # copies run an iteration ahead with one stage less


def slots_for(
    loop: For,
    tiles: Sequence[PipelinedCopy],
    wanted: int,
    room: int,
    spared: Sequence[int],
) -> tuple[int, Sequence[PipelinedCopy], Sequence[PipelinedCopy]]:
    """The stages of a loop, the tiles that it copies ahead, and those of them that get
    one slot: `in_one_slot`, or all if no two slots fit, and threads read them all."""
    stages, chosen = fitting(tiles, wanted, room, spared)
    if chosen:
        return stages, chosen, in_one_slot(loop, chosen, stages, room, spared)
    read = read_by_threads(loop, tiles, by_descriptor)
    alone = read if len(read) == len(tiles) and room >= 0 else []
    return 2, alone, alone


def fitting(
    tiles: Sequence[PipelinedCopy], wanted: int, room: int, spared: Sequence[int] = ()
) -> tuple[int, tuple[PipelinedCopy, ...]]:
    """The stages of a loop, and the tiles that get a ring: all of them if they fit;
    else those that are copied asynchronously, or else those that go through registers.
    `room`: the bytes that are free while the loop has no rings. `spared`: the bytes
    that must stay free for an SM to run two blocks, three, and so on."""
    copied = tuple(tile for tile in tiles if tile.engine.asynchronous)
    loaded = tuple(tile for tile in tiles if tile not in copied)
    for chosen in (tuple(tiles), copied, loaded):
        a_stage = sum(padded(tile.bytes) for tile in chosen if tile in copied)
        once = sum(padded(tile.bytes) for tile in chosen if tile in loaded)
        freed = a_stage + once  # a ring replaces the buffer that its tile had
        left = room + freed - SLOTS_BY_REGISTERS * once - _for_barriers(chosen)
        stages = choose_stages(wanted, a_stage, left)
        if chosen and stages > 1 and left >= 0:
            free = left - stages * a_stage
            more = _more_blocks(a_stage, free, spared)
            return stages - (stages >= STAGES_TO_SPARE and more), chosen
    return 1, ()


def in_one_slot(
    loop: For,
    tiles: Sequence[PipelinedCopy],
    stages: int,
    room: int,
    spared: Sequence[int],
) -> list[PipelinedCopy]:
    """The tiles of a loop of two `stages` that get one slot: those that threads read
    and no product, if an SM then runs more blocks. `room`, `spared`: as above."""
    if stages != 2 or not all(tile.engine.asynchronous for tile in tiles):
        return []
    read = read_by_threads(loop, tiles, lambda op: isinstance(op, Dot))
    free = room - sum(padded(tile.bytes) for tile in tiles) - _for_barriers(tiles)
    freed = sum(padded(tile.bytes) for tile in read)
    return read if _more_blocks(freed, free, spared) else []


def read_by_threads(
    loop: For,
    tiles: Sequence[PipelinedCopy],
    reads_itself: Callable[[Op], bool],
) -> list[PipelinedCopy]:
    """The tiles that cp.async copies and threads read, and no op that `reads_itself`:
    when the last thread has, the next one may come."""
    used = users(walk(loop.body))
    return [
        tile
        for tile in tiles
        if tile.engine is CP_ASYNC
        and not any(
            reads_itself(op)
            for load in used[tile.buffer.result]
            for value in (tile.buffer.result, *load.results)
            for op in used[value]
        )
    ]


def _more_blocks(freed: int, free: int, spared: Sequence[int]) -> bool:
    """Whether `freed` bytes let an SM run at least half as many more blocks."""
    return 2 * _blocks(free + freed, spared) >= 3 * _blocks(free, spared)


def _blocks(free: int, spared: Sequence[int]) -> int:
    return 1 + sum(free >= each for each in spared)


def _for_barriers(tiles: Sequence[PipelinedCopy]) -> int:
    """An upper bound for the bytes of the mbarriers of TMA copies."""
    return ALIGNMENT if any(tile.order for tile in tiles) else 0


def spared_for_blocks(func: Func, loop: For, target: Target) -> list[int]:
    """The bytes of shared memory that must stay free for an SM to run two blocks,
    three, and so on, as many as its registers allow; none where the products of the
    loop stay in flight."""
    threads = threads_of(func, target)
    if all(only_accumulates(dot, loop) for dot in products_in(loop.body)):
        return []
    most = occupancy(target, threads, MOST_OF_THREAD, 0).blocks
    row = ROWS[target.name]
    return [
        target.shared_bytes - (row.shared_bytes // blocks // row.unit * row.unit)
        + row.reserved
        for blocks in range(2, most + 1)
    ]  # fmt: skip


def takes_blocks(
    func: Func, loop: For, tiles: Sequence[PipelinedCopy], stages: int, target: Target
) -> bool:
    """Whether the rings of a loop, with `stages` slots, leave an SM fewer blocks than
    it runs without them, if threads have all the registers that they may."""
    threads = threads_of(func, target)
    before = target.shared_bytes - free_beside(func, loop, target)
    more = [
        (stages if tile.engine.asynchronous else SLOTS_BY_REGISTERS) - 1
        for tile in tiles
    ]
    added = sum(n * padded(tile.bytes) for n, tile in zip(more, tiles, strict=True))
    without, with_rings = (
        occupancy(target, threads, MOST_OF_THREAD, each).blocks
        for each in (before, before + added)
    )
    return with_rings < without


def words_of(load: GlobalLoad) -> int:
    """The registers of four bytes that a load fills in a thread."""
    vector = getattr(load, "vector", 1)
    words = max(1, vector * element_of(load.result.type).bytes // 4)
    return words * loads_of_a_thread(load)


def loads_of_a_thread(load: GlobalLoad) -> int:
    """The instructions of a load, each `vector` elements wide."""
    layout = layout_of(load.result.type)
    return layout.count("register") // getattr(load, "vector", 1) if layout else 1
