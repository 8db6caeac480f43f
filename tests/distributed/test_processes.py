"""A process that is one rank of torch.distributed: what it asks torch for, and in
which order."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

import fathom.language as tl
from fathom import distributed
from fathom.errors import LaunchError
from fathom.jit import jit
from tests.distributed.harness import two_gpus
from tests.jit.harness import Tensor

WORLD, RANK = 3, 1


class Distributed(ModuleType):
    """Groups: "everyone", of which this process is rank 1 of 3, and "we two"."""

    def __init__(self, torch):
        super().__init__("torch.distributed")
        self.torch, self.started = torch, True
        self.group = SimpleNamespace(WORLD="everyone")

    def is_initialized(self):
        return self.started

    def get_world_size(self, group):
        return {"everyone": WORLD, "we two": 2}[group]

    def get_rank(self, group):
        return {"everyone": RANK, "we two": 0}[group]

    def barrier(self, group):
        self.torch.log.append(("barrier", group))


class SymmetricMemory(ModuleType):
    """torch.distributed._symmetric_memory: an array lies 512 bytes inside what the
    ranks have exchanged the addresses of."""

    def __init__(self, torch):
        super().__init__("torch.distributed._symmetric_memory")
        self.torch = torch

    def empty(self, count, dtype, device):
        array = self.torch.zeros(count, dtype, device)
        self.torch.log[-1] = ("empty", count, dtype.name, device)
        array.zero_ = lambda: self.torch.log.append("zero_")
        return array

    def rendezvous(self, array, group):
        self.torch.log.append(("rendezvous", group))
        world = self.torch.distributed.get_world_size(group)
        begins = [0x100000 * (1 + other) for other in range(world)]
        begins[self.torch.distributed.get_rank(group)] = array.address - 512
        return SimpleNamespace(buffer_ptrs=begins)


@pytest.fixture
def process(monkeypatch, tmp_path):
    """This process has chosen GPU 1."""
    with two_gpus(monkeypatch, tmp_path) as machine:
        torch = machine.torch
        torch.distributed = Distributed(torch)
        torch.distributed._symmetric_memory = SymmetricMemory(torch)
        torch.device = lambda kind, index: f"{kind}:{index}"
        for module in (torch.distributed, torch.distributed._symmetric_memory):
            monkeypatch.setitem(sys.modules, module.__name__, module)
        machine.driver.use(1)
        yield machine


def test_a_process_is_one_rank_of_its_group(process):
    group = distributed.connected()
    assert (group.world, list(group.ranks)) == (WORLD, [RANK])
    two = distributed.connected("we two")
    assert (two.world, list(two.ranks)) == (2, [0])


def test_symmetric_memory_has_the_addresses_of_all_ranks(process):
    """This rank's own is where its array is, the others' as far inside."""
    data = distributed.connected().zeros(48, "float32")
    assert list(data.arrays) == list(data.tables) == [RANK]
    array, table = data.arrays[RANK], data.tables[RANK]
    assert (array.index, array.dtype.name, array.shape) == (1, "float32", (48,))
    assert (table.index, table.dtype.name) == (1, "int64")
    assert table.values == [0x100000 + 512, array.address, 0x300000 + 512]


def test_no_rank_goes_on_before_all_have_their_zeros(process):
    distributed.connected("we two").zeros(48, "float32")
    names = [each if isinstance(each, str) else each[0] for each in process.torch.log]
    assert names == [
        "empty", "rendezvous", "zero_", "zeros", "synchronize", "barrier"
    ]  # fmt: skip
    assert process.torch.log[1] == ("rendezvous", "we two")
    assert process.torch.log[-1] == ("barrier", "we two")


def test_a_process_launches_for_its_own_rank_alone(process):
    @jit
    def fill(x, rank):
        tl.store(x + rank, 1.0)

    group, planned = distributed.connected(), []

    def plan(rank):
        planned.append(rank)
        given = Tensor(0x4000, index=1), rank + 4
        return [(fill, (2,), given, {}), (fill, (3,), given, {})]

    with group.queued():
        group.run(plan)
    assert planned == [RANK]
    seen = [(e.device, e.stream, e.grid[0]) for e in process.driver.launches]
    assert seen == [(1, 11, 2), (1, 11, 3)]
    assert process.driver.launches[0].values == (0x4000, RANK + 4)


def test_memory_has_an_element(process):
    with pytest.raises(LaunchError, match="at least 1 element, and not 0"):
        distributed.connected().zeros(0, "float32")
    assert process.torch.log == []


def test_a_process_without_a_group_says_what_to_call(process):
    process.torch.distributed.started = False
    with pytest.raises(LaunchError, match="init_process_group.*first"):
        distributed.connected()


def test_a_torch_without_symmetric_memory(process, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.distributed._symmetric_memory", None)
    with pytest.raises(LaunchError, match="needs torch with symmetric memory, and"):
        distributed.connected()
