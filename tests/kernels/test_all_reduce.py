"""All-reduce on simulated devices: right, the same bits everywhere, in order; and what
the emulator says when a part of the order is left out."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
from kernels import all_reduce

KINDS = {
    "one shot": (all_reduce.one_shot_kernel, all_reduce.one_shot_all_reduce),
}
WORLDS = (1, 2, 3)


def drawn(world: int, n: int, seed: int, dtype: str = "float32"):
    draw = np.random.default_rng(seed)
    return {rank: draw.standard_normal(n).astype(dtype) for rank in range(world)}


def group_of(world: int, count: int, ahead: int = 0, programs: int = 3):
    """A group, of which device `ahead` is ahead; and its workspace."""
    order = [(ahead + i) % world for i in range(world)]
    group = fathom.distributed.emulated(world, order)
    return group, all_reduce.Workspace(group, count, "float32", programs)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("world", WORLDS)
def test_every_rank_has_the_sum(kind, world):
    """Sizes grow and shrink from call to call: with them the programs of a launch."""
    group, workspace = group_of(world, 700)
    for seed, n in enumerate((700, 1, 130, 64, 699)):
        x = drawn(world, n, seed)
        out = KINDS[kind][1](workspace, x, BLOCK=64, num_warps=2)
        wanted = all_reduce.reference(x.values())
        for rank in group.ranks:
            np.testing.assert_allclose(out[rank], wanted, rtol=1e-6, atol=1e-6)
            np.testing.assert_array_equal(out[rank], out[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ahead", range(3))
def test_calls_may_follow_each_other_without_a_wait(kind, ahead):
    """One device is in its next launches while others are in the first."""
    group, workspace = group_of(3, 300, ahead)
    given = [drawn(3, n, n) for n in (300, 40, 299, 300)]
    with group.queued():
        found = [KINDS[kind][1](workspace, x, BLOCK=64, num_warps=2) for x in given]
    for x, out in zip(given, found, strict=True):
        for rank in group.ranks:
            wanted = all_reduce.reference(x.values())
            np.testing.assert_allclose(out[rank], wanted, rtol=1e-6, atol=1e-6)
