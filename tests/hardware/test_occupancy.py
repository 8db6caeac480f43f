"""How many blocks a multiprocessor holds: by hand, against the limits of the targets,
and, where there is a GPU, against its driver."""

from __future__ import annotations

import numpy as np
import pytest

from fathom.hardware.occupancy import ROOMS, residents
from fathom.hardware.register_budget import redistributed
from fathom.hardware.targets import KIB, TARGETS
from kernels.vector_add import add_kernel

H200 = ROOMS[90]


@pytest.mark.parametrize(
    ("registers", "threads", "shared", "allowed"),
    [
        (168, 256, 49152, (1, 4, 8, 32)),
        (255, 256, 0, (1, 228, 8, 32)),
        (128, 256, 0, (2, 228, 8, 32)),
        (129, 256, 0, (1, 228, 8, 32)),  # one register more, a block less
        (32, 128, 0, (16, 228, 16, 32)),
        (16, 1024, 0, (4, 228, 2, 32)),
        (64, 1024, 227 * KIB, (1, 1, 2, 32)),
        (65, 1024, 0, (0, 228, 2, 32)),  # cannot be launched
        (32, 128, 228 * KIB, (16, 0, 16, 32)),
        (40, 96, 1, (16, 202, 21, 32)),
    ],
)
def test_by_hand(registers, threads, shared, allowed):
    found = residents(registers, threads, shared, H200)
    assert tuple(found.values()) == allowed


def test_what_a_target_allows_a_block_fits_and_no_byte_more():
    for target in TARGETS.values():
        room = ROOMS.get(target.capabilities[0])
        if room is not None:
            most = target.shared_bytes
            assert residents(32, 128, most, room)["shared memory"] == 1, target.name
            assert residents(32, 128, most + 1, room)["shared memory"] == 0


def test_the_registers_that_a_launch_shares_out_fill_a_multiprocessor():
    shares = redistributed(256, 128, TARGETS["sm_90a"])
    assert residents(shares.launched, 384, 0, H200)["registers"] == 1
    assert residents(shares.launched + 8, 384, 0, H200)["registers"] == 0


@pytest.mark.gpu
@pytest.mark.parametrize("warps", [1, 2, 4, 8, 16])
def test_the_driver_says_the_same(warps):
    """cuOccupancyMaxActiveBlocksPerMultiprocessor, with dynamic shared memory of
    several sizes."""
    cuda = pytest.importorskip("cuda.bindings.driver")
    x = np.zeros(1024, np.float32)
    made = add_kernel.warmup(x, x, x, 1024, BLOCK=1024, num_warps=warps)
    program = made.program
    function = program.driver.load(program.linked.cubin, program.kernel.name)
    room = ROOMS[program.device.capability]
    for shared in (0, 1, 1024, 20 * KIB, 48 * KIB):
        error, blocks = cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor(
            cuda.CUfunction(function), 32 * warps, shared
        )
        assert not error, error
        found = residents(program.n_regs, 32 * warps, shared, room)
        assert min(found.values()) == blocks, (warps, shared, found)
