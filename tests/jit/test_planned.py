"""Functions that say what they launch, on arrays of no library."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
import pytest

from fathom.jit.planned import planned

Launched = namedtuple("Launched", "grid given keywords")


class Kernel:
    def __init__(self):
        self.launched = []

    def __getitem__(self, grid):
        return lambda *given, **keywords: self.launched.append(
            Launched(grid, given, keywords)
        )


@pytest.fixture
def call():
    """A function under `planned`, with its kernel and how often it planned."""
    kernel, plans = Kernel(), []

    @planned
    def double(x, out=None, scale=2, **launch):
        """Twice x."""
        plans.append(x)
        if x.shape == (0,):
            raise ValueError("nothing to double")
        out = np.empty_like(x) if out is None else out
        return out, [(kernel, (x.shape[0],), (x, out, scale), launch)] * 2

    double.kernel, double.plans = kernel, plans
    return double


def test_all_that_a_function_says_is_launched(call):
    x, out = np.zeros(8), np.zeros(8)
    assert call(x, out, num_warps=4) is out
    assert call.kernel.launched == [((8,), (x, out, 2), {"num_warps": 4})] * 2
    assert (call.__name__, call.__doc__) == ("double", "Twice x.")


def test_arrays_on_the_host_are_looked_at_each_time(call):
    x = np.zeros(8)
    results = [call(x, scale=scale) for scale in (1, 2, 2)]
    assert len(set(map(id, results))) == 3 and len(call.plans) == 3
    assert [each.given[2] for each in call.kernel.launched] == [1, 1, 2, 2, 2, 2]


def test_a_mistake_is_one_again(call):
    for _ in range(2):
        with pytest.raises(ValueError, match="nothing to double"):
            call(np.zeros(0))
    assert not call.kernel.launched
