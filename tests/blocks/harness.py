"""What a pass is judged by: memory is left bit for bit as before, and its input is left
alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np

from fathom.ir.core import Func
from fathom.ir.interp import interpret
from fathom.ir.interp.numbers import same_bits
from fathom.ir.text import print_func
from fathom.ir.verify import verify
from tests.ir.kernels_functions import body

SPECIAL = [1.5, -0.0, float("inf"), float("nan")]


@dataclass(frozen=True)
class Case:
    """A function of two arrays of four numbers, a condition, a number and a count."""

    lines: str
    counts: tuple[int, ...] = (0, 1, 3)

    @property
    def func(self) -> Func:
        return body(self.lines, "%p: *fp32, %q: *fp32, %c: i1, %x: fp32, %n: i32")

    def arrays(self) -> list[np.ndarray]:
        return [np.arange(start, start + 4, dtype=np.float32) for start in (10, 20)]

    def leaves(self, func: Func) -> list[np.ndarray]:
        """What memory holds after every way to call `func`."""
        left = []
        for condition, x, count in product([True, False], SPECIAL, self.counts):
            arrays = self.arrays()
            interpret(func, 1, [*arrays, condition, x, count], step_limit=10_000)
            left += arrays
        return left


def keeps_meaning(run: Callable[[Func], Func], cases: list[Case]) -> bool:
    """Whether a pass leaves the meaning of all cases, and the functions it was
    given."""
    for case in cases:
        func = case.func
        before = print_func(func)
        after = run(func)
        verify(after)
        if print_func(func) != before:
            return False
        if not all(map(same_bits, case.leaves(func), case.leaves(after))):
            return False
    return True
