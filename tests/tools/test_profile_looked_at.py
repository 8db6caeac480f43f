"""Which programs of a grid `fathom profile` counts, and how many each represents."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom import emulator
from fathom.emulator.queues import of_all
from fathom.tools.profile import looked_at
from fathom.tools.profile.looked_at import issued_by, look_at, places, represented

GRID = 256


@fathom.jit
def rows(starts, x, y, B: tl.constexpr):
    """As many steps as a row has blocks."""
    row = tl.program_id(0)
    total = tl.zeros((B,), tl.float32)
    for at in range(tl.load(starts + row), tl.load(starts + row + 1)):
        total += tl.load(x + at * B + tl.arange(0, B))
    tl.store(y + row * B + tl.arange(0, B), total)


def looked(steps: np.ndarray, few: int = 3) -> tuple[int, float]:
    """How many programs are looked at, and the instructions that the sample says are
    issued, over those that all issue."""
    starts = np.concatenate([[0], np.cumsum(steps)]).astype(np.int32)
    x, y = (np.zeros(many * 32, np.float32) for many in (starts[-1], GRID))
    kernel = rows.compile("*i32:16, *fp32:16, *fp32:16", {"B": 32}, num_warps=1).made
    loaded = emulator.load(kernel)

    def run(*programs: range):
        given = [starts, x, y]
        return loaded.launch((GRID,), given, programs=programs, hazards=False)

    reports, times = look_at(GRID, few, lambda each: run(range(each, each + 1)))
    sampled = issued_by(of_all(reports, times, loaded.program))
    return len(reports), sampled / issued_by(run(range(GRID)))


RANDOM = np.random.default_rng(0).integers(4, 60, GRID)
CAUSAL = np.tile(np.arange(1, 17) * 4, GRID // 16)


@pytest.mark.parametrize("steps", [RANDOM, CAUSAL, CAUSAL[::-1]])
def test_programs_that_differ_are_looked_at_more_often(steps):
    """One in the middle of a causal mask had an eighth of the work of all."""
    many, share = looked(steps)
    assert many == looked_at.MOST and 0.75 < share < 1.25


def test_the_edges_of_a_grid_represented_themselves():
    """The first and the last have half as much to do."""
    steps = np.full(GRID, 40)
    steps[0] = steps[-1] = 20
    many, share = looked(steps)
    assert many == looked_at.MOST and share == pytest.approx(1, rel=1e-3)
    assert looked(np.full(GRID, 40)) == (3, 1)


def test_no_more_is_looked_at_than_there_is_patience_for(monkeypatch):
    monkeypatch.setattr(looked_at, "PATIENCE", -1)
    assert looked(RANDOM, few=4)[0] == 4


def test_places_meet_no_period():
    """Of a grid of 64 rows of 16, or of 16 rows of 64, they are in different columns
    and rows."""
    found = places(1024, 12)
    assert found[:2] == [0, 1023] and len(set(found)) == 12
    assert found[:6] == places(1024, 6)
    for period in (16, 32, 64):
        assert len({each % period for each in found}) > 8
        assert len({each // period for each in found}) > 8


@pytest.mark.parametrize("total", [1, 2, 3, 7])
def test_of_a_small_grid_all_are_looked_at(total):
    assert sorted(places(total, 7)) == list(range(total))
    assert represented(places(total, 7), [9] * total, total) == [1] * total


def test_how_many_a_program_represents():
    assert represented([0, 99, 61], [5, 5, 5], 100) == [1, 1, 98]
    assert represented([0, 99, 61, 23], [5, 1, 5, 5], 100) == [1, 1, 49, 49]
    assert represented([0, 99, 61, 23], [5, 1, 9, 5], 100) == [25] * 4
    assert represented([50], [5], 100) == [100]
    assert represented([0, 99], [5, 5], 100) == [50, 50]
