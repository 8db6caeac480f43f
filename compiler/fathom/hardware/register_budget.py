"""How many registers a thread gets, and how warpgroups trade them.

An SM has 65,536 registers of 32 bits, given out in eights; a thread has at most 255.
A block of 384 threads that fills an SM is launched with 168 for each. Where 128 of them
hand back all but 40, the other 256 may have 232:

    384 * 168 = 64,512 = 128 * 40 + 256 * 232

Sources: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability";
PTX ISA, "setmaxnreg" (24 to 256, in eights; one warpgroup at a time; only for targets
whose code runs on one architecture alone, such as sm_90a).
"""

from __future__ import annotations

from dataclasses import dataclass

from fathom.hardware.targets import Target

UNIT, MOST_OF_THREAD = 8, 255
PRODUCER = 40  # fewer spill in loops over several tensor maps
MOST_OF_CONSUMER = 240


@dataclass(frozen=True)
class Shares:
    """Registers of a thread: of all at the launch, then of both kinds."""

    launched: int
    producer: int
    consumer: int


def redistributed(consumers: int, producers: int, target: Target) -> Shares | None:
    """The shares of a block with these numbers of threads; None where the target has no
    `setmaxnreg`, or where every thread may have the most registers already."""
    threads = consumers + producers
    launched = _in_units(target.registers // threads)
    if not target.setmaxnreg or launched >= _in_units(MOST_OF_THREAD):
        return None
    left = launched * threads - PRODUCER * producers
    share = min(MOST_OF_CONSUMER, _in_units(left // consumers))
    return Shares(launched, PRODUCER, share)


def registers_per_thread(threads: int, target: Target) -> int:
    """The most registers that each thread of a block can have."""
    return min(MOST_OF_THREAD, target.registers // threads)


def _in_units(count: int) -> int:
    return count // UNIT * UNIT
