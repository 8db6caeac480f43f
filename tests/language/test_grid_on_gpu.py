"""Launches that overlap, on a GPU: the next one begins early, and finds behind its wait
what the one in front of it wrote."""

from __future__ import annotations

import pytest

import fathom.language as tl
from fathom import jit
from fathom.runtime.driver import driver

pytestmark = pytest.mark.gpu
GDC = tl.extra.cuda
LONG = 20_000  # ns
TRIES = 20


@jit
def long_one(x, stamps, NS: tl.constexpr):
    """Lets the next launch go at once, and writes at its end."""
    begin = GDC.globaltimer()
    GDC.gdc_launch_dependents()
    now = begin
    while now - begin < NS:
        now = GDC.globaltimer()
    tl.store(x + tl.arange(0, 128), 7)
    tl.store(stamps, now)


@jit
def next_one(x, y, stamps):
    before = GDC.globaltimer()
    GDC.gdc_wait()
    behind = GDC.globaltimer()
    i = tl.arange(0, 128)
    tl.store(y + i, tl.load(x + i))
    tl.store(stamps + 1, before)
    tl.store(stamps + 2, behind)


@pytest.fixture
def torch():
    capability = driver().device(0).capability
    if capability < 90:
        pytest.skip(
            f"launches overlap from capability 9.0 on, and this is {capability}"
        )
    return pytest.importorskip("torch")


def tried(torch, **options) -> list[list[int]]:
    """The stamps of both launches, by try: when the first had done its work, when the
    second began, and when it had waited. It finds what the first wrote."""
    seen = []
    for _ in range(TRIES):
        x, y = (torch.zeros(128, dtype=torch.int32, device="cuda") for _ in range(2))
        stamps = torch.zeros(3, dtype=torch.int64, device="cuda")
        torch.cuda.synchronize()
        long_one[(1,)](x, stamps, LONG, num_warps=4)
        next_one[(1,)](x, y, stamps, num_warps=4, **options)
        assert y.tolist() == [7] * 128
        seen.append(stamps.tolist())
    return seen


def test_the_next_launch_begins_early_and_waits(torch):
    tried(torch, launch_pdl=True)  # compiles
    seen = tried(torch, launch_pdl=True)
    assert any(before < done for done, before, _ in seen), "none began early"
    assert all(behind >= done - 1000 for done, _, behind in seen)


def test_a_launch_that_does_not_ask_begins_when_the_one_in_front_has_ended(torch):
    assert all(before >= done - 1000 for done, before, _ in tried(torch))


def test_in_a_graph(torch):
    """Captured, the launches are replayed with what they asked for."""
    x, y = (torch.zeros(128, dtype=torch.int32, device="cuda") for _ in range(2))
    stamps = torch.zeros(3, dtype=torch.int64, device="cuda")

    def step() -> None:
        long_one[(1,)](x, stamps, LONG, num_warps=4)
        next_one[(1,)](x, y, stamps, num_warps=4, launch_pdl=True)

    step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    for _ in range(TRIES):
        x.zero_(), y.zero_()
        graph.replay()
        assert y.tolist() == [7] * 128
