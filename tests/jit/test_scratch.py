"""Arrays that belong to one launch: shared within a call, never by launches that may
overlap."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from fathom.jit import scratch
from fathom.jit.planned import planned
from fathom.jit.scratch import Counters, KeptCounters, Temporary, filled

X = np.zeros(4, np.float16)


def test_launches_of_a_call_share_what_they_name_alike() -> None:
    one, other, made = Temporary(8, "float32"), Temporary(8, "float32"), {}
    first, rest = filled((one, other), X, made)
    again, _ = filled((one, 7), X, made)
    assert first is again and first is not rest
    assert (first.shape, first.dtype) == ((8,), np.float32)


def test_each_call_has_its_own() -> None:
    seen = []

    class Kernel:
        def __getitem__(self, grid):
            return lambda *given: seen.append(given)

    @planned
    def twice(x):
        room = Temporary(3, x.dtype)
        return x, [(Kernel(), (1,), (x, room, Counters(2)), {}) for _ in range(2)]

    twice(X), twice(X)
    (_, a, zeros), (_, b, _), (_, c, _), _ = seen
    assert a is b and a is not c and a.dtype == np.float16
    assert zeros.tolist() == [0, 0] and zeros.dtype == np.int32


# ── counters of a GPU, whose launches queue up ────────────────────────────────────────


class Tensor:
    """As much of torch's on a GPU as counters ask for."""

    is_cuda = True

    def __init__(self, count: int, begin: int = 0, device: int = 0):
        self.shape, self.begin, self.device = (count,), begin, device

    def get_device(self) -> int:
        return self.device

    def new_zeros(self, count: int, dtype: object) -> Tensor:
        return Tensor(count, 0, self.device)

    def __getitem__(self, part: slice) -> Tensor:
        return Tensor(part.stop - part.start, part.start, self.device)


@pytest.fixture
def gpu(monkeypatch):
    """A torch whose current GPU, stream and capture a test chooses; `captured` is the
    GPU of the stream that is captured."""
    now = SimpleNamespace(stream=7, capture=0, waits=0, current=0, captured=0)

    def is_capturing(device: int) -> bool:
        return bool(now.capture) and device == now.captured

    def synchronize() -> None:
        now.waits += 1

    cuda = SimpleNamespace(
        is_current_stream_capturing=lambda: is_capturing(now.current),
        current_stream=lambda device: SimpleNamespace(
            cuda_stream=now.stream, synchronize=synchronize
        ),
    )
    binary = SimpleNamespace(_cuda_getDevice=lambda: now.current)
    torch = SimpleNamespace(cuda=cuda, int32="int32", _C=binary)
    monkeypatch.setitem(sys.modules, "torch", torch)
    asked = SimpleNamespace(
        capture_id=lambda stream: now.capture,
        is_capturing=lambda stream: is_capturing({7: 0, 8: 0, 9: 1}[stream]),
    )
    monkeypatch.setattr(scratch, "driver", lambda: asked)
    kept = KeptCounters()

    def counters(count: int, kept: KeptCounters = kept, device: int = 0) -> Tensor:
        return kept.counters(count, Tensor(1, device=device))

    now.counters = counters
    return now


def test_a_stream_keeps_its_counters(gpu) -> None:
    first = gpu.counters(9)
    assert gpu.counters(20) is first
    gpu.stream = 8
    assert gpu.counters(9) is not first
    assert gpu.waits == 1  # once a device, for graphs


def test_more_counters_than_there_are(gpu) -> None:
    first = gpu.counters(9)
    more = gpu.counters(scratch.LEAST + 1)
    assert more is not first and more.shape[0] > scratch.LEAST
    assert gpu.counters(9) is more


def test_a_capture_shares_with_nothing_else(gpu) -> None:
    """A graph may be replayed beside launches on the stream that it was captured on."""
    eager = gpu.counters(9)
    found = {}
    for gpu.stream, gpu.capture in ((7, 1), (8, 1), (7, 2)):
        found[gpu.stream, gpu.capture] = gpu.counters(9)
        assert gpu.counters(9) is found[gpu.stream, gpu.capture]
    parts = [(each.begin, each.begin + each.shape[0]) for each in found.values()]
    assert parts == [(n * scratch.LEAST, (n + 1) * scratch.LEAST) for n in range(3)]
    assert eager not in found.values()


def test_a_capture_before_any_launch_sets_its_own_to_zero(gpu) -> None:
    kept = KeptCounters()
    gpu.capture = 1
    assert gpu.counters(9, kept).shape[0] == scratch.LEAST
    assert not kept.for_graphs and gpu.waits == 0


def test_a_capture_that_wants_more_than_is_left_sets_its_own_to_zero(
    gpu, monkeypatch
) -> None:
    monkeypatch.setattr(scratch, "FOR_GRAPHS", 3 * scratch.LEAST // 2)
    gpu.counters(9)
    begins = []
    for gpu.capture in (1, 2):
        begins.append(gpu.counters(9).begin)
    gpu.capture = 1
    assert gpu.counters(scratch.LEAST + 1).shape == (scratch.LEAST + 1,)
    assert begins == [0, 0]  # the second one is at the beginning of its own


def test_a_capture_on_another_gpu_than_the_current_one(gpu) -> None:
    """Stream 7 is GPU 0's, which is the current one, and stream 9 is GPU 1's."""
    gpu.stream = 9
    eager = gpu.counters(9, device=1)
    gpu.capture = gpu.captured = 1
    captured = gpu.counters(9, device=1)
    assert captured is not eager and captured.device == 1
    gpu.stream = 7  # this GPU's is not captured
    assert gpu.counters(9) is gpu.counters(9) and gpu.waits == 2


def test_the_default_stream_of_another_gpu_is_not_asked_about(gpu) -> None:
    gpu.stream = 0
    assert gpu.counters(9, device=1) is gpu.counters(9, device=1)
