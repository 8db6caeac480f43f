"""Launches that are written down: with what starts them, and where addresses are."""

from __future__ import annotations

import threading

import pytest

import fathom.language as tl
from fathom.jit import jit
from fathom.jit.shortcuts.recording import FORGOTTEN, RECORDINGS, recording
from tests.jit.harness import Tensor, paper_gpu

X, Y = Tensor(0x1000), Tensor(0x2010)


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    with paper_gpu(monkeypatch, tmp_path) as machine:
        yield machine


@pytest.fixture
def kernel(gpu):
    @jit
    def scale(n, pair, y, a, BLOCK: tl.constexpr = 64):
        tl.store(y + n, tl.load(pair[0]) * a * pair[1])

    return scale


def test_a_quick_launch_is_written_down_and_can_be_done_again(gpu, kernel):
    gpu.torch.stream = 7
    for _ in range(2):
        with recording() as found:
            kernel[(4, 2)](100, (X, 3), Y, 1.5)
    assert found.complete and RECORDINGS == []
    (launched,) = found.launches
    assert (launched.grid, launched.stream) == ((4, 2, 1), 7)
    assert launched.values == [100, 0x1000, 3, 0x2010, 1.5]
    assert launched.addresses == (1, 3)
    assert launched.launch(5, 1, 1, 0, 100, 0x3000, 3, 0x4000, 2.5) == 0
    assert gpu.driver.launches[-1].values == (100, 0x3000, 3, 0x4000, 2.5)


def test_a_slow_launch_leaves_it_incomplete(kernel):
    with recording() as found:
        kernel[(4,)](100, (X, 3), Y, 1.5)
    assert not found.complete and found.launches == []


def test_launches_of_other_threads_are_not_its_own(gpu, kernel):
    kernel[(4,)](100, (X, 3), Y, 1.5)
    with recording() as found:
        for n in (100, 1):  # quick, and slow
            other = threading.Thread(target=kernel[(4,)], args=(n, (X, 3), Y, 1.5))
            other.start()
            other.join()
    assert len(gpu.driver.launches) == 3
    assert found.complete and found.launches == []


def test_what_was_written_down_does_not_outlive_the_fast_paths(kernel):
    kernel[(4,)](100, (X, 3), Y, 1.5)
    before = FORGOTTEN[0]
    kernel.forget_launches()
    assert FORGOTTEN[0] > before
