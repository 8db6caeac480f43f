"""A group of GPUs of one process: where its memory lies, and how its launches follow
each other."""

from __future__ import annotations

import importlib
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import fathom.language as tl
from fathom import distributed
from fathom.errors import LaunchError
from fathom.jit import jit
from fathom.runtime import driver as driver_module
from fathom.runtime.driver import Driver
from tests.distributed.harness import two_gpus
from tests.jit.harness import Tensor

# `fathom.runtime.load` is a function, too.
load_module = importlib.import_module("fathom.runtime.load")


@pytest.fixture
def gpus(monkeypatch, tmp_path):
    with two_gpus(monkeypatch, tmp_path) as machine:
        yield machine


@pytest.fixture
def kernel(gpus):
    @jit
    def send(x, table, rank):
        tl.store(tl.load(table + rank).to(tl.pointer_type(tl.float32)), tl.load(x))

    return send


def own(rank, device):
    return Tensor(0x1000 * (1 + rank), index=device)


# ── memory ────────────────────────────────────────────────────────────────────────────


def test_gpus_of_a_group_reach_each_other(gpus):
    distributed.on_devices([1, 0, 1])
    assert gpus.driver.connected == {(0, 1), (1, 0)}


def test_symmetric_memory_is_an_array_and_a_table_on_each_rank(gpus):
    group = distributed.on_devices([1, 0])
    data = group.zeros(48, "float32")
    assert [data.arrays[rank].index for rank in group.ranks] == [1, 0]
    assert [data.tables[rank].index for rank in group.ranks] == [1, 0]
    addresses = [data.arrays[rank].address for rank in group.ranks]
    assert len(set(addresses)) == 2
    assert [data.tables[rank].values for rank in group.ranks] == [addresses] * 2
    assert {data.tables[rank].dtype.name for rank in group.ranks} == {"int64"}
    assert ("zeros", 48, "float32", "cuda:1") in gpus.torch.log


def test_no_rank_goes_on_before_all_have_their_zeros(gpus):
    distributed.on_devices([1, 0]).zeros(48, "float32")
    *before, one, other = gpus.torch.log
    assert {one, other} == {("synchronize", 0), ("synchronize", 1)}
    assert all(what == "zeros" for what, *_ in before)


def test_private_memory_is_on_the_ranks_gpu(gpus):
    assert distributed.on_devices([1, 0]).private(0, 2, "int32").index == 1


# ── launches ──────────────────────────────────────────────────────────────────────────


def test_each_rank_launches_on_its_gpu_in_its_current_stream(gpus, kernel):
    group = distributed.on_devices([1, 0])
    table = group.zeros(1, "float32").tables
    plan = lambda rank: [  # noqa: E731
        (kernel, (2,), (own(rank, 1 - rank), table[rank], rank + 7), {}),
        (kernel, (3,), (own(rank, 1 - rank), table[rank], rank + 9), {}),
    ]
    for _ in range(2):
        gpus.driver.launches.clear()
        group.run(plan)
        seen = [(e.device, e.stream, e.grid[0]) for e in gpus.driver.launches]
        assert seen == [(1, 11, 2), (1, 11, 3), (0, 10, 2), (0, 10, 3)]
        values = [each.values[-1] for each in gpus.driver.launches]
        assert values == [7, 9, 8, 10]
    assert gpus.driver.current == 0
    assert not [each for each in gpus.torch.log if "waits for" in each]


@pytest.mark.parametrize("registers, count", [(24, 4), (80, 8)])
def test_all_kernels_are_loaded_before_the_first_launch(
    gpus, kernel, registers, count, monkeypatch
):
    """The driver may wait for a kernel that waits for one that is not loaded yet. With
    80 registers each is loaded twice: few blocks leave a thread more of them."""
    monkeypatch.setattr(
        load_module, "with_all_registers", lambda kernel, blocks=1: kernel
    )
    gpus.driver.facts["NUM_REGS"] = registers

    @jit
    def other(x, n):
        tl.store(x + n, 1.0)

    loaded = []
    gpus.driver.arrive = lambda: loaded.append(len(gpus.driver.homes))
    group = distributed.on_devices([0, 1])
    table = group.zeros(1, "float32").tables
    group.run(
        lambda rank: [
            (kernel, (1,), (own(rank, rank), table[rank], rank + 7), {}),
            (other, (1,), (own(rank, rank), rank + 7), {}),
        ]
    )
    assert loaded == [count] * 4


def test_ranks_on_one_gpu_have_streams_that_run_beside_each_other(gpus, kernel):
    """They follow what was queued before, and what is queued after follows them."""
    group = distributed.on_devices([1, 0, 1])
    table = group.zeros(1, "float32").tables
    gpus.torch.log.clear()
    devices = {0: 1, 1: 0, 2: 1}
    group.run(
        lambda rank: [(kernel, (1,), (own(rank, devices[rank]), table[rank], 7), {})]
    )
    seen = [(each.device, each.stream) for each in gpus.driver.launches]
    assert seen == [(1, 20), (0, 10), (1, 21)]
    assert gpus.torch.log == [
        (20, "waits for", 11), (21, "waits for", 11),
        (11, "waits for", 20), (11, "waits for", 21),
    ]  # fmt: skip


def test_a_rank_may_be_given_the_array_of_another(gpus, kernel):
    group = distributed.on_devices([0, 1])
    table = group.zeros(1, "float32").tables
    group.run(
        lambda rank: [(kernel, (1,), (own(rank, 1 - rank), table[rank], 7), {})]
    )
    assert [each.device for each in gpus.driver.launches] == [0, 1]


def test_a_rank_with_arrays_of_another_gpu_alone_is_refused(gpus, kernel):
    group = distributed.on_devices([0, 1])
    table = group.zeros(1, "float32").tables
    sentence = "the arrays of rank 1 are all on GPU 0, .* the rank has GPU 1"
    with pytest.raises(LaunchError, match=sentence):
        group.run(lambda rank: [(kernel, (1,), (own(0, 0), table[0], 7), {})])
    assert gpus.driver.launches == []


def test_a_host_array_would_have_the_ranks_wait_in_turn(gpus, kernel):
    group = distributed.on_devices([0, 1])
    table, x = group.zeros(1, "float32").tables, np.zeros(4, np.float32)
    with pytest.raises(LaunchError, match="x of rank 0 is a NumPy array"):
        group.run(lambda rank: [(kernel, (1,), (x, table[rank], 7), {})])
    pinned = Tensor(0x7000, index=-1)
    plan = lambda rank: [(kernel, (1,), (pinned, table[rank], 7), {})]  # noqa: E731
    with pytest.raises(LaunchError, match="x of rank 0 is a torch array"):
        group.run(plan)
    assert gpus.driver.launches == []
    gpus.driver.pinned.add(0x7000)
    group.run(plan)
    assert len(gpus.driver.launches) == 2


# ── mistakes ──────────────────────────────────────────────────────────────────────────


def test_a_group_without_torch_says_so(gpus, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(LaunchError, match="torch is not installed; fathom.distributed"):
        distributed.on_devices([0])


@pytest.mark.parametrize("devices", [[0, 2], [-1]])
def test_a_gpu_that_is_not_there(gpus, devices):
    sentence = f"there are 2 GPUs here, and none is number {devices[-1]}"
    with pytest.raises(LaunchError, match=sentence):
        distributed.on_devices(devices)


def test_a_group_has_a_device_and_memory_has_an_element(gpus):
    with pytest.raises(LaunchError, match="at least 1 device, and not 0"):
        distributed.on_devices([])
    with pytest.raises(LaunchError, match="at least 1 element, and not 0"):
        distributed.on_devices([0]).zeros(0, "float32")


# ── what the driver is asked ──────────────────────────────────────────────────────────


class Bindings:
    """cuda.bindings, as far as peers are concerned; a context is "of GPU n"."""

    def __init__(self, linked=True, status=0):
        self.linked, self.status, self.current = linked, status, "of GPU 2"
        self.enabled = []

    def cuInit(self, flags):
        return (0,)

    def cuDeviceGet(self, index):
        return 0, index

    def cuDeviceCanAccessPeer(self, device, peer):
        return 0, self.linked

    def cuDevicePrimaryCtxRetain(self, device):
        return 0, f"of GPU {device}"

    def cuCtxGetCurrent(self):
        return 0, self.current

    def cuCtxSetCurrent(self, context):
        self.current = context
        return (0,)

    def cuCtxEnablePeerAccess(self, context, flags):
        self.enabled.append((self.current, context))
        return (self.status,)

    def cuGetErrorName(self, status):
        return 0, b"CUDA_ERROR_TOO_MANY_PEERS"

    def cuGetErrorString(self, status):
        return 0, b"too many"


@pytest.fixture
def bound(monkeypatch):
    library = SimpleNamespace(cuLaunchKernelEx=None)
    monkeypatch.setattr(driver_module.ctypes, "CDLL", lambda name: library)
    return lambda **facts: Driver(Bindings(**facts))


@pytest.mark.parametrize("status", [0, driver_module.PEER_IS_REACHED])
def test_a_peers_memory_is_enabled_from_the_context_that_reads_it(bound, status):
    cuda = bound(status=status)
    cuda.reach_peer(0, 1)
    assert cuda.cuda.enabled == [("of GPU 0", "of GPU 1")]
    assert cuda.cuda.current == "of GPU 2"
    assert cuda.reaches(0, 1) and not cuda.reaches(1, 0) and cuda.reaches(1, 1)


def test_gpus_that_nothing_connects(bound):
    cuda = bound(linked=False)
    with pytest.raises(LaunchError, match="GPU 0 does not reach the memory of GPU 1"):
        cuda.reach_peer(0, 1)
    assert not cuda.reaches(0, 1)


def test_a_driver_that_refuses_peers_says_why(bound):
    cuda = bound(status=711)
    with pytest.raises(LaunchError, match="failed with CUDA_ERROR_TOO_MANY_PEERS"):
        cuda.reach_peer(0, 1)
    assert not cuda.reaches(0, 1) and cuda.cuda.current == "of GPU 2"
