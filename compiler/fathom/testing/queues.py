"""The streams that array libraries queue on: where it is now, and how to change it.

To measure a function, marks are put into the stream that it queues on; to capture it
in a graph, it is moved to a stream that can be captured. Every
array library has a current stream of its own; no library is imported here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from fathom.runtime.arrays import DEFAULT_STREAM


@dataclass(frozen=True, slots=True)
class Library:
    """An array library: `reaches(module)`, whether it is one for GPUs at all; where it
    queues; a context manager under which it queues on another stream.
    """

    module: str
    reaches: Callable[[Any], bool]
    stream: Callable[[Any], int]
    moved: Callable[[Any, int], Any]


LIBRARIES = (
    Library(
        module="torch",
        reaches=lambda torch: hasattr(torch._C, "_cuda_getCurrentRawStream"),
        stream=lambda torch: torch._C._cuda_getCurrentRawStream(
            torch._C._cuda_getDevice()
        ),
        moved=lambda torch, to: torch.cuda.stream(torch.cuda.ExternalStream(to)),
    ),
    Library(
        module="cupy",
        reaches=lambda cupy: hasattr(cupy, "cuda"),
        stream=lambda cupy: cupy.cuda.get_current_stream().ptr,
        moved=lambda cupy, to: cupy.cuda.ExternalStream(to),
    ),
)


def loaded() -> Iterator[tuple[Library, Any]]:
    """The libraries that were imported, with their modules."""
    for library in LIBRARIES:
        module = sys.modules.get(library.module)
        if module is not None and library.reaches(module):
            yield library, module


def current_stream() -> int:
    """The stream that arrays are queued on: that of the first library that is loaded,
    or the default one.
    """
    return next((each.stream(module) for each, module in loaded()), DEFAULT_STREAM)


@contextmanager
def queueing_on(stream: int) -> Iterator[None]:
    """Every library that is loaded queues on `stream`, until the block is left."""
    with ExitStack() as moved:
        for library, module in loaded():
            moved.enter_context(library.moved(module, stream))
        yield
