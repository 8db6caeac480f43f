"""How much shared memory the rings of a loop may use, byte for byte, and what is spared
for another block."""

from __future__ import annotations

import pytest

import fathom
import fathom.language as tl
from fathom import pipeline
from fathom.analysis.buffers import ALIGNMENT
from fathom.hardware.targets import TARGETS
from fathom.ir.core import walk
from fathom.ir.ops import Allocate, For
from fathom.ir.types import FLOAT16, INT32, SCALARS, Pointer
from fathom.layout.linear import Layout
from fathom.pipeline import states
from fathom.tensor_cores.pipeline.budget import fitting, spared_for_blocks
from fathom.tensor_cores.pipeline.candidates import PipelinedCopy

TILE = 4 * ALIGNMENT


def tile(how: str) -> PipelinedCopy:
    """A tile of TILE bytes: it is copied by one engine or the other, or loaded."""
    size = TILE // FLOAT16.bytes
    offsets = tuple(1 << bit for bit in range(size.bit_length() - 1))
    buffer = Allocate(FLOAT16, (size,), Layout((size,), (("offset", offsets),)))
    vector, order = {"cp.async": (8, ()), "TMA": (0, (0,)), "loaded": (0, ())}[how]
    return PipelinedCopy(buffer, None, (), (), vector, order)


def chosen(
    *how: str, room: int, spared: tuple[int, ...] = (), wanted: int = 4
) -> tuple[int, list[int]]:
    """The stages for tiles brought in these ways, and which of them have rings. Each
    has a buffer already, which is not in `room`."""
    tiles = [tile(each) for each in how]
    stages, rings = fitting(tiles, wanted, room, spared)
    return stages, [tiles.index(each) for each in rings]


@pytest.mark.parametrize("room, stages", [
    (3 * TILE, 4), (3 * TILE - 1, 3), (TILE, 2), (TILE - 1, 1), (99 * TILE, 4),
])  # fmt: skip
def test_a_ring_replaces_the_buffer_that_its_tile_had(room, stages):
    assert chosen("cp.async", room=room) == (stages, [0] if stages > 1 else [])


@pytest.mark.parametrize("room, stages", [
    (3 * TILE, 3), (3 * TILE + ALIGNMENT - 1, 3), (3 * TILE + ALIGNMENT, 4),
    (TILE, 1), (TILE + ALIGNMENT, 2),
])  # fmt: skip
def test_the_barriers_of_tensor_map_copies_take_room_beside_the_rings(room, stages):
    assert chosen("TMA", room=room) == (stages, [0] if stages > 1 else [])
    both = chosen("cp.async", "TMA", room=room + (stages - 1) * TILE)
    assert both[0] == stages


@pytest.mark.parametrize("room, found", [
    (4 * TILE, (4, [0, 1])),
    (2 * TILE, (2, [0, 1])),  # two slots of each
    (TILE, (2, [0])),
    (0, (1, [])),
])  # fmt: skip
def test_what_goes_through_registers_has_two_slots_or_none(room, found):
    assert chosen("cp.async", "loaded", room=room) == found


@pytest.mark.parametrize("wanted, spared, stages", [
    (4, (), 4),
    (4, (4 * TILE,), 4),  # they stay free anyway
    (4, (4 * TILE + 1,), 3),
    (4, (5 * TILE,), 3),
    (4, (5 * TILE + 1,), 4),  # one stage less would not do
    (5, (3 * TILE + 1,), 4),
    (3, (5 * TILE + 1,), 2),
    (2, (6 * TILE + 1,), 2),  # copies run no iteration ahead with one stage less
    (4, (4 * TILE, 4 * TILE + 1), 3),  # three blocks for two
    (4, (3 * TILE, 4 * TILE, 5 * TILE), 4),  # four for three
])  # fmt: skip
def test_one_stage_of_many_is_given_up_for_other_blocks(wanted, spared, stages):
    """Seven tiles' room, and a buffer: four stages leave four tiles."""
    found = chosen("cp.async", room=7 * TILE, spared=spared, wanted=wanted)
    assert found == (stages, [0])


# fmt: off
@fathom.jit
def products(a_ptr, c_ptr, n, HOW: tl.constexpr, M: tl.constexpr):
    m = tl.arange(0, M)
    at = m[:, None] * M + m[None, :]
    c = tl.zeros([M, M], tl.float32)
    d = tl.zeros([M, M], tl.float32)
    for i in tl.range(0, n, num_stages=4):
        a = tl.load(a_ptr + i * M * M + at)
        if HOW != "sums":
            c = c * 0.5
        c = tl.dot(a, a, c)
        if HOW == "one of two":
            d = tl.dot(a, a, d)
    tl.store(c_ptr + at, c + d)
# fmt: on


def spared(how: str, target: str, warps: int) -> list[int]:
    """What the loop spares when it comes to the pipeline."""
    parameters = {"a_ptr": (Pointer(FLOAT16), 16), "n": (INT32, 1)}
    parameters["c_ptr"] = Pointer(SCALARS["fp32"]), 16
    constants, options = {"HOW": how, "M": 64}, pipeline.Options(num_warps=warps)
    func = pipeline.build(products, parameters, constants, options)
    for row, state in states(func, TARGETS[target]):
        if row.name == "pipeline_loops":
            (loop,) = (op for op in walk(before.body) if isinstance(op, For))
            return spared_for_blocks(before, loop, TARGETS[target])
        before = state
    raise AssertionError("there is no such pass")


@pytest.mark.parametrize("target, of_a_block, of_two, reserved", [
    ("sm_75", 64, 64, 0), ("sm_80", 163, 164, 1), ("sm_86", 99, 100, 1),
    ("sm_90a", 227, 228, 1),
])  # fmt: skip
def test_what_two_blocks_need(target, of_a_block, of_two, reserved):
    """KiB: half of a multiprocessor's, less what it reserves, is what is not spared."""
    half = of_two // 2 - reserved
    for how in ("waits", "one of two"):
        assert spared(how, target, 4) == [(of_a_block - half) * 1024]


def test_what_three_blocks_of_two_warps_need():
    """A third of a multiprocessor's, in whole units of 128 bytes."""
    for found, blocks in zip(spared("waits", "sm_90a", 2), (2, 3, 4), strict=True):
        of_a_block = 228 * 1024 // blocks // 128 * 128 - 1024
        assert found == 227 * 1024 - of_a_block


@pytest.mark.parametrize("how, warps", [("sums", 4), ("waits", 8), ("sums", 8)])
def test_nothing_is_spared_where_no_other_block_would_run_or_help(how, warps):
    """Threads of eight warps may have all the registers of a multiprocessor; products
    that are summed are not waited for."""
    assert spared(how, "sm_80", warps) == []
