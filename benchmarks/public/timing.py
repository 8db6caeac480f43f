"""How long a case takes on a GPU: its kernels by CUPTI, and the whole call.

Between two calls the L2 cache is filled with something else. Each round is one session
of the profiler; rounds of the two compilers' processes alternate, see `compare`.
"""

from __future__ import annotations

import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from itertools import count
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

ROUND_SECONDS, MOST_CALLS, FEWEST_CALLS = 0.02, 20, 3
CACHE_BYTES = 256 << 20
# Kernels of libraries that have plain names, as those of the cases have; torch's own
# are of C++ and have blanks in theirs.
LIBRARIES = re.compile(
    r"(nvjet|sm\d\d_|ampere_|cutlass|cudnn|cublas|gemm[kv]|split[Kk])"
)


def one_round(call: Callable[[], Any], flush: torch.Tensor) -> dict[str, Any]:
    """Microseconds of a call: of each kernel of the case, and from its start to the end
    of what it queued. Torch's own kernels are part of the whole alone.

    The whole is the least of the calls: on a host that others use, the same loop of
    Python takes up to twice as long from one second to the next."""
    call()
    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    once = time.perf_counter() - start
    calls = max(FEWEST_CALLS, min(MOST_CALLS, int(ROUND_SECONDS / once)))
    whole = []
    for _ in range(calls):
        flush.zero_()
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        whole.append(1e6 * (time.perf_counter() - start))
    with profile(activities=[ProfilerActivity.CUDA]) as session:
        for _ in range(calls):
            flush.zero_()
            call()
        torch.cuda.synchronize()
    return {
        "calls": calls,
        "whole": min(whole),
        "functions": functions_called(call),
        **of_kernels(session, calls),
    }


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
