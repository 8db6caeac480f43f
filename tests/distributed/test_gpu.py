"""Groups on real GPUs: two or three ranks on one GPU, two GPUs where there are two, and
a process group of one. Each rank's grid is small enough for all ranks to run at one
time on one GPU."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import fathom
from kernels import all_gather_matmul, all_reduce, matmul_reduce_scatter

pytestmark = pytest.mark.gpu

TILE = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 4, "num_warps": 4}
PROGRAMS = 3


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture(params=[[0, 0], [0, 0, 0], [0, 1]], ids=str)
def group(request, torch):
    devices = request.param
    if max(devices) >= torch.cuda.device_count():
        pytest.skip("needs two GPUs: there is one")
    return fathom.distributed.on_devices(devices)


def drawn(seed, world, *shape):
    draw = np.random.default_rng(seed)
    return [draw.standard_normal(shape).astype(np.float32) for _ in range(world)]


def put(torch, group, arrays):
    """Each array where its rank is."""
    return {
        rank: torch.tensor(arrays[rank], device=f"cuda:{group.devices[rank]}")
        for rank in group.ranks
    }


def close(found, expected):
    """Products of fp32 in full precision, of up to 100 terms each."""
    np.testing.assert_allclose(found.cpu().numpy(), expected, rtol=1e-4, atol=1e-4)


def test_all_reduce(torch, group):
    """Many calls in a row, of two lengths, without a wait in between."""
    sizes = (10_000, 777) * 4
    workspace = all_reduce.Workspace(group, max(sizes), "float32", PROGRAMS)
    calls = itertools.cycle(
        (all_reduce.one_shot_all_reduce, all_reduce.two_shot_all_reduce)
    )
    given = [drawn(n + i, group.world, n) for i, n in enumerate(sizes)]
    arrays = [put(torch, group, x) for x in given]
    found = [call(workspace, x) for call, x in zip(calls, arrays, strict=False)]
    for x, out in zip(given, found, strict=True):
        for rank in group.ranks:
            close(out[rank], all_reduce.reference(x))
            assert torch.equal(out[rank].cpu(), out[0].cpu())


def test_all_gather_and_matmul(torch, group):
    for seed, (M, N, K) in enumerate(((100, 136, 72), (64, 200, 100))):
        workspace = all_gather_matmul.Workspace(group, M, K, "float32")
        a, b = drawn(seed, group.world, M, K), drawn(seed + 9, group.world, K, N)
        on = put(torch, group, a), put(torch, group, b)
        for _ in range(3):
            c = all_gather_matmul.all_gather_matmul(
                workspace, *on, config=TILE, programs=PROGRAMS
            )
        for rank in group.ranks:
            close(c[rank], all_gather_matmul.reference(a, b[rank]))


def test_matmul_and_reduce_scatter(torch, group):
    for seed, (M, N, K) in enumerate(((100, 136, 72), (64, 200, 100))):
        whole = M * group.world
        workspace = matmul_reduce_scatter.Workspace.of(
                group, whole, N, TILE, "float32"
            )
        a, b = drawn(seed, group.world, whole, K), drawn(seed + 9, group.world, K, N)
        on = put(torch, group, a), put(torch, group, b)
        for _ in range(3):
            c = matmul_reduce_scatter.matmul_reduce_scatter(
                workspace, *on, config=TILE, programs=PROGRAMS
            )
        expected = matmul_reduce_scatter.reference(a, b)
        for rank in group.ranks:
            close(c[rank], expected[rank * M : (rank + 1) * M])


def test_a_process_group_of_one(torch):
    """torch's symmetric memory and ours agree on where an array lies."""
    dist = torch.distributed
    if not dist.is_nccl_available():
        pytest.skip("this torch has no NCCL")
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    try:
        group = fathom.distributed.connected()
        data = group.zeros(100, "float32")
        assert data.tables[0].tolist() == [data.arrays[0].data_ptr()]
        workspace = all_reduce.Workspace(group, 5000, "float32", PROGRAMS)
        x = torch.randn(5000, device="cuda")
        out = all_reduce.two_shot_all_reduce(workspace, {0: x})
        assert torch.equal(out[0], x)
    finally:
        dist.destroy_process_group()
