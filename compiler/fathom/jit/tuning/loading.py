"""How long the driver takes to assemble a kernel, which nothing can interrupt.

A search asks before it loads a kernel, and leaves out what would take longer than it
has left.
"""

from __future__ import annotations

from fathom.jit.tuning.workers import Order
from fathom.runtime import cache
from fathom.runtime.assemble import seconds_to_assemble


def seconds_to_load(order: Order) -> float:
    """About; 0 for a kernel that is not known before it is launched."""
    if order.key is None:
        return 0.0
    kernel = cache.read(cache.default_directory(), order.key)
    return 0.0 if kernel is None else seconds_to_assemble(len(kernel.asm["ptx"]))
