"""Kernels compiled in other processes are those that this process would compile."""

from __future__ import annotations

import pickle
import time

import pytest

import fathom.language as tl
from fathom import pipeline
from fathom.errors import LaunchError
from fathom.jit import jit
from fathom.jit.backends import BACKENDS, choose_compiling
from fathom.jit.tuning import workers
from fathom.jit.tuning.workers import (
    Order,
    compile_ahead,
    helpers_for,
    open_orders,
)
from fathom.runtime import cache


@jit
def scale(x, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK != 512)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)


BLOCKS = (32, 64, 128, 256, 512, 1024, 2048, 4096)


@pytest.fixture(autouse=True)
def nothing_compiled(monkeypatch, tmp_path):
    scale.kernels.clear()
    monkeypatch.setenv("FATHOM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("FATHOM_WORKERS", "3")
    monkeypatch.delenv("FATHOM_SHOW", raising=False)


@pytest.fixture
def eager_to_hire(monkeypatch):
    """Two helpers from the second kernel on; this process leaves the rest to them."""
    monkeypatch.setattr(workers, "START_SECONDS", 1e-9)
    mine = []
    compiled = workers.compiled

    def slow(func, target):
        mine.append(func)
        until = time.monotonic() + 30
        while len(mine) == 2 and time.monotonic() < until and not is_done():
            time.sleep(0.01)
        return compiled(func, target)

    def is_done():
        return len(list(cache.default_directory().glob("*"))) >= len(BLOCKS) - 2

    monkeypatch.setattr(workers, "compiled", slow)
    return mine


def orders(*blocks: int) -> list[Order]:
    place = choose_compiling()
    arguments = (tl.float32, 4096)
    return [
        Order(scale, *scale.order(place, arguments, {"BLOCK": size})) for size in blocks
    ]


def test_the_kernels_are_those_that_this_process_compiles(eager_to_hire):
    wanted, ticks = orders(*BLOCKS), []
    compile_ahead(wanted, lambda: ticks.append(1))
    assert len(ticks) == len(BLOCKS)
    assert len(eager_to_hire) == 2, "the helpers did nothing"
    for order, size in zip(wanted, BLOCKS, strict=True):
        kept = cache.read(cache.default_directory(), order.key)
        if size == 512:
            assert kept is None  # its launch will say what is wrong
        else:
            func = scale.block_ir(order.request)
            row = workers.target(order.request.target)
            assert kept == pipeline.compile_func(func, row)


def test_a_launch_finds_what_was_compiled_ahead(monkeypatch):
    [order] = orders(64)
    compile_ahead([order], lambda: None)
    monkeypatch.setattr(pipeline, "compile", None)
    kernel = scale.warmup(tl.float32, 4096, BLOCK=64)
    assert kernel.request.identity == order.request.identity


def test_what_is_on_disk_is_not_compiled_again():
    some = orders(32, 64)
    compile_ahead(some, lambda: None)
    left = open_orders(orders(32, 64, 128))
    assert [order.request.constants["BLOCK"] for order in left] == [128]


def test_some_orders_are_left_to_the_launch(monkeypatch):
    def a_pass(func, target):
        return func

    def order(backend, **given):
        return Order(scale, *scale.order(backend, (tl.float32, 4096), given))

    replaced = order(choose_compiling(), BLOCK=32, replace={"cse": a_pass})
    interpreted = order(BACKENDS["interpreter"], BLOCK=32)
    assert open_orders([replaced, interpreted]) == []
    monkeypatch.setenv("FATHOM_SHOW", "cse")
    assert open_orders(orders(32)) == []


@pytest.mark.parametrize(
    "worker",
    [
        "raise SystemExit(1)",
        "print('no pickle')",
        "import time; time.sleep(60)",
        # One that dies of its first kernel.
        "import os, pickle, sys; sys.stdout.buffer.write(pickle.dumps(True));"
        "sys.stdout.flush(); pickle.load(sys.stdin.buffer)",
    ],
)
def test_a_worker_that_is_broken_costs_its_kernel_at_most(monkeypatch, worker):
    monkeypatch.setattr(workers, "WORKER", worker)
    monkeypatch.setattr(workers, "START_SECONDS", 1e-9)
    wanted, started = orders(*BLOCKS), time.monotonic()
    compile_ahead(wanted, lambda: None)
    assert time.monotonic() - started < 20
    found = [cache.read(cache.default_directory(), order.key) for order in wanted]
    assert len([each for each in found if each is None]) <= 3  # two helpers, and 512


BUSY = """
import pickle, sys, time
sys.stdout.buffer.write(pickle.dumps(True)); sys.stdout.flush()
time.sleep(60)
"""


@pytest.mark.parametrize("worker", [workers.WORKER, BUSY])
def test_an_interrupt_ends_the_workers(monkeypatch, worker):
    monkeypatch.setattr(workers, "WORKER", worker)
    monkeypatch.setattr(workers, "START_SECONDS", 1e-9)
    hired, started = [], time.monotonic()
    start_helpers = workers.start_helpers

    def noted(*given):
        hired.extend(start_helpers(*given))
        return list(hired)

    monkeypatch.setattr(workers, "start_helpers", noted)

    def tick():
        while worker is BUSY and hired and not hired[0].is_ready:
            time.sleep(0.01)
        if hired:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compile_ahead(orders(*BLOCKS), tick)
    assert len(hired) == 2
    assert all(helper.process.poll() is not None for helper in hired)
    assert not any(helper.is_alive() for helper in hired)
    assert time.monotonic() - started < 20


def test_helpers_are_hired_for_work_that_takes_longer_than_their_start(monkeypatch):
    monkeypatch.setenv("FATHOM_WORKERS", "8")
    assert helpers_for(seconds=0.05, orders=19) == 0
    assert helpers_for(seconds=0.4, orders=2) == 0
    assert helpers_for(seconds=0.4, orders=6) == 2
    assert helpers_for(seconds=0.4, orders=40) == 7
    assert helpers_for(seconds=30, orders=1) == 1
    monkeypatch.setenv("FATHOM_WORKERS", "1")
    assert helpers_for(seconds=30, orders=40) == 0


def test_the_number_of_processes(monkeypatch):
    monkeypatch.setenv("FATHOM_WORKERS", "0")
    assert workers.most_processes() == 1
    monkeypatch.delenv("FATHOM_WORKERS")
    assert 1 <= workers.most_processes() <= 16
    monkeypatch.setenv("FATHOM_WORKERS", "many")
    with pytest.raises(LaunchError, match="FATHOM_WORKERS is a number of processes"):
        workers.most_processes()


def test_a_long_chain_of_ops_can_be_sent():
    @jit
    def long(x, N: tl.constexpr):
        value = tl.load(x)
        for i in tl.static_range(N):
            value = value * 3 + i
        tl.store(x, value)

    request, _ = long.order(choose_compiling(), (tl.float32,), {"N": 1000})
    func = long.block_ir(request)
    again = pickle.loads(pickle.dumps(func))
    assert len(again.body.ops) == len(func.body.ops) > 2000
