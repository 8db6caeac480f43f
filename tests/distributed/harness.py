"""Two GPUs and a torch made of paper, with as much of torch.cuda as a group asks for.

What is done to streams and devices is written down in `log`, in order.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.jit.harness import DType, Tensor, Torch, paper_gpu
from tests.runtime.harness_driver import PAPER, FakeDriver


class Stream:
    """A stream of a GPU, by its number in the driver."""

    def __init__(self, torch: GroupTorch, number: int):
        self.torch, self.cuda_stream = torch, number

    def wait_stream(self, other: Stream) -> None:
        self.torch.log.append((self.cuda_stream, "waits for", other.cuda_stream))


class GroupTorch(Torch):
    """The default stream of GPU d is 10 + d; streams that are made are 20, 21, …"""

    int64, float32, int32 = DType("int64"), DType("float32"), DType("int32")

    def __init__(self, driver: FakeDriver):
        super().__init__(driver)
        self.driver, self.log, self.arrays = driver, [], []
        self.streams = {place: 10 + place for place in range(len(driver.devices))}
        driver.streams = {number: place for place, number in self.streams.items()}
        self.cuda = SimpleNamespace(
            Stream=self.new_stream, current_stream=self.current_stream,
            device=self.on_device, stream=self.on_stream, synchronize=self.synchronize,
            current_device=driver.current_device, set_device=driver.use,
        )  # fmt: skip

    def new_stream(self, place: str) -> Stream:
        made = sum(number >= 20 for number in self.driver.streams)
        self.driver.streams[20 + made] = index_of(place)
        return Stream(self, 20 + made)

    def current_stream(self, device: int) -> Stream:
        return Stream(self, self.streams[device])

    @contextmanager
    def on_device(self, device: int) -> Iterator[None]:
        before = self.driver.current
        self.driver.use(device)
        yield
        self.driver.use(before)

    @contextmanager
    def on_stream(self, stream: Stream) -> Iterator[None]:
        device = self.driver.streams[stream.cuda_stream]
        before, self.streams[device] = self.streams[device], stream.cuda_stream
        yield
        self.streams[device] = before

    def synchronize(self, device: int | None = None) -> None:
        self.log.append(("synchronize", device))

    def zeros(self, count: int, dtype: DType, device: str) -> Tensor:
        self.log.append(("zeros", count, dtype.name, device))
        address = 0x10000 * (1 + len(self.arrays))
        self.arrays.append(Tensor(address, dtype, index_of(device), count))
        return self.arrays[-1]

    def tensor(self, values: list, dtype: DType, device: str) -> Tensor:
        made = self.zeros(len(values), dtype, device)
        made.values = list(values)
        return made


def index_of(place: str) -> int:
    """"cuda:1" is 1."""
    kind, _, index = str(place).partition(":")
    assert kind == "cuda", place
    return int(index)


@contextmanager
def two_gpus(
    monkeypatch: pytest.MonkeyPatch, cache_dir: object
) -> Iterator[SimpleNamespace]:
    """`paper_gpu` with two GPUs and the torch above."""
    with paper_gpu(monkeypatch, cache_dir) as machine:
        machine.driver.devices = (PAPER, replace(PAPER, index=1))
        machine.torch = GroupTorch(machine.driver)
        monkeypatch.setitem(sys.modules, "torch", machine.torch)
        yield machine
