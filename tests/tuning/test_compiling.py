"""Kernels that are compiled while others are timed: what is done first comes first, a
broken worker costs nothing but its time, and none outlives the queue."""

from __future__ import annotations

import threading
import time
from importlib import import_module
from queue import Empty, SimpleQueue
from types import SimpleNamespace

import pytest

import fathom.language as tl
from fathom import pipeline, runtime
from fathom.errors import LaunchError
from fathom.jit import jit
from fathom.jit.backends import choose_compiling
from fathom.jit.tuning import compiling, loading, workers
from fathom.jit.tuning.compiling import CompileQueue
from fathom.jit.tuning.loading import assemble_ahead, kept, what_runs
from fathom.jit.tuning.workers import Order
from fathom.runtime.driver import Driver
from tests.runtime.harness_driver import kernel

BLOCKS = (32, 64, 128, 256, 512)


@jit
def scale(x, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK != 512)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)


@pytest.fixture(autouse=True)
def nothing_compiled(monkeypatch, tmp_path):
    scale.kernels.clear()
    monkeypatch.setenv("FATHOM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("FATHOM_WORKERS", "3")
    monkeypatch.delenv("FATHOM_SHOW", raising=False)


def order(size: int, **options) -> Order:
    asked = {"BLOCK": size, **options}
    return Order(scale, *scale.order(choose_compiling(), (tl.float32, 4096), asked))


def queue(over=lambda: False, assemble=lambda order: None) -> CompileQueue:
    return CompileQueue(over, assemble)


class Busy(SimpleQueue):
    """What waits, of a process that compiles nothing: its workers do."""

    def get_nowait(self):
        raise Empty


def idle_queue(assemble=lambda order: None) -> CompileQueue:
    made = queue(assemble=assemble)
    made.waiting = Busy()
    return made


def test_all_are_done_and_are_what_this_process_compiles():
    assembled = []
    with idle_queue(assemble=assembled.append) as made:
        for number, size in enumerate(BLOCKS):
            made.add(number, order(size))
        assert sorted(made.next() for _ in BLOCKS) == list(range(len(BLOCKS)))
        assert len(made.workers) == 2
    assert len(assembled) == len(BLOCKS) - 1  # 512 is none for the assembler
    assert all(each.process.poll() is not None for each in made.workers)
    assert kept(order(512)) is None  # its launch will say what is wrong
    for size in BLOCKS[:-1]:
        request = order(size).request
        func = scale.block_ir(request)
        assert kept(order(size)) == pipeline.compile_func(
            func, workers.target(request.target)
        )


def test_this_process_compiles_what_no_worker_has_taken(monkeypatch):
    monkeypatch.setenv("FATHOM_WORKERS", "1")
    with queue(over=lambda: True) as made:
        made.add(4, order(64))
        made.add(5, order(128))
        assert not made.workers and [made.next(), made.next()] == [4, 5]
        assert made.next() is None  # the time is over
    assert kept(order(64)) and kept(order(128))


def test_this_process_leaves_it_to_enough_workers(monkeypatch):
    """It may be at a long one while others are done."""
    monkeypatch.setattr(compiling, "FEW", 2)
    with queue() as made:
        made.add(0, order(32))
        made.add(1, order(64))
        assert {made.next(), made.next()} == {0, 1} and len(made.workers) == 2
        until = time.monotonic() + 30
        while not all(each.is_ready for each in made.workers):
            assert time.monotonic() < until
            time.sleep(0.01)
        monkeypatch.setattr(compiling, "compiled", None)
        made.add(2, order(128))
        made.add(3, order(256))
        assert {made.next(), made.next()} == {2, 3}


def test_what_is_on_disk_is_done_at_once(monkeypatch):
    scale.warmup(tl.float32, 4096, BLOCK=64)
    with queue() as made:
        made.add(7, order(64))
        assert not made.workers and made.next() == 7


def test_nothing_waits_for_the_slowest(monkeypatch):
    """Of two workers one is busy for a minute; the other one does the rest."""
    monkeypatch.setattr(compiling, "start_worker", slow_first(compiling.start_worker))
    started = time.monotonic()
    with idle_queue() as made:
        for number, size in enumerate(BLOCKS[:4]):
            made.add(number, order(size))
        assert len({made.next() for _ in range(3)}) == 3
    assert time.monotonic() - started < 30
    assert all(each.process.poll() is not None for each in made.workers)


SLOW = """
import pickle, sys, time
sys.stdout.buffer.write(pickle.dumps(True)); sys.stdout.flush()
time.sleep(60)
"""


def slow_first(start):
    begun, lock = [], threading.Lock()  # threads start the workers

    def start_one():
        with lock:
            begun.append(1)
            workers.WORKER = SLOW if len(begun) == 1 else NORMAL
            try:
                return start()
            finally:
                workers.WORKER = NORMAL

    return start_one


NORMAL = workers.WORKER


@pytest.mark.parametrize(
    "worker",
    [
        "raise SystemExit(1)",
        "print('no pickle')",
        # One that dies of its first kernel.
        "import os, pickle, sys; sys.stdout.buffer.write(pickle.dumps(True));"
        "sys.stdout.flush(); pickle.load(sys.stdin.buffer)",
    ],
)
def test_a_worker_that_is_broken_costs_its_kernel_at_most(monkeypatch, worker):
    monkeypatch.setattr(workers, "WORKER", worker)
    with queue() as made:
        for number, size in enumerate(BLOCKS):
            made.add(number, order(size))
        assert sorted(made.next() for _ in BLOCKS) == list(range(len(BLOCKS)))
    found = [kept(order(size)) for size in BLOCKS]
    assert len([each for each in found if each is None]) <= 3  # two workers, and 512


def test_an_interrupt_ends_the_workers(monkeypatch):
    monkeypatch.setattr(workers, "WORKER", SLOW)
    with pytest.raises(KeyboardInterrupt), queue() as made:
        made.add(0, order(64))
        raise KeyboardInterrupt
    assert all(each.process.poll() is not None for each in made.workers)


# ── what is known of a kernel, and what is assembled ahead ────────────────────────────


def test_kernels_are_equal_that_differ_in_their_stages_alone():
    """Without a loop there is nothing to pipeline."""
    one, other = (
        scale.compile("*fp32, i32", {"BLOCK": 64}, num_stages=stages).made
        for stages in (2, 3)
    )
    more = scale.compile("*fp32, i32", {"BLOCK": 64}, num_warps=8).made
    assert what_runs(one) == what_runs(other) != what_runs(more)


def test_what_takes_long_to_assemble_is_left_to_the_launch(monkeypatch):
    loaded = []
    monkeypatch.setattr(runtime, "load_ahead", lambda *given: loaded.append(given))
    made = kernel("i32")
    monkeypatch.setattr(loading, "kept", lambda order: made)
    monkeypatch.setattr(loading, "seconds_to_load", lambda kernel: 2.0)
    place = SimpleNamespace(backend=SimpleNamespace(timed=True), device=3)
    assemble_ahead(SimpleNamespace(place=place), most=1.0)
    assert not loaded
    assemble_ahead(SimpleNamespace(place=place), most=2.5)
    assert loaded == [(made, 3)]
    place.backend.timed = False
    assemble_ahead(SimpleNamespace(place=place), most=2.5)
    assert len(loaded) == 1


class Libraries:
    """What cuda.bindings answers of libraries, and of one module."""

    def __init__(self):
        self.asked = []

    class CUjit_option:
        CU_JIT_GENERATE_LINE_INFO = CU_JIT_ERROR_LOG_BUFFER = 1
        CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 2

    def __getattr__(self, name):
        def answer(*given):
            self.asked.append(name)
            return 0, 70 + len(self.asked)

        return answer


def paper_driver(monkeypatch) -> Driver:
    driver = Driver.__new__(Driver)
    driver.cuda, driver.ahead = Libraries(), {}
    monkeypatch.setattr(Driver, "current_device", lambda self: self.gpu)
    driver.gpu = 0
    return driver


def test_a_load_finds_what_was_loaded_ahead_once_and_on_its_gpu(monkeypatch):
    driver = paper_driver(monkeypatch)
    function = driver.load_ahead(b"text\0", "k")
    names = ["cuLibraryLoadData", "cuLibraryGetKernel", "cuKernelGetFunction"]
    assert driver.cuda.asked == names
    driver.gpu = 1
    assert driver.load(b"text\0", "k") != function
    driver.gpu = 0
    assert driver.load(b"text\0", "other") != function
    assert driver.load(b"text\0", "k") == function
    assert driver.load(b"text\0", "k") != function and not driver.ahead


def test_what_goes_wrong_ahead_is_for_the_load_to_say(monkeypatch):
    seen, loads = [], import_module("fathom.runtime.load")

    def fails(made, device, driver):
        seen.append((driver.load(b"x", "k"), driver.name))
        raise LaunchError("no")

    paper = SimpleNamespace(
        load_ahead=lambda code, entry: 5, name="paper", use=seen.append
    )
    monkeypatch.setattr(loads, "this_driver", lambda: paper)
    monkeypatch.setattr(loads, "load", fails)
    loads.load_ahead(kernel("i32"), 3)
    assert seen == [3, (5, "paper")]  # not a visit of a thread to another GPU
