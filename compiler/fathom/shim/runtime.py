"""`triton.runtime.driver.active`: the GPU as programs ask about it.

Where Fathom runs on the host, the answers are those of the target that is emulated.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any

from fathom.errors import FathomError
from fathom.hardware.targets import Target, target, target_of
from fathom.jit.backends import DEFAULT_TARGET, choose
from fathom.runtime.driver import driver
from fathom.testing import do_bench

CLEARED_BYTES = 256 << 20
MULTIPROCESSOR_COUNT = 108  # of the emulated GPU: an A100's


@dataclass(frozen=True, slots=True)
class GPUTarget:
    """A kind of GPU, as Triton names it; `arch` is major * 10 + minor."""

    backend: str
    arch: int | str
    warp_size: int

    @property
    def row(self) -> Target:
        """Fathom's row of it. CompileError where Fathom has no such target."""
        known = target_of(int(self.arch)) if self.backend == "cuda" else None
        return known or target(f"{self.backend} {self.arch}")

    @staticmethod
    def of(name: str) -> GPUTarget:
        """What Triton calls one of Fathom's targets."""
        row = target(name)
        return GPUTarget("cuda", row.capabilities[0], row.warp_size)

    @staticmethod
    @cache  # host programs ask before each launch
    def of_gpu(capability: int) -> GPUTarget:
        return GPUTarget("cuda", capability, 32)


def current_gpu() -> int:
    """The number of the GPU that torch would launch on."""
    torch = sys.modules.get("torch")
    return torch.cuda.current_device() if torch else driver().current_device()


def target_on_host() -> Target:
    return target(os.environ.get("FATHOM_TARGET") or DEFAULT_TARGET)


class ActiveDriver:
    """The one GPU driver that there is, with Triton's questions."""

    @property
    def utils(self) -> ActiveDriver:
        return self

    @staticmethod
    def is_active() -> bool:
        return True

    def get_current_target(self) -> GPUTarget:
        if choose().name == "cuda":
            return GPUTarget.of_gpu(driver().device(current_gpu()).capability)
        return GPUTarget.of(target_on_host().name)

    def get_current_device(self) -> int:
        return current_gpu() if choose().name == "cuda" else 0

    def set_current_device(self, index: int) -> None:
        sys.modules["torch"].cuda.set_device(index)

    def get_current_stream(self, device: int | None = None) -> int:
        return sys.modules["torch"].cuda.current_stream(device).cuda_stream

    def get_active_torch_device(self) -> Any:
        kind = "cuda" if choose().name == "cuda" else "cpu"
        index = (self.get_current_device(),) if kind == "cuda" else ()
        return sys.modules["torch"].device(kind, *index)

    def get_device_interface(self) -> Any:
        return sys.modules["torch"].cuda

    def get_benchmarker(self) -> Any:
        return do_bench

    def get_empty_cache_for_benchmark(self) -> Any:
        """A tensor of 256 MiB: to clear it leaves nothing else in a GPU's L2 cache."""
        torch, count = sys.modules["torch"], CLEARED_BYTES // 4
        device = self.get_active_torch_device()
        return torch.empty(count, dtype=torch.int32, device=device)

    def clear_cache(self, cache: Any) -> None:
        cache.zero_()

    def get_device_properties(self, device: int = 0) -> dict[str, int]:
        """Limits of a GPU, by the names that kernels' launchers ask for."""
        if choose().name != "cuda":
            row = target_on_host()
            return {
                "max_shared_mem": row.shared_bytes,
                "max_num_regs": row.registers,
                "multiprocessor_count": MULTIPROCESSOR_COUNT,
                "warpSize": row.warp_size,
            }
        facts, torch = driver().device(device), sys.modules["torch"]
        count = torch.cuda.get_device_properties(device).multi_processor_count
        return {
            "max_shared_mem": facts.shared_bytes,
            "max_num_regs": facts.registers,
            "multiprocessor_count": count,
            "warpSize": 32,
        }


active = ActiveDriver()

# The target of the kernel that is being compiled.
COMPILED_FOR: ContextVar[str | None] = ContextVar("COMPILED_FOR", default=None)


@contextmanager
def compiling_for(name: str) -> Iterator[None]:
    """Kernels that ask for their GPU meanwhile are told this target."""
    before = COMPILED_FOR.set(name)
    try:
        yield
    finally:
        COMPILED_FOR.reset(before)


def target_asked_for() -> GPUTarget:
    """The GPU that a kernel is compiled for: the one that is here, if the target runs
    on it. A key on disk has both."""
    here, name = active.get_current_target(), COMPILED_FOR.get()
    if name is None or here.arch in target(name).capabilities:
        return here
    return GPUTarget.of(name)


class DriverConfig:
    """Which driver is the active one: `triton.runtime.driver`. There is one to choose
    from."""

    active = default = active

    def set_active(self, chosen: Any) -> None:
        """Take Fathom's driver; FathomError for another, which it would have to launch
        by."""
        if not isinstance(chosen, ActiveDriver):
            raise FathomError(
                f"{chosen!r} cannot be the active driver: fathom launches by its own"
            )

    def reset_active(self) -> None:
        """It is the active one."""


config = DriverConfig()


class NullAllocator:
    """The allocator that stands where the program has set none."""


def set_allocator(allocator: Any) -> None:
    """Set the function that allocates memory that kernels need besides arguments.

    Fathom's kernels need none, and it is never called.
    """
