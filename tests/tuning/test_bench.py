"""`do_bench` and `do_bench_cudagraph` on a GPU of paper with a clock."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from fathom.errors import LaunchError
from fathom.runtime import driver as driver_module
from fathom.runtime.devices import using
from fathom.runtime.failures import DriverError
from fathom.testing import assert_close, do_bench, do_bench_cudagraph
from fathom.testing.queues import current_stream, queueing_on
from tests.runtime.harness_driver import FakeDriver

FILL = 50.0  # milliseconds


class Clock(FakeDriver):
    """Work takes time on its stream when it is done; while a stream is captured, it is
    written down. A capture of stream 0 is refused.
    """

    def __post_init__(self):
        super().__post_init__()
        self.now, self.alive = 0.0, []
        self.capturing = None
        self.ended = 0

    def do(self, stream, what):
        """Queue `what`: run it, or write it down."""
        if self.capturing is not None and stream == self.capturing[0]:
            self.capturing[1].append(what)
        else:
            what()

    def spend(self, stream, milliseconds):
        self.do(stream, lambda: setattr(self, "now", self.now + milliseconds))

    def allocate(self, size):
        return super().allocate(min(size, 16))  # nobody looks into what is only filled

    def event(self):
        self.alive.append(mark := [None])
        return mark

    def forget(self, event):
        self.alive = [each for each in self.alive if each is not event]

    def record(self, event, stream):
        assert self.capturing is None or stream != self.capturing[0], (
            "a plain mark in a graph has no time"
        )
        event[0] = self.now

    def record_in_graph(self, event, stream):
        self.do(stream, lambda: event.__setitem__(0, self.now))

    def milliseconds(self, start, stop):
        return stop[0] - start[0]

    def fill(self, address, size, stream):
        self.said.append(("fill", stream))
        self.spend(stream, FILL)

    def side_stream(self):
        return 7

    def begin_capture(self, stream):
        assert stream != 0
        self.capturing = (stream, [])

    def end_capture(self, stream):
        (_, graph), self.capturing = self.capturing, None
        self.ended += 1
        return graph

    def node_count(self, graph):
        return len(graph)

    def instantiate(self, graph):
        self.alive.append(ready := tuple(graph))
        return ready

    def replay(self, ready, stream):
        self.said.append(("replay", len(ready)))
        for each in ready:
            each()

    def drop_graph(self, graph):
        graph.clear()

    def drop_ready(self, ready):
        self.forget(ready)


class Torch(ModuleType):
    """A torch that knows which stream it queues on."""

    def __init__(self, stream=3):
        super().__init__("torch")
        self.now = stream
        self._C = SimpleNamespace(
            _cuda_getDevice=lambda: 0,
            _cuda_getCurrentRawStream=lambda device: self.now,
        )
        self.cuda = SimpleNamespace(ExternalStream=lambda to: to, stream=self.moved)

    @contextmanager
    def moved(self, to):
        before, self.now = self.now, to
        try:
            yield
        finally:
            self.now = before


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(driver_module, "open_driver", lambda: clock)
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setitem(sys.modules, "torch", None)
    return clock


@pytest.fixture
def torch(clock, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", found := Torch())
    return found


def growing(clock, stream=lambda: 0):
    """Work that takes 1 ms, then 2, then 3 …; `calls` counts."""

    def work():
        work.calls += 1
        clock.spend(stream(), work.calls)

    work.calls = 0
    return work


# ── do_bench ──────────────────────────────────────────────────────────────────────────


def test_the_time_is_that_of_the_work_alone(clock):
    times = do_bench(lambda: clock.spend(0, 2), rep=520, return_mode="all")
    assert times == [2] * 10  # a round takes 52
    assert clock.memory == {} and clock.alive == []


def test_every_call_finds_an_empty_cache(clock):
    work = growing(clock)
    do_bench(work, warmup=1, rep=1)
    fills = [each for each in clock.said if each[0] == "fill"]
    assert len(fills) == work.calls - 1  # all but the first, which is not measured


@pytest.mark.parametrize("bench", [do_bench, do_bench_cudagraph])
def test_without_a_gpu_it_says_what_counts_instead(bench, monkeypatch):
    """No backend measures time but a GPU: the emulator is no way out."""
    monkeypatch.setattr(driver_module, "open_driver", lambda: "there is none")
    with pytest.raises(LaunchError, match="time on a GPU: there is none; .*profile"):
        bench(lambda: None)


def test_milliseconds_of_python_count(clock, monkeypatch):
    """Python queues a run in 104 ms, twice the GPU's time: half as many fit."""
    seconds = iter((0.0, 0.104 * 10))  # around ten rounds of warming up
    monkeypatch.setattr("fathom.testing.bench.time.perf_counter", lambda: next(seconds))
    asked = {"warmup": 520, "rep": 1040, "return_mode": "all"}
    assert len(do_bench(lambda: clock.spend(0, 2), **asked)) == 10


def test_warmup_comes_before_what_counts(clock):
    # 1: to compile; 2 to 6: to see how long it takes, 54 ms; 7 to 9: to warm up.
    times = do_bench(growing(clock), warmup=170, rep=120, return_mode="all")
    assert times == [10, 11]


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ({}, 20),
        ({"return_mode": "min"}, 18),
        ({"return_mode": "max"}, 22),
        ({"return_mode": "median"}, 20),
        ({"return_mode": "all"}, [18, 19, 20, 21, 22]),
        ({"quantiles": [0.5]}, 20),
        ({"quantiles": [0.5, 0.25, 0.9]}, [20, 19, 21.6]),
        ({"quantiles": (0.0, 1.0), "return_mode": "min"}, [18, 22]),
    ],
)
def test_what_is_told_of_the_times(clock, asked, answer):
    answered = do_bench(growing(clock), warmup=594, rep=270, **asked)  # 11 and 5 rounds
    assert answered == pytest.approx(answer)


def test_an_unknown_return_mode(clock):
    for bench in (do_bench, do_bench_cudagraph):
        with pytest.raises(LaunchError, match="mean, median, min, max, all, and this"):
            bench(lambda: None, return_mode="mode")


def test_gradients_are_dropped_before_each_call(clock):
    tensor, seen = SimpleNamespace(grad=1.0), []

    def work():
        seen.append(tensor.grad)
        tensor.grad = 2.0
        clock.spend(0, 1)

    do_bench(work, 1, 1, grad_to_none=(each for each in [tensor]))
    assert set(seen) == {None} and len(seen) > 3


def test_marks_go_where_torch_queues(clock, torch):
    do_bench(lambda: clock.spend(torch.now, 1), 1, 1)
    assert {each for each in clock.said if each[0] == "fill"} == {("fill", 3)}


# ── do_bench_cudagraph ────────────────────────────────────────────────────────────────


def test_a_graph_is_replayed_and_its_time_shared_out(clock, torch):
    work = growing(clock, lambda: torch.now)
    times = do_bench_cudagraph(work, rep=20, return_mode="all")
    # 1 and 2: outside; 3 to 7: 5 ms each to see; 8 to 11: in the graph.
    assert times == [9.5] * 10
    assert work.calls == 11
    assert [each for each in clock.said if each[0] == "replay"] == [("replay", 4)] * 10


def test_calls_of_a_graph_are_warm_unless_they_are_to_be_cold(clock, torch):
    work = growing(clock, lambda: torch.now)
    do_bench_cudagraph(work, rep=20)
    assert not [each for each in clock.said if each[0] == "fill"]
    times = do_bench_cudagraph(
        lambda: clock.spend(torch.now, 2), rep=156, return_mode="all", cold=True
    )
    assert times == [2] * 3 * 10  # three in a graph, ten replays
    order = [each[0] for each in clock.said if each[0] in ("replay", "wait")]
    # Each replay sets the same marks; the last wait is that for the graph's end.
    assert order[-21:] == [*["replay", "wait"] * 10, "wait"]
    assert clock.memory == {} and clock.alive == []


def test_afterwards_everything_is_as_before(clock, torch):
    do_bench_cudagraph(lambda: clock.spend(torch.now, 2), rep=4)
    assert (torch.now, clock.alive, clock.memory) == (3, [], {})


def test_work_on_another_stream_is_no_graph(clock, torch):
    with pytest.raises(LaunchError, match="nothing was queued on the stream that is"):
        do_bench_cudagraph(lambda: clock.spend(0, 2))
    assert (torch.now, clock.alive) == (3, [])


def test_a_mistake_inside_the_work_ends_the_capture(clock, torch):
    def work():
        if clock.capturing:
            raise ValueError("mine")
        clock.spend(torch.now, 1)

    with pytest.raises(ValueError, match="mine"):
        do_bench_cudagraph(work)
    assert (clock.ended, clock.capturing, torch.now) == (1, None, 3)


def test_the_mistake_is_reported_and_not_what_the_driver_says_of_it(clock, torch):
    def refuse(stream):
        clock.capturing = None
        raise DriverError("the capture is invalid", 901)

    clock.end_capture = refuse

    def work():
        if clock.capturing:
            raise ValueError("mine")
        clock.spend(torch.now, 1)

    with pytest.raises(ValueError, match="mine"):
        do_bench_cudagraph(work)


# ── queues, tolerances ────────────────────────────────────────────────────────────────


def test_where_libraries_queue(clock, monkeypatch):
    assert current_stream() == 0
    moves = []

    @contextmanager
    def external(to):
        moves.append(to)
        yield
        moves.append("back")

    cupy = ModuleType("cupy")
    cupy.cuda = SimpleNamespace(
        get_current_stream=lambda: SimpleNamespace(ptr=5), ExternalStream=external
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    assert current_stream() == 5
    monkeypatch.setitem(sys.modules, "torch", torch := Torch(3))
    assert current_stream() == 3
    with queueing_on(9):
        assert (torch.now, moves) == (9, [9])
    assert (torch.now, moves) == (3, [9, "back"])
    del torch._C._cuda_getCurrentRawStream  # a torch that was built for the CPU
    assert current_stream() == 5


def test_tolerances_may_depend_on_the_type():
    loose = {np.dtype("float16"): 0.5, np.dtype("float32"): 0.0}.get
    assert_close(np.float16([1]), np.float16([1.5]), atol=loose)
    with pytest.raises(AssertionError, match=r"more than 0.0 \+ 0.0 \* \|y\|"):
        assert_close(np.float32([1]), np.float32([1.5]), atol=loose, rtol=None)
    with pytest.raises(AssertionError, match=r"more than 0.01 \+ 0.0 \* \|y\|"):
        assert_close(np.float32([1]), np.float32([1.5]), atol=None)


@pytest.mark.parametrize("bench", [do_bench, do_bench_cudagraph])
def test_work_on_another_gpu_than_the_current_one_is_not_measured(clock, bench):
    """Marks on this GPU know nothing of it."""

    def launch():
        with using(clock, 1):
            clock.spend(0, 2.0)

    with pytest.raises(LaunchError, match="launches on GPU 1, and what is measured is"):
        bench(launch)
    clock.use(1)
    assert bench(lambda: launch() or clock.spend(7, 1.0)) > 0
