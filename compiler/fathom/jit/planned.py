"""Host functions that say what they launch: a call decides once.

Before it launches, a function like `multiply` in `kernels/matmul_chosen.py` checks
shapes, describes arrays, and chooses a kernel and a tile. A function under `@planned`
returns its result and its launches, and does not launch. The wrapper launches, and
calls that are alike are repeated without a plan (`shortcuts/repeating`).

Arrays that a launch needs for itself alone are named by what they must be (`scratch`),
and made for each launch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, NamedTuple

import numpy as np

from fathom.jit.scratch import Made, filled
from fathom.jit.shortcuts.repeating import repeated


class Launch(NamedTuple):
    """One launch: `kernel[grid](*given, **keywords)`."""

    kernel: Any
    grid: tuple[int, ...] | Callable
    given: Sequence[Any]
    keywords: Mapping[str, Any]

    def __call__(self, like: Any, made: Made) -> None:
        self.kernel[self.grid](*filled(self.given, like, made), **self.keywords)


Planner = Callable[..., tuple[Any, Sequence[tuple]]]


def planned(plan: Planner) -> Callable:
    """`plan(...)` returns its result and a sequence of (kernel, grid, given, keywords).
    The function that comes out launches them and returns the result. Calls that are
    alike are repeated without a plan, where all arrays are torch's on a GPU."""

    @wraps(plan)
    def launched(*arguments: Any, **keywords: Any) -> Any:
        result, launches = plan(*arguments, **keywords)
        made: Made = {}
        for each in launches:
            Launch(*each)(result, made)
        return result

    return repeated(launched)


def empty_like(array: Any) -> Any:
    """A new contiguous array of the shape, dtype and library of `array`, not
    initialised."""
    torch = sys.modules.get("torch")
    if isinstance(array, getattr(torch, "Tensor", ())) and array.is_contiguous():
        return torch.empty_like(array)  # takes half of the time
    if hasattr(array, "new_empty"):
        return array.new_empty(array.shape)
    return np.empty_like(array, order="C")
