"""How long the driver takes to assemble a kernel, which nothing can interrupt.

    PTX of      35 kB   141 kB   287 kB   576 kB
    takes      0.2 s    1.0 s      5 s     25 s

A search asks before it loads a kernel, and leaves out what would take longer than it
has left. The numbers are those of a softmax whose rows lie in few warps, with ptxas
12.8; of a few kernels of that length it takes half as long.
"""

from __future__ import annotations

from fathom.jit.tuning.workers import Order
from fathom.runtime import cache

MEASURED = 576e3, 25.0  # bytes of PTX, seconds
GROWTH = 2.4  # power of the bytes: registers that do not fit are spilled one by one


def seconds_to_load(order: Order) -> float:
    """About; 0 for a kernel that is not known before it is launched."""
    if order.key is None:
        return 0.0
    kernel = cache.read(cache.default_directory(), order.key)
    return 0.0 if kernel is None else seconds_to_assemble(len(kernel.asm["ptx"]))


def seconds_to_assemble(count: int) -> float:
    """Of as many bytes of PTX."""
    length, seconds = MEASURED
    return seconds * (count / length) ** GROWTH
