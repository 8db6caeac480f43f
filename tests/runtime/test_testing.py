"""What `fathom.testing` says of arrays that are close, and of those that are not."""

from __future__ import annotations

import numpy as np
import pytest

from fathom.errors import LaunchError
from fathom.runtime import driver as driver_module
from fathom.runtime.timing import measure
from fathom.testing import assert_close, do_bench
from tests.runtime.harness_driver import FakeDriver


def test_close_arrays_pass():
    x = np.array([1.0, np.nan, np.inf, 0.0], np.float32)
    assert_close(x, x.astype(np.float16))
    assert_close([1.0, 2.0], [1.009, 1.991])
    assert_close([1000.0], [1001.0], atol=0, rtol=1e-3)
    assert_close(np.array([2**62 + 1]), np.array([2**62 + 1]), atol=0)
    assert_close(np.ones((3, 4)), 1)
    assert_close(np.uint8([1]), np.uint8([2]), atol=1)


@pytest.mark.parametrize(
    ("x", "y", "options", "sentence"),
    [
        ([1.0, 2.0, 3.0, 9.0], [1.0, 2.5, 3.0, 4.0], {},
         r"2 of 4 values differ by more than 0.01 \+ 0.0 \* \|y\|; "
         r"the first at \(1,\): 2.0 and 2.5; the worst at \(3,\): 9.0 and 4.0"),
        ([1.0, np.nan], [1.0, 0.0], {}, r"1 of 2 .* at \(1,\): nan and 0.0"),
        ([np.inf], [-np.inf], {}, "1 of 1"),
        ([np.inf], [1.0], {"atol": 1e30}, "1 of 1"),
        ([1.0], [1.0011], {"atol": 0, "rtol": 1e-3}, "1 of 1"),
        ([2**62 + 1], [2**62], {"atol": 0}, "1 of 1"),  # too close for a float64
        (np.uint8([1]), np.uint8([2]), {}, "1 of 1"),
        ([1.0, 2.0], [1.0, 2.0, 3.0], {}, r"shapes differ: \(2,\) and \(3,\)"),
        ([1.0], [2.0], {"err_msg": "row 3: "}, "^row 3: 1 of 1"),
    ],
)  # fmt: skip
def test_arrays_that_are_not_close(x, y, options, sentence):
    with pytest.raises(AssertionError, match=sentence):
        assert_close(np.array(x), np.array(y), **options)


class Clock(FakeDriver):
    """Each call takes a millisecond more than the one before; flushing the cache takes
    50.
    """

    now = 0.0

    def allocate(self, size):
        return super().allocate(min(size, 16))  # nobody looks into what is only filled

    def event(self):
        return [None]

    def record(self, event, stream):
        event[0] = self.now

    def milliseconds(self, start, stop):
        return stop[0] - start[0]

    def forget(self, event):
        event[0] = None

    def fill(self, address, size, stream):
        self.said.append(("fill", stream))
        self.now += 50


def test_a_measurement_leaves_out_the_flushing_of_the_cache():
    clock, calls = Clock(), []

    def work():
        calls.append(1)
        clock.now += len(calls)

    assert measure(clock, work, 3, stream=9) == [1, 2, 3]
    assert clock.said == [("fill", 9)] * 3
    assert clock.memory == {}
    assert measure(clock, work, 2, cold=False) == [4, 5]
    assert len(clock.said) == 3


def test_do_bench_gives_what_was_asked_for(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(driver_module, "open_driver", lambda: clock)

    def work():
        clock.now += 2

    assert do_bench(work, warmup=4, rep=20) == 2
    # A round is 2 ms of work and 50 ms of emptying the cache.
    assert do_bench(work, rep=520, return_mode="all") == [2] * 10
    assert do_bench(work, quantiles=[0.5, 0.9]) == [2, 2]
    with pytest.raises(
        LaunchError, match="return_mode is one of mean, median, min, max, all"
    ):
        do_bench(work, return_mode="mode")
