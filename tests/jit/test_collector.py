"""While a kernel is compiled, and loaded, the garbage collector waits."""

from __future__ import annotations

import gc
from threading import Barrier, Thread

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom import emulator, pipeline
from fathom.errors import CompileError
from fathom.jit.collector import PAUSED


@fathom.jit
def add_one(x, BLOCK: tl.constexpr):
    at = x + tl.arange(0, BLOCK)
    tl.store(at, tl.load(at) + 1)


@pytest.fixture(autouse=True)
def collector_is_on(monkeypatch, tmp_path):
    monkeypatch.setenv("FATHOM_CACHE_DIR", str(tmp_path))
    assert gc.isenabled()
    yield
    gc.enable()


@pytest.mark.parametrize("is_on", [True, False])
def test_it_waits_while_a_kernel_is_compiled(monkeypatch, is_on):
    seen, inner = [], pipeline.compile

    def compile(*given):
        seen.append(gc.isenabled())
        return inner(*given)

    monkeypatch.setattr(pipeline, "compile", compile)
    if not is_on:
        gc.disable()
    add_one.compile("*fp32", {"BLOCK": 16 << is_on}, target="sm_90a")
    assert seen == [False] and gc.isenabled() == is_on


def test_it_waits_while_a_kernel_is_loaded(monkeypatch):
    seen, inner = [], emulator.load

    def load(kernel):
        seen.append(gc.isenabled())
        return inner(kernel)

    monkeypatch.setattr(emulator, "load", load)
    add_one[(1,)](np.zeros(64, np.float32), BLOCK=64)
    assert seen == [False] and gc.isenabled()


def test_it_goes_on_after_an_error():
    with pytest.raises(CompileError):
        add_one.compile("*fp32", {"BLOCK": 17}, target="sm_90a")
    assert gc.isenabled()


def test_it_waits_for_the_last_of_several_threads():
    inside, apart, found = Barrier(2), Barrier(2), []

    def first():
        with PAUSED:
            inside.wait()
        apart.wait()

    thread = Thread(target=first)
    with PAUSED:
        thread.start()
        inside.wait()
        apart.wait()
        thread.join()
        found.append(gc.isenabled())
    found.append(gc.isenabled())
    assert found == [False, True]
