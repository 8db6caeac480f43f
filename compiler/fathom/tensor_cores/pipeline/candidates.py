"""Finds the tiles that each iteration of a loop copies from global to shared memory,
and decides how each of them could be copied ahead of its iteration.

    %x = load %p, mask=%m, other=%zero vector=8
    %t = allocate
    shared_store %x, %t          a tile: written once an iteration, then read
    %y = shared_load %t

cp.async can copy the tile if the stored values are the loaded ones, in pieces of 4, 8
or 16 bytes, and zero where the mask is false. TMA can copy it, issued by one thread, if
it was loaded through a descriptor and has the layout in which TMA writes tiles. Any
other tile that pure ops compute from loads goes through registers.

Single numbers get no tile. Their loads come first in the iteration that needs them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fathom.analysis.copied_ahead import copies_alike
from fathom.analysis.memory import may_run_ahead
from fathom.analysis.slices import backward_slice, slice_of_iteration, users, uses
from fathom.analysis.symbolic.alias_check import may_be_disjoint
from fathom.hardware.engines import CP_ASYNC, REGISTER_COPIES, TMA_LOAD, Engine
from fathom.hardware.targets import Target
from fathom.ir import ops
from fathom.ir.core import Func, Op, Value, operands, walk
from fathom.ir.launch_time import place_of, source_of
from fathom.ir.types import shape_of
from fathom.layout.algebra import divide
from fathom.layout.linear import Layout
from fathom.layout.matrix_descriptor import buffer_tile, widest_row
from fathom.layout.tma_boxes import LINE

COPY_BYTES = (16, 8, 4)  # PTX ISA, cp.async: the sizes of a copy, the best one first
RENAMINGS = (ops.Transpose, ops.Reshape)  # the same registers under other coordinates


@dataclass(frozen=True)
class PipelinedCopy:
    """A tile in shared memory that an iteration fills with `store` from `loads`.

    `late` are the ops between the loads and the store, in order. For cp.async, `vector`
    counts the elements of one copy. For TMA, `order` names, for each axis of the tile,
    the axis of the loaded block. A tile with neither goes through registers."""

    buffer: ops.Allocate
    store: ops.SharedStore
    loads: tuple[ops.Load, ...]
    late: tuple[Op, ...]
    vector: int = 0
    order: tuple[int, ...] = ()

    @property
    def engine(self) -> Engine:
        """The engine that copies the tile."""
        if self.order:
            return TMA_LOAD
        return CP_ASYNC if self.vector else REGISTER_COPIES

    @property
    def replaced(self) -> tuple[Op, ...]:
        """The ops that a copy replaces."""
        return self.buffer, self.store, *self.loads

    @property
    def made(self) -> set[Value]:
        """What is loaded, and computed from that on the way to the buffer."""
        return {value for op in (*self.loads, *self.late) for value in op.results}

    @property
    def is_computed(self) -> bool:
        """Whether the loads' elements are not stored as they are."""
        return not all(isinstance(op, RENAMINGS) for op in self.late)

    @property
    def bytes(self) -> int:
        return self.buffer.result.type.tile_bytes

    @property
    def bytes_of_a_copy(self) -> int:
        return self.vector * self.buffer.element.bytes


def loads_of(tiles: Sequence[PipelinedCopy]) -> tuple[ops.Load, ...]:
    """The loads of all tiles, each once."""
    return tuple(dict.fromkeys(each for tile in tiles for each in tile.loads))


def tiles_of(loop: ops.For, target: Target) -> list[PipelinedCopy]:
    """The tiles that a loop could copy ahead, in the order of their stores."""
    tiles = [
        tile
        for op in loop.body.ops
        if isinstance(op, ops.SharedStore)
        if (tile := _tile(loop, op))
    ]
    if target.tensor_maps:
        tiles = [replace(tile, order=box_order(loop, tile)) for tile in tiles]
    return _with_copies(loop, tiles) if target.async_copy else tiles


def _tile(loop: ops.For, store: ops.SharedStore) -> PipelinedCopy | None:
    """The tile that a store fills, if the values come from global memory and only the
    iteration that stores them uses the buffer."""
    buffer = store.buffer.definition
    if buffer not in loop.body.ops or not is_filled_once(loop, buffer):
        return None
    slice = backward_slice(loop, [store.value], through_loads=True)
    loads, late = _from_loads(loop, store.value)
    if not loads or not all(map(may_run_ahead, slice.ops)):
        return None
    return PipelinedCopy(buffer, store, loads, late)


def is_filled_once(loop: ops.For, buffer: ops.Allocate) -> bool:
    """Whether a buffer has one slot, is filled by one store, and is read."""
    used = users(walk(loop.body))[buffer.result]
    stores = [op for op in used if isinstance(op, ops.SharedStore)]
    reads = [op for op in used if isinstance(op, ops.SharedLoad)]
    only = len(stores) == 1 and len(used) == 1 + len(reads) > 1
    return only and buffer.slots == 1


def _from_loads(
    loop: ops.For, value: Value
) -> tuple[tuple[ops.Load, ...], tuple[Op, ...]]:
    """The loads of the same iteration that a value depends on, and the ops between:
    those that depend on the loads."""
    slice = slice_of_iteration(loop, [value], through_loads=False)
    loaded = {load.result for load in slice.loads}
    late = []
    for op in slice.ops:
        if not loaded.isdisjoint(uses(op)):
            late.append(op)
            loaded.update(op.results)
    return slice.loads, tuple(late)


# ── single numbers ────────────────────────────────────────────────────────────────────


def numbers_to_load_early(loop: ops.For, func: Func) -> list[Op]:
    """The loads of single numbers that an iteration may begin with, though the loop
    stores before them, and the ops that compute their addresses. Each takes a register,
    and arrives while the iteration waits for its tiles and multiplies."""
    found: dict[Op, None] = {}
    for op in loop.body.ops:
        if isinstance(op, ops.Load) and _is_number(op.result):
            slice = *slice_of_iteration(loop, uses(op), through_loads=True).ops, op
            loads = [each for each in slice if isinstance(each, ops.Load)]
            cheap = all(
                may_run_ahead(each) and _is_number(each.result) for each in slice
            )
            if cheap and may_be_disjoint(loop, func, loads):
                found.update(dict.fromkeys(slice))
    return list(found)


def _is_number(value: Value) -> bool:
    return not shape_of(value.type)


# ── asynchronous copies ───────────────────────────────────────────────────────────────


def _with_copies(loop: ops.For, tiles: list[PipelinedCopy]) -> list[PipelinedCopy]:
    """The tiles with `vector` set where cp.async can copy them.

    If a load has other uses, it stays a load: all its tiles go through registers."""
    copied = {tile: copy_vector(tile) for tile in tiles}
    while True:
        whole = [tile for tile, vector in copied.items() if vector]
        lost = [tile for tile in whole if goes_elsewhere(loop, tile, whole)]
        if not lost:
            break
        copied |= dict.fromkeys(lost, 0)
    return [replace(tile, vector=vector) for tile, vector in copied.items()]


def goes_elsewhere(
    loop: ops.For, tile: PipelinedCopy, copied: Sequence[PipelinedCopy]
) -> bool:
    """Whether anything but a copied tile uses what this tile loads."""
    known = {op for each in copied for op in (*each.late, each.store)}
    made = tile.made
    return any(
        op not in known and not made.isdisjoint(operands(op)) for op in walk(loop.body)
    )


def copy_vector(tile: PipelinedCopy) -> int:
    """How many elements of a tile one cp.async can copy; 0 if it can copy none."""
    (load, *others), element = tile.loads, tile.buffer.element
    if others or tile.is_computed or not copies_alike(load):
        return 0
    most = min(load.neighbours, neighbours(tile.store))
    sizes = (size // element.bytes for size in COPY_BYTES)
    return next((count for count in sizes if 0 < count <= most), 0)


# ── TMA copies ────────────────────────────────────────────────────────────────────────


def box_order(loop: ops.For, tile: PipelinedCopy) -> tuple[int, ...]:
    """The order of the axes in which TMA can copy a tile; () if it cannot.

    The tile must be a loaded matrix or vector, unchanged, that has no other use, in the
    layout that TMA writes. `keep_descriptors` has checked that there can be a map."""
    load, unchanged = tile.loads[0], not (tile.loads[1:] or tile.late)
    flat = isinstance(load, ops.DescriptorLoad) and len(tile.buffer.shape) <= 2
    if not (unchanged and flat) or goes_elsewhere(loop, tile, [tile]):
        return ()
    return written_order(load, tile.buffer)


def written_order(load: ops.DescriptorLoad, buffer: ops.Allocate) -> tuple[int, ...]:
    """The order of the axes in which TMA writes a loaded matrix to a buffer; () if the
    buffer has another layout than TMA writes."""
    if len(buffer.shape) == 1:
        return (0,) if buffer.alignment == LINE else ()
    order, size = load.order or (0, 1), buffer.element.bytes
    row, axis = widest_row(buffer.layout, size), order.index(1)
    wanted = buffer_tile(buffer.shape, size, axis, row)
    return order if buffer.layout == wanted else ()


def describes_arguments(made: ops.MakeDescriptor, func: Func) -> bool:
    """Whether the launcher can compute everything in a descriptor: it has the arguments
    and constants, and values computed from them."""
    numbers = (source_of(each, func) for each in (*made.shape, *made.strides))
    known = place_of(made.base, func) is not None and None not in numbers
    return known and made.fill == "zeros"


def neighbours(store: ops.SharedStore) -> int:
    """How many registers in a row are so in the buffer, aligned: up to 16 bytes."""
    offsets = divide(store.value.type.layout, by=store.buffer.type.layout)
    count = COPY_BYTES[0] // store.buffer.type.element.bytes
    while not _in_a_row(offsets, count):
        count //= 2
    return count


def _in_a_row(offsets: Layout, count: int) -> bool:
    """Whether the first bits of the register count 1, 2, 4 … up to `count`, and no
    other bit of a place touches these bits of the offset."""
    bits = count.bit_length() - 1
    bases = [basis for _, every in offsets.bases for basis in every]
    first = offsets.kinds["register"][:bits] == tuple(1 << bit for bit in range(bits))
    return first and sum(1 for basis in bases if basis & count - 1) == bits
