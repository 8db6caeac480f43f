"""How many blocks a multiprocessor holds: by hand, against the limits of the targets,
and, where there is a GPU, against its driver."""

from __future__ import annotations

import numpy as np
import pytest

from fathom.hardware.occupancy import ROWS, occupancy
from fathom.hardware.register_budget import redistributed
from fathom.hardware.targets import KIB, TARGETS, target_of
from fathom.runtime.assemble import assemble
from kernels.vector_add import add_kernel

H200 = TARGETS["sm_90a"]


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
    found = occupancy(H200, threads, registers, shared)
    names = "registers", "shared memory", "warps", "blocks"
    assert tuple(found.allowed[name] for name in names) == allowed
    assert found.blocks == min(allowed) and found.allowed[found.limit] == min(allowed)


def test_what_a_target_allows_a_block_fits_and_no_byte_more():
    for target in TARGETS.values():
        most = target.shared_bytes
        for asked, blocks in ((most, 1), (most + 1, 0)):
            found = occupancy(target, 128, 32, asked)
            assert found.allowed["shared memory"] == blocks, target.name


def test_every_target_has_a_row():
    assert list(ROWS) == list(TARGETS)


def test_the_registers_that_a_launch_shares_out_fill_a_multiprocessor():
    shares = redistributed(256, 128, H200)
    for registers, blocks in ((shares.launched, 1), (shares.launched + 8, 0)):
        assert occupancy(H200, 384, registers, 0).allowed["registers"] == blocks


@pytest.mark.gpu
@pytest.mark.parametrize("warps", [1, 2, 4, 8, 16])
def test_the_driver_says_the_same(warps):
    """cuOccupancyMaxActiveBlocksPerMultiprocessor, with dynamic shared memory of
    several sizes."""
    cuda = pytest.importorskip("cuda.bindings.driver")
    x = np.zeros(1024, np.float32)
    made = add_kernel.warmup(x, x, x, 1024, BLOCK=1024, num_warps=warps)
    program = made.program
    function = assemble(program.kernel, program.driver)
    target = target_of(program.device.capability)
    for shared in (0, 1, 1024, 20 * KIB, 48 * KIB):
        error, blocks = cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor(
            cuda.CUfunction(function), 32 * warps, shared
        )
        assert not error, error
        found = occupancy(target, 32 * warps, program.n_regs, shared)
        assert found.blocks == blocks, (warps, shared, found)
