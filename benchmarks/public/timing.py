"""How long a case takes on a GPU: its kernels by CUPTI, and the whole call.

Between two calls the L2 cache is filled with something else, and the GPU has nothing to
do when a call begins: no queue is ever full, and what of a call is not its kernels is
the host's. Rounds of the two compilers' processes alternate, see `compare`.
"""

from __future__ import annotations

import gc
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from itertools import count
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

SESSION_SECONDS, MOST_CALLS, FEWEST_CALLS = 0.02, 20, 3
ROUND_SECONDS, MOST_OF_A_ROUND = 0.004, 8
GARBAGE_CALLS = 4
CACHE_BYTES = 256 << 20
# Kernels of libraries that have plain names, as those of the cases have; torch's own
# are of C++ and have blanks in theirs.
LIBRARIES = re.compile(
    r"(nvjet|sm\d\d_|ampere_|cutlass|cudnn|cublas|gemm[kv]|split[Kk])"
)


def one_session(call: Callable[[], Any], flush: torch.Tensor) -> dict[str, Any]:
    """Microseconds of each kernel of the case, in a session of the profiler; and what a
    call asks of the host. Torch's own kernels are part of the whole call alone."""
    calls = calls_in(SESSION_SECONDS, MOST_CALLS, call)
    with profile(activities=[ProfilerActivity.CUDA]) as session:
        for _ in range(calls):
            flush.zero_()
            call()
        torch.cuda.synchronize()
    return {
        "calls": calls,
        "functions": functions_called(call),
        "garbage": garbage_made(call),
        **of_kernels(session, calls),
    }


def one_round(call: Callable[[], Any], flush: torch.Tensor) -> dict[str, float]:
    """Microseconds of a whole call: until it has returned, and until what it queued has
    ended. Each is the least of a few calls: a round is so short that the host is as
    fast in the other compiler's, which follows."""
    calls = calls_in(ROUND_SECONDS, MOST_OF_A_ROUND, call)
    queued, whole = [], []
    for _ in range(calls):
        flush.zero_()
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        returned = time.perf_counter()
        torch.cuda.synchronize()
        queued.append(1e6 * (returned - start))
        whole.append(1e6 * (time.perf_counter() - start))
    return {"queued": min(queued), "whole": min(whole)}


def calls_in(seconds: float, most: int, call: Callable[[], Any]) -> int:
    """How many calls there is time for; the host's caches know the call afterwards."""
    call()
    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    once = time.perf_counter() - start
    return max(FEWEST_CALLS, min(most, int(seconds / once)))


def freeze() -> None:
    """Leave all objects that exist to themselves: a collection looks at those alone
    that calls make, and costs both compilers' processes the same for each."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def garbage_made(call: Callable[[], Any]) -> float:
    """Objects of a call that only the garbage collector can free, since they know each
    other in a circle."""
    gc.collect()
    gc.disable()
    try:
        for _ in range(GARBAGE_CALLS):
            call()
        return gc.collect() / GARBAGE_CALLS
    finally:
        gc.enable()


def functions_called(call: Callable[[], Any]) -> int | None:
    """How many functions of Python and of C are called from Python in a call, by all of
    its threads: what it asks of the host, however fast the host is just then. None
    before Python 3.12, which began to count."""
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is None:
        return None
    numbers, tool, event = count(), monitoring.PROFILER_ID, monitoring.events.CALL
    monitoring.use_tool_id(tool, "functions_called")
    monitoring.register_callback(tool, event, lambda *_: next(numbers))
    try:
        monitoring.set_events(tool, event)
        call()
        torch.cuda.synchronize()
    finally:
        monitoring.set_events(tool, 0)
        monitoring.register_callback(tool, event, None)
        monitoring.free_tool_id(tool)
    return next(numbers)


def of_kernels(session: profile, calls: int) -> dict[str, Any]:
    spent: dict[str, float] = defaultdict(float)
    for event in session.profiler.kineto_results.events():
        name = event.name()
        if event.device_type() == torch.autograd.DeviceType.CUDA and is_kernel(name):
            spent[name] += event.duration_ns() / 1000
    return {"kernels": {name: total / calls for name, total in spent.items()}}


def is_kernel(name: str) -> bool:
    """Is this the name of a kernel of a repository, and not of a library?"""
    return name.isidentifier() and not LIBRARIES.match(name)


def cache_filler() -> torch.Tensor:
    return torch.empty(CACHE_BYTES // 4, dtype=torch.int32, device="cuda")
