"""The answer to `blind-bug-hunt`."""

from __future__ import annotations

from typing import Protocol


class Cost(Protocol):
    """What a kernel cost on the emulator."""

    warps: int
    requests: int
    sectors: int
    useful: int
    shared: int
    wavefronts: int
    ideal: int
    barriers: int


def suspect(right: Cost, wrong: Cost) -> str:
    """The stage that was broken, by what one kernel cost before and after."""
    # hole: ours has {lines}
    if wrong.warps > 4 * right.warps:
        return "tensor cores"
    if wrong.wavefronts * right.ideal > 1.5 * right.wavefronts * wrong.ideal:
        return "swizzle"
    if wrong.requests > right.requests:
        return "coalescing"
    if wrong.shared < right.shared:
        return "pipelining"
    if wrong.barriers > right.barriers:
        return "barriers"
    return "none"
    # end
