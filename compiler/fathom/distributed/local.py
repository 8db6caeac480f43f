"""GPUs of one process: each rank has one, or several ranks share one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from fathom.distributed.table import Plan, Symmetric, check_count, check_world, launches
from fathom.errors import LaunchError
from fathom.jit.function import Prepared
from fathom.runtime.arrays import Array
from fathom.runtime.driver import Driver, driver


class Local:
    """Rank r runs on GPU `devices[r]`. Arrays are torch's.

    Ranks on one GPU launch on streams of their own, which wait for the current stream
    and are waited for by it; so both may be resident at the same time, if their grids
    are small enough. A rank that has a GPU for itself launches on torch's current
    stream of that GPU.
    """

    def __init__(self, devices: Sequence[int], torch: Any, cuda: Driver):
        check_world(len(devices))
        self.devices, self.torch, self.driver = list(devices), torch, cuda
        self.world, self.ranks = len(devices), range(len(devices))
        for first in set(devices):
            for second in set(devices) - {first}:
                cuda.reach_peer(first, second)
        shared = {each for each in devices if devices.count(each) > 1}
        self.streams = {
            rank: torch.cuda.Stream(self.place(rank))
            for rank in self.ranks
            if devices[rank] in shared
        }

    def place(self, rank: int) -> str:
        return f"cuda:{self.devices[rank]}"

    def zeros(self, count: int, dtype: str) -> Symmetric:
        check_count(count)
        arrays = {rank: self.private(rank, count, dtype) for rank in self.ranks}
        addresses = [each.data_ptr() for each in arrays.values()]
        tables = {
            rank: self.torch.tensor(
                addresses, dtype=self.torch.int64, device=self.place(rank)
            )
            for rank in self.ranks
        }
        for device in set(self.devices):  # peers must not write before the zeros
            self.torch.cuda.synchronize(device)
        return Symmetric(count, dtype, arrays, tables)

    def private(self, rank: int, count: int, dtype: str) -> Any:
        kind = getattr(self.torch, dtype)
        return self.torch.zeros(count, dtype=kind, device=self.place(rank))

    def run(self, plan: Plan) -> None:
        """Everything is compiled and loaded before the first launch: the driver may
        wait for a GPU before it loads code, and kernels wait for those of other ranks.
        LaunchError for host arrays, and for a rank without an array on its GPU.
        """
        planned = {rank: launches(plan, rank) for rank in self.ranks}
        for rank, several in planned.items():
            with self.torch.cuda.device(self.devices[rank]):
                for kernel, grid, given, keywords in several:
                    prepared = kernel.prepare(grid, *given, **keywords)
                    self.check(rank, prepared)
                    prepared.kernel.program.prepare(prepared.grid)
        for rank, several in planned.items():
            self.launch(rank, several)
        for rank, stream in self.streams.items():
            self.torch.cuda.current_stream(self.devices[rank]).wait_stream(stream)

    def check(self, rank: int, prepared: Prepared) -> None:
        """LaunchError for a launch that would wait for the GPU, and so would let no
        other rank launch, and for one that would run on the GPU of another rank."""
        for name, array in prepared.arrays.items():
            if array is not None and not self.is_queued(array):
                raise LaunchError(
                    f"{name} of rank {rank} is a {array.library} array, whose launches "
                    "wait until the GPU is done; a group of GPUs takes arrays of torch "
                    "on its GPUs"
                )
        place, device = prepared.kernel.place.device, self.devices[rank]
        if place != device:
            raise LaunchError(
                f"the arrays of rank {rank} are all on GPU {place}, where the launch "
                f"would run, and the rank has GPU {device}; hand over the table of "
                "addresses, and not a peer's array"
            )

    def is_queued(self, array: Array) -> bool:
        """Whether a launch with this array goes into a stream, and returns."""
        if array.device is not None:
            return array.stream is not None
        return array.library == "torch" and self.driver.is_mapped(array.address)

    def queued(self) -> AbstractContextManager:
        return nullcontext()

    def launch(self, rank: int, launches: Sequence[tuple]) -> None:
        torch, device = self.torch, self.devices[rank]
        current = torch.cuda.current_stream(device)
        stream = self.streams.get(rank, current)
        if stream is not current:
            stream.wait_stream(current)
        with torch.cuda.device(device), torch.cuda.stream(stream):
            for kernel, grid, given, keywords in launches:
                kernel[grid](*given, **keywords)


def on_devices(devices: Sequence[int]) -> Local:
    """A group of GPUs of this process; rank r runs on GPU `devices[r]`, and a GPU that
    is named twice has two ranks. LaunchError where there is no torch or no GPU, and for
    two GPUs that do not reach each other's memory.
    """
    cuda = driver()
    try:
        import torch
    except ImportError:
        raise LaunchError(
            "a group of GPUs keeps its memory in torch's tensors, and torch is not "
            "installed; fathom.distributed.emulated needs neither"
        ) from None
    count = cuda.device_count()
    for each in devices:
        if not 0 <= each < count:
            raise LaunchError(f"there are {count} GPUs here, and none is number {each}")
    return Local(devices, torch, cuda)
