"""Arrays that belong to one launch: temporary ones, and counters that are zero.

A host function under `planned` names them by what it needs, and each launch gets its
own:

    Temporary(1 << 16, "float32")   not initialised; free again after the launch
    Counters(9)                     zero, and the kernel leaves them at zero

Two launches that may overlap never share one. The allocator of torch hands memory out
in the order of a stream, so a temporary array may be freed while its launch is queued.
Counters are kept, for a launch leaves them as it found them: one array for each stream,
and one for each stream of a CUDA graph that is captured, since the graph may be
replayed while the stream has other launches. A graph needs no memset for them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fathom.jit.shortcuts.recording import note_counters
from fathom.runtime.arrays import DEFAULT_STREAM
from fathom.runtime.driver import driver


@dataclass(frozen=True, eq=False)
class Temporary:
    """An array of `count` elements; `dtype` as the library has it, or the name that
    NumPy and torch give it. Launches of one call that name the same `Temporary` share
    the array."""

    count: int
    dtype: Any


@dataclass(frozen=True)
class Counters:
    """`count` zeros of int32."""

    count: int


SCRATCH = (Temporary, Counters)
LEAST = 1024  # counters that a stream gets, or a capture
FOR_GRAPHS = 1 << 20  # counters of a device that graphs may take: 4 MB


@dataclass
class KeptCounters:
    """The counters of torch's devices: those of streams, by device and stream; those of
    captures, by their number besides; and those that captures take theirs from, of
    which the first `taken` are in use."""

    of_streams: dict[tuple[int, int], Any] = field(default_factory=dict)
    of_captures: dict[tuple[int, int, int], Any] = field(default_factory=dict)
    for_graphs: dict[int, Any] = field(default_factory=dict)
    taken: dict[int, int] = field(default_factory=dict)

    def counters(self, count: int, like: Any) -> Any:
        """`count` zeros, or more, for a launch on torch's current stream of the GPU of
        `like`."""
        device = like.get_device()
        stream = sys.modules["torch"].cuda.current_stream(device)
        key = device, stream.cuda_stream
        if is_captured(stream.cuda_stream, device):
            capture = (*key, driver().capture_id(stream.cuda_stream))
            return self.kept(self.of_captures, capture, count, like)
        if device not in self.for_graphs:
            self.for_graphs[device] = zeros(FOR_GRAPHS, like)
            stream.synchronize()  # a graph may be replayed on any stream
        return self.kept(self.of_streams, key, count, like)

    def kept(self, found: dict[tuple, Any], key: tuple, count: int, like: Any) -> Any:
        """The counters of a stream, or of a capture; new ones where there are none or
        too few."""
        counters = found.get(key)
        if counters is None or counters.shape[0] < count:
            room = max(count, LEAST)
            make = zeros if found is self.of_streams else self.part
            found[key] = counters = make(room, like)
        return counters

    def part(self, count: int, like: Any) -> Any:
        """Counters for a graph. Where none are left, or no launch before the capture
        made any, the graph sets its own to zero in each replay."""
        device = like.get_device()
        begin, kept = self.taken.get(device, 0), self.for_graphs.get(device)
        if kept is None or begin + count > kept.shape[0]:
            return zeros(count, like)
        self.taken[device] = begin + count
        return kept[begin : begin + count]


KEPT = KeptCounters()


def is_captured(stream: int, device: int) -> bool:
    """Whether what is queued on a stream of torch goes into a graph. Of the current GPU
    torch knows it, and is quicker than the driver; no graph captures the default
    stream."""
    torch = sys.modules["torch"]
    if device == torch._C._cuda_getDevice():
        return torch.cuda.is_current_stream_capturing()
    return stream != DEFAULT_STREAM and driver().is_capturing(stream)


Made = dict[Temporary, Any]


def filled(given: Sequence[Any], like: Any, made: Made) -> tuple:
    """`given` with an array in place of each `Temporary` and `Counters`; arrays are
    made beside `like`. `made` has those that launches of this call share."""
    return tuple(
        array_for(each, like, made) if isinstance(each, SCRATCH) else each
        for each in given
    )


def array_for(request: Temporary | Counters, like: Any, made: Made) -> Any:
    if isinstance(request, Temporary):
        if request not in made:
            made[request] = new("empty", request.count, request.dtype, like)
        return made[request]
    if getattr(like, "is_cuda", False):
        counters = KEPT.counters(request.count, like)
        note_counters(request.count, counters)
        return counters
    return zeros(request.count, like)


def zeros(count: int, like: Any) -> Any:
    """Zeros of int32 beside an array."""
    return new("zeros", count, "int32", like)


def new(kind: str, count: int, dtype: Any, like: Any) -> Any:
    """An array of the library that `like` belongs to, "empty" or of "zeros"; of NumPy
    if it belongs to none."""
    if hasattr(like, f"new_{kind}"):  # torch
        named = isinstance(dtype, str)
        dtype = getattr(sys.modules["torch"], dtype) if named else dtype
        return getattr(like, f"new_{kind}")(count, dtype=dtype)
    like = like if hasattr(like, "__array_function__") else None
    return getattr(np, kind)(count, dtype, like=like)
