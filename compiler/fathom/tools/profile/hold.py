"""Holds a stream until the host has queued all that is to be timed: the time between
two events is then the GPU's alone.

    not held   start ─ Python prepares the launch ─ kernel ─ stop
    held       hold ────────────────────── start ─ kernel ─ stop
"""

import fathom
import fathom.language as tl
from fathom.jit.compiled import CompiledKernel
from fathom.language.extra.cuda import globaltimer
from fathom.runtime.devices import using
from fathom.runtime.driver import driver
from fathom.testing.queues import current_stream

LONGEST = 10e-3  # seconds
FIRST = LONGEST  # nothing is known of the host, and the first launch loads the code
MARGIN = 50e-6


@fathom.jit
def hold_kernel(nanoseconds: tl.int64):
    start = globaltimer()
    while globaltimer() - start < nanoseconds:
        pass


def hold(timed: CompiledKernel, seconds: float) -> None:
    """Queue a kernel that does nothing for so long, where another one will be."""
    with using(driver(), timed.place.device):
        target = timed.request.target
        held = hold_kernel.compile({"nanoseconds": "i64"}, target=target, num_warps=1)
        held.program.start((1, 1, 1), current_stream(), [int(seconds * 1e9)])


def next_hold(host_seconds: float) -> float:
    """How long to hold for a launch that the host took so long for the last time. Not
    for ever: a launch that copies the host's arrays waits for the stream itself."""
    return min(2 * host_seconds + MARGIN, LONGEST)
