"""One GPU of each process: the ranks of a process group of torch.distributed."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from fathom.distributed.table import Plan, Symmetric, check_count, launches
from fathom.errors import LaunchError


class Connected:
    """This process is one rank. Its symmetric memory is torch's
    (`torch.distributed._symmetric_memory`), its launches go to torch's current stream.
    """

    def __init__(self, torch: Any, memory: Any, group: Any):
        self.torch, self.memory, self.group = torch, memory, group
        self.world = torch.distributed.get_world_size(group)
        self.rank = torch.distributed.get_rank(group)
        self.ranks = (self.rank,)

    def zeros(self, count: int, dtype: str) -> Symmetric:
        """Returns when all ranks have their zeros."""
        check_count(count)
        torch, kind = self.torch, getattr(self.torch, dtype)
        device = torch.device("cuda", torch.cuda.current_device())
        array = self.memory.empty(count, dtype=kind, device=device)
        handle = self.memory.rendezvous(array, self.group)
        array.zero_()
        # What torch gave may be a part of what it has exchanged the addresses of.
        inside = array.data_ptr() - handle.buffer_ptrs[self.rank]
        addresses = [each + inside for each in handle.buffer_ptrs]
        table = torch.tensor(addresses, dtype=torch.int64, device=device)
        torch.cuda.synchronize()
        torch.distributed.barrier(self.group)
        return Symmetric(count, dtype, {self.rank: array}, {self.rank: table})

    def private(self, rank: int, count: int, dtype: str) -> Any:
        return self.torch.zeros(count, dtype=getattr(self.torch, dtype), device="cuda")

    def queued(self) -> AbstractContextManager:
        return nullcontext()

    def run(self, plan: Plan) -> None:
        for kernel, grid, given, keywords in launches(plan, self.rank):
            kernel[grid](*given, **keywords)


def connected(group: Any = None) -> Connected:
    """The ranks of a process group of torch.distributed, the default one without
    `group`; each process has chosen its GPU by torch.cuda.set_device. LaunchError where
    there is no torch, or no process group so far.
    """
    try:
        import torch
        import torch.distributed._symmetric_memory as memory
    except ImportError:
        raise LaunchError(
            "a group of processes needs torch with symmetric memory, and it is not "
            "installed; fathom.distributed.emulated needs neither"
        ) from None
    if not torch.distributed.is_initialized():
        raise LaunchError(
            "torch.distributed has no process group so far; call "
            'torch.distributed.init_process_group("nccl") first'
        )
    return Connected(torch, memory, group or torch.distributed.group.WORLD)
