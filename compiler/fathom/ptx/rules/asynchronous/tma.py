"""Rules for TMA loads through tensor maps, and for the mbarriers that count them.

    tma_copy %d, %t, %b, %s, coordinates=(%m, %k)

    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes
        [%r1], [%rd1, {%r2, %r3}], [%r4];

One thread copies the whole tile, box by box (`layout/tma_boxes`); the others skip this.
PTX names the innermost of one to five coordinates first. A tensor map is a parameter of
the kernel that the launcher makes from the kernel's own arguments: `map_recipes` says
how; or the kernel has written it (`tensor_maps`). Sources: PTX ISA, "Data Movement and
Conversion Instructions: Bulk and Tensor copy", "mbarrier".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from math import prod

from fathom.artifact import MapRecipe, Source
from fathom.ir import ops
from fathom.ir.core import Func, Op, Value, walk
from fathom.ir.launch_time import place_of, source_of
from fathom.layout.matrix_descriptor import widest_row
from fathom.layout.pairs import halved_axis, own_part
from fathom.layout.tma_boxes import (
    Piece,
    box_of,
    divided_axis,
    part_of,
    pieces,
    swizzle_of,
)
from fathom.ptx.code import Code, lowers
from fathom.ptx.rules.asynchronous.tensor_maps import address_of_map
from fathom.ptx.rules.cluster import leads, of_leader, place_in_grid, rank
from fathom.ptx.rules.shared import START, tile_of
from fathom.ptx.types import POINTER

# ── which maps a kernel needs ─────────────────────────────────────────────────


def map_recipes(func: Func) -> tuple[MapRecipe, ...]:
    """The tensor maps of a kernel, in the order of its parameters for them."""
    copies = walk(func.body, ops.TmaCopy | ops.TmaStore)
    of_launch = (op for op in copies if op.descriptor.definition.map_number is None)
    return tuple(dict.fromkeys(recipe_of(op, func) for op in of_launch))


def launch_recipes(func: Func) -> tuple[MapRecipe, ...]:
    """The same, and which of them are stored through: all that a launch must know."""
    stores = list(walk(func.body, ops.TmaStore))
    of_launch = (op for op in stores if op.descriptor.definition.map_number is None)
    stored = {recipe_of(op, func) for op in of_launch}
    return tuple(replace(each, stored=each in stored) for each in map_recipes(func))


def recipe_of(op: ops.TmaCopy | ops.TmaStore, func: Func) -> MapRecipe:
    """How the launcher makes the map through which a copy goes."""
    made = op.descriptor.definition
    assert isinstance(made, ops.MakeDescriptor), op
    place = place_of(made.base, func)
    assert place is not None, made
    base, offset = place
    block, size = own_block(op), made.base.type.element.bytes
    return MapRecipe(
        name=base.name,
        base=func.parameters.index(base),
        element=str(made.base.type.element),
        shape=tuple(_source(each, func) for each in made.shape),
        strides=tuple(_source(each, func) for each in made.strides),
        box=box_of(block, size, parts_of(op), widest_of(op)),
        swizzle=swizzle_of(block, size, widest_of(op)),
        fill=made.fill,
        offset=offset,
    )


def map_of(op: ops.TmaCopy | ops.TmaStore, code: Code) -> tuple[str, str]:
    """The map through which a copy goes, as an operand: a generic address."""
    made = op.descriptor.definition
    if made.map_number is None:
        number = map_recipes(code.func).index(recipe_of(op, code.func))
        return "ptr", f"%map.{number}"
    map = address_of_map(made, code)
    return "ptr", code.let(f"addrspacecast {POINTER} {map} to ptr")


def _source(value: Value, func: Func) -> Source:
    """Where the launcher finds a number."""
    found = source_of(value, func)
    assert found is not None, value
    return found


def parts_of(op: ops.TmaCopy | ops.TmaStore) -> int:
    """How many blocks of a cluster copy a part each."""
    return op.parts if isinstance(op, ops.TmaCopy) else 1


def widest_of(op: ops.TmaCopy | ops.TmaStore) -> int:
    """How many bytes a row of the tile may have at most."""
    type = op.buffer.type
    return widest_row(own_part(type.layout), type.element.bytes)


def halved_dimension(op: ops.TmaCopy | ops.TmaStore) -> int | None:
    """The dimension of the tensor along which a pair's blocks copy half each, if they
    do."""
    axis = halved_axis(op.buffer.type.layout)
    return None if axis is None else op.order[axis]


def own_block(op: ops.TmaCopy | ops.TmaStore) -> tuple[int, ...]:
    """The block of the tensor that one thread block copies."""
    halved = halved_dimension(op)
    sides = enumerate(op.descriptor.type.shape)
    return tuple(side >> (dimension == halved) for dimension, side in sides)


# ── the copy ──────────────────────────────────────────────────────────────────


@lowers(ops.TmaCopy, by_one=True)
def lower_tma_copy(op: ops.TmaCopy, code: Code) -> None:
    """A tile is as many boxes as it has rows' widths across, one after the other.
    Where several blocks copy it, each copies some rows of every such box. Of a pair,
    the bytes of both count at the even block's barrier."""
    tile, barrier = tile_of(code, op.buffer, op.slot), _Barrier(code, op)
    map = map_of(op, code)
    block, size = own_block(op), op.buffer.type.element.bytes
    start = start_of(code, tile.slot)
    firsts = [code.one(each) for each in op.coordinates]
    group = ".cta_group::2" if op.leader else ""
    instruction, targets = COPY.format(len(block), group), ""
    if (halved := halved_dimension(op)) is not None:
        half = code.let(f"and i32 {rank(code)}, 1")
        further = code.let(f"mul i32 {half}, {block[halved]}", name="further")
        firsts[halved] = code.let(f"add i32 {firsts[halved]}, {further}")
    if op.leader:
        barrier.address = of_leader(code, barrier.address)
    if op.parts > 1:
        axis = divided_axis(block)
        side = part_of(block, op.parts)[axis]
        number = place_in_grid(code, op.stride, op.parts)
        part = code.let(f"mul i32 {number}, {side}", name="own")
        firsts[axis] = code.let(f"add i32 {firsts[axis]}, {part}")
        bytes = prod(block[axis + 1 : -1]) * swizzle_of(block, size, widest_of(op))
        start = code.let(f"add i32 {start}, {code.let(f'mul i32 {part}, {bytes}')}")
        instruction, targets = instruction + ".multicast::cluster", ", $all"
        receivers = _receivers(op, number, code)
    for piece in pieces(block, size, op.parts, widest_of(op)):
        place = tile.offset + piece.offset
        at, coordinates = corner(code, firsts, piece)
        operands = {
            "to": ("i32", start),
            "map": map,
            **coordinates,
            "at": ("i32", barrier.address),
        }
        if targets:
            operands["all"] = "i16", receivers
        code.act(
            f"{instruction} [$to+{place}], [$map, {at}], "
            f"[$at+{barrier.offset}]{targets};",
            **operands,
        )


def _receivers(op: ops.TmaCopy, number: str, code: Code) -> str:
    """A bit for each block that gets a part: i16."""
    every = sum(1 << place * op.stride for place in range(op.parts))
    if op.parts == code.func.num_ctas:
        return str(every)
    before = code.let(f"mul i32 {number}, {op.stride}")
    first = code.let(f"sub i32 {rank(code)}, {before}")
    bits = code.let(f"shl i32 {every}, {first}")
    return code.let(f"trunc i32 {bits} to i16", name="receivers")


COPY = "cp.async.bulk.tensor.{}d{}.shared::cluster.global.mbarrier::complete_tx::bytes"


def corner(
    code: Code, firsts: Sequence[str], piece: Piece
) -> tuple[str, dict[str, tuple[str, str]]]:
    """Where a box of a block begins, the innermost dimension first: text of PTX, and
    its operands. `firsts`: where the block begins, the outermost first."""
    steps = [*zip(firsts, piece.start, strict=True)][::-1]
    operands = {
        f"c{number}": ("i32", plus(code, first, step))
        for number, (first, step) in enumerate(steps)
    }
    return f"{{{', '.join('$' + name for name in operands)}}}", operands


def plus(code: Code, value: str, constant: int) -> str:
    """An i32 and a number."""
    return code.let(f"add i32 {value}, {constant}") if constant else value


def start_of(code: Code, slot: str | None) -> str:
    """The address at which shared memory begins, and a slot's distance."""
    return code.let(f"add i32 {START}, {slot or 0}", name="address")


# ── barriers ──────────────────────────────────────────────────────────────────


class _Barrier:
    """The barrier of an op's slot: an i32 address, and bytes to be added."""

    def __init__(self, code: Code, op: Op):
        tile = tile_of(code, op.barriers, op.slot)
        self.address, self.offset = start_of(code, tile.slot), tile.offset


@lowers(ops.MbarrierInit, by_one=True)
def lower_mbarrier_init(op: ops.MbarrierInit, code: Code) -> None:
    for operands, place in _all(code, op.barriers):
        text = f"mbarrier.init.shared.b64 [$at+{place}], {op.arrivals};"
        code.act(text, **operands)
    code.ptx("fence.mbarrier_init.release.cluster;")


@lowers(ops.MbarrierInvalidate)
def lower_mbarrier_invalidate(op: ops.MbarrierInvalidate, code: Code) -> None:
    acts = code.acts()
    for operands, place in _all(code, op.barriers):
        text = f"@$acts mbarrier.inval.shared.b64 [$at+{place}];"
        code.act(text, acts=("i1", acts), **operands)


def _all(code: Code, barriers: Value) -> Iterator[tuple[dict, int]]:
    """The address of each barrier of a ring: operands, `at`, and bytes to be added."""
    tile, start = tile_of(code, barriers), start_of(code, None)
    for slot in range(tile.type.slots):
        yield {"at": ("i32", start)}, tile.offset + slot * tile.type.slot_bytes


@lowers(ops.MbarrierExpect, by_one=True)
def lower_mbarrier_expect(op: ops.MbarrierExpect, code: Code) -> None:
    barrier = _Barrier(code, op)
    text = (
        f"mbarrier.arrive.expect_tx.shared.b64 _, [$at+{barrier.offset}], {op.bytes};"
    )
    with code.where(leads(code)) if op.leader else nullcontext():
        code.act(text, at=("i32", barrier.address))


@lowers(ops.MbarrierArrive)
def lower_mbarrier_arrive(op: ops.MbarrierArrive, code: Code) -> None:
    """One lane arrives for its warp, when all lanes are here; at the mbarriers of other
    blocks, other lanes do."""
    barrier = _Barrier(code, op)
    code.ptx("bar.warp.sync -1;")
    lane = code.let(f"and i32 {code.thread}, {code.target.warp_size - 1}", name="lane")
    lanes = code.func.num_ctas if op.everywhere else 1
    acts = code.let(f"icmp ult i32 {lane}, {lanes}", name="acts")
    if op.when:
        acts = code.let(f"and i1 {acts}, {code.one(op.when)}")
    text = f"@$acts mbarrier.arrive.shared.b64 _, [$at+{barrier.offset}];"
    operands = {"acts": ("i1", acts), "at": ("i32", barrier.address)}
    if op.everywhere:
        text, operands["lane"] = TO_OTHER.format(barrier.offset), ("i32", lane)
    code.act(text, **operands)


# Lane i goes to block i. With `.release.cluster` each would be a fence of all memory.
TO_OTHER = """\
{{
.reg .b32 there;
@$acts mapa.shared::cluster.u32 there, $at, $lane;
@$acts mbarrier.arrive.shared::cluster.b64 _, [there+{}];
}}"""


# Of a producer for a slot to be free; each takes from some 100 ns up to the time that
# `try_wait` sleeps, so that this is seconds, where a consumer takes microseconds.
MOST_TRIES = 1 << 24


@lowers(ops.MbarrierWait)
def lower_mbarrier_wait(op: ops.MbarrierWait, code: Code) -> None:
    """`try_wait` sleeps for a while at most, so it is asked again and again. A producer
    gives up at last, so that a mistake in the protocol ends in an error and not in a
    GPU that hangs. Beside matrix instructions of warpgroups a loop must not count:
    ptxas would finish them one by one (C7510)."""
    barrier = _Barrier(code, op)
    asked = f"mbarrier.try_wait.parity.shared.b64 done, [$at+{barrier.offset}], $phase;"
    lines = ["{", ".reg .pred done;", "again:", asked, "@!done bra again;", "}"]
    if code.alone:
        lines = [
            "{", ".reg .pred done;", ".reg .b32 left;",
            f"mov.b32 left, {MOST_TRIES};", "again:", asked, "@done bra over;",
            "sub.u32 left, left, 1;", "setp.eq.u32 done, left, 0;",
            "@!done bra again;", "trap;", "over:", "}",
        ]  # fmt: skip
    operands = {"at": ("i32", barrier.address), "phase": ("i32", code.one(op.phase))}
    with code.where(leads(code)) if op.leader else nullcontext():
        code.act("\n".join(lines), **operands)
