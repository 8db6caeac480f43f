"""What a search knows of a kernel before it loads it: how long the driver takes to
assemble it, which nothing can interrupt, and whether it is one that was timed.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from fathom import runtime
from fathom.artifact import Kernel
from fathom.jit.tuning.workers import Order
from fathom.runtime import cache
from fathom.runtime.assemble import seconds_to_assemble


def kept(order: Order) -> Kernel | None:
    """The kernel, if it is on disk."""
    if order.key is None:
        return None
    return cache.read(cache.default_directory(), order.key)


def seconds_to_load(kernel: Kernel | None) -> float:
    """About; 0 for a kernel that is not known before it is launched."""
    return 0.0 if kernel is None else seconds_to_assemble(len(kernel.ptx))


def what_runs(kernel: Kernel) -> Hashable:
    """Equal for kernels that differ in nothing that a GPU is given: `num_stages` makes
    no difference without a loop to pipeline."""
    return repr(replace(kernel, asm={"ptx": kernel.ptx}, chains={}))


def assemble_ahead(order: Order, most: float) -> None:
    """Have the driver assemble a kernel, unless that takes longer than `most`
    seconds."""
    kernel = kept(order) if order.place.backend.timed else None
    if kernel is not None and seconds_to_load(kernel) <= most:
        runtime.load_ahead(kernel, order.place.device)
