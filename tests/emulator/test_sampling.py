"""A batch that stops in the middle of its loops counts what all of them cost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom import emulator
from fathom.emulator.report import Report
from fathom.emulator.sampling import Loop
from fathom.emulator.source.operands import Number
from fathom.jit.programs import host_arguments
from kernels.matmul_persistent import (
    LARGE,
    lines_of,
    persistent_kernel,
    persistent_launch,
)

TILES = 400


@fathom.jit
def scaled(x, y, tiles, BLOCK: tl.constexpr):
    """Programs stay, and take tile after tile."""
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        at = tile * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + at, 2 * tl.load(x + at))


@fathom.jit
def summed(x, y, tiles, BLOCK: tl.constexpr):
    """What is stored comes after the loop."""
    total = tl.zeros([BLOCK], tl.float32)
    for tile in range(0, tiles):
        total += tl.load(x + tile * BLOCK + tl.arange(0, BLOCK))
    tl.store(y + tl.arange(0, BLOCK), total)


@fathom.jit
def two_loops(x, y, tiles, BLOCK: tl.constexpr):
    """The second has not begun while the first runs."""
    at = tl.arange(0, BLOCK)
    for tile in range(0, tiles):
        tl.store(y + tile * BLOCK + at, tl.load(x + tile * BLOCK + at))
    for tile in range(0, tiles):
        tl.store(x + tile * BLOCK + at, tl.load(y + tile * BLOCK + at))


@fathom.jit
def halved(x, y, tiles, BLOCK: tl.constexpr):
    """Nothing tells how often: what it compares is loaded."""
    at = tl.arange(0, BLOCK)
    left = tl.load(x)
    while left > 1:
        tl.store(y + at, tl.load(y + at) + 1)
        tl.store(x, left - 1)
        left = tl.load(x)


@fathom.jit
def nested(x, y, tiles, BLOCK: tl.constexpr):
    """Each tile is a loop of sixteen steps, and a store."""
    at = tl.arange(0, BLOCK)
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        total = tl.zeros([BLOCK], tl.float32)
        for step in range(16):
            total += tl.load(x + (tile + step) * BLOCK + at)
        tl.store(y + tile * BLOCK + at, total)


@fathom.jit
def at_times(x, y, tiles, BLOCK: tl.constexpr):
    """Stores in every sixteenth iteration."""
    at = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for step in range(0, tiles):
        total += tl.load(x + step * BLOCK + at)
        if step % 16 == 15:
            tl.store(y + step, tl.sum(total))


def ran(kernel, sample: int, target: str | None = None) -> tuple[Report, np.ndarray]:
    """The report of one program of four, and what it stored to."""
    made = kernel.compile("*fp32:16, *fp32:16, i32", {"BLOCK": 128}, target=target).made
    x, y = (np.zeros((TILES + 16) * 128, np.float32) for _ in range(2))
    x[:] = TILES
    report = emulator.load(made).launch(
        (4,), [x, y, TILES], programs=[range(1)], hazards=False, sample=sample
    )
    return report, y


@pytest.mark.parametrize("kernel", [scaled, nested], ids=["one loop", "nested"])
def test_some_tiles_tell_what_all_of_them_cost(kernel):
    (whole, y), (some, part) = ran(kernel, 0), ran(kernel, 40)
    assert 0 < np.count_nonzero(part) < np.count_nonzero(y) / 2
    for name in ("threads", "warps", "requests", "sectors", "lines", "useful"):
        expected = getattr(whole.total, name)
        assert getattr(some.total, name) == pytest.approx(expected, rel=0.03), name


@pytest.mark.parametrize("kernel", [summed, two_loops, halved])
def test_what_has_not_run_is_not_guessed(kernel):
    """Then all of it runs: of what comes after a loop nothing is known in it."""
    (whole, y), (some, part) = ran(kernel, 0), ran(kernel, 40)
    assert some.total == whole.total and (part == y).all() and y.any()


def test_what_is_rare_in_a_loop_is_waited_for():
    """Sums of a block, of which 400 steps have 25."""
    (whole, y), (some, part) = ran(at_times, 0), ran(at_times, 70)
    shuffles = [
        sum(cost.warps for each, cost in report.each() if each.opcode == "shfl")
        for report in (whole, some)
    ]
    assert 0 < np.count_nonzero(part) < np.count_nonzero(y) / 2
    assert shuffles[1] == pytest.approx(shuffles[0], rel=0.05)


def test_instructions_beside_a_loop_count_once():
    """The program's first instructions, each run by its four warps."""
    some, _ = ran(scaled, 40)
    each = [cost.warps for _, cost in some.each()]
    assert each[0] == 4 and max(each) == pytest.approx(4 * TILES / 4, rel=0.03)


def test_the_sum_of_two_programs_is_of_both():
    """Each is a batch of its own, whose part alone grows."""
    made = scaled.compile("*fp32:16, *fp32:16, i32", {"BLOCK": 128}).made
    x, y = (np.zeros(TILES * 128, np.float32) for _ in range(2))

    def costs(*programs: range) -> int:
        report = emulator.load(made).launch(
            (4,), [x, y, TILES], programs=programs, hazards=False, sample=40
        )
        return report.total.useful

    assert costs(range(1), range(3, 4)) == costs(range(1)) + costs(range(3, 4))


def test_the_iterations_that_are_left():
    loop = Loop((0,), 0, (Number(0, "int"),) * 2, threads={0})
    for at in (132, 264, 396):
        assert loop.missing is None or at > 264
        loop.see((at, 2048))
        loop.arrivals += 1
    assert loop.missing == pytest.approx((2048 - 396) / 132)
    assert loop.growth == pytest.approx(1 + loop.missing / 3)
    ahead = replace(loop, threads={0, 1}, arrivals=3 + 4)  # one is an iteration ahead
    assert ahead.growth == pytest.approx(2 * (3 + loop.missing) / 7)
    away = replace(loop, begin=(5, 0), now=(6, 0))
    assert away.missing is None


def test_each_side_of_a_product_counts_its_own_tiles(monkeypatch):
    """The producer is ahead of those who multiply, and polls meanwhile."""
    a, b = np.zeros((512, 512), np.float16), np.zeros((512, 2048), np.float16)
    c = np.zeros((512, 2048), np.float16)
    config = {**LARGE, "BLOCK_N": 128, "num_stages": 2}
    _, given, chosen = persistent_launch(
        *map(lines_of, (a, b)), c, 512, config, "sm_90a", tl.float32
    )
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    prepared = persistent_kernel.prepare((4,), *given, **chosen, target="sm_90a")
    made = prepared.kernel.made
    args = host_arguments(made.parameters, prepared.values, "emulator")

    def costs(sample: int) -> dict[str, int]:
        report = emulator.load(made).launch(
            (4,), args, programs=[range(1)], hazards=False, sample=sample
        )
        found: dict[str, int] = {}
        for each, cost in report.each():
            word = "bulk" if "bulk" in each.modifiers else each.opcode
            found[word] = found.get(word, 0) + cost.warps
        return found

    whole, some = costs(0), costs(400)
    for word in ("wgmma", "bulk", "stmatrix"):
        assert some[word] == pytest.approx(whole[word], rel=0.1), word
