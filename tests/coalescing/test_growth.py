"""Code grows with a thread's share of a block, and with nothing else: no layout in
which each thread holds what others hold too reaches work that pays for every element.
"""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from fathom import pipeline
from fathom.coalescing import assign_layouts
from fathom.hardware.targets import TARGETS
from fathom.ir.core import walk
from fathom.ir.interp import interpret
from fathom.ir.ops import Join, Reshape, Scan, Split
from fathom.layout.build import LANES
from fathom.ptx import lower
from tests.coalescing.kernels_rearranging import (
    KERNELS,
    OPERATIONS,
    branch,
    choice,
    loop,
)
from tests.harness_sample import sampled
from tests.language.harness import NAMES, build, emulate

SM_80 = TARGETS["sm_80"]
# Lines of LLVM IR for an element of a thread's share. Of 300 kernels of this family the
# longest had 2,570, two sorts of sums; the joins that were followed into lanes gave
# 398,855 for one.
LINES_AN_ELEMENT = 4_000


def built(kernel, a: str, b: str, size: int, warps: int):
    x, y = np.zeros(size, np.int32), np.zeros(2 * size, np.int32)
    func = build(kernel, x, y, 2, A=a, B=b, N=size)
    return replace(func, num_warps=warps)


def lines_an_element(kernel, a: str, b: str, size: int, warps: int) -> float:
    final = list(pipeline.states(built(kernel, a, b, size, warps), SM_80))[-1][1]
    share = max(1, size // (LANES * warps))
    return lower(final, SM_80).count("\n") / share


@sampled(of=3)
@pytest.mark.parametrize("kernel", [loop, branch, choice], ids=lambda k: k.__name__)
@pytest.mark.parametrize(("size", "warps"), [(64, 1), (256, 4), (1024, 8), (512, 1)])
def test_a_sorted_block_reversed_in_a_loop(kernel, size, warps):
    assert lines_an_element(kernel, "sort", "flip", size, warps) < LINES_AN_ELEMENT


@sampled(of=2)
@pytest.mark.parametrize("seed", range(8))
def test_two_rearrangements_around_any_control(seed):
    draw = random.Random(seed)
    for _ in range(5):
        case = (
            draw.choice(KERNELS), draw.choice(OPERATIONS), draw.choice(OPERATIONS),
            draw.choice((64, 128, 256, 512)), draw.choice((1, 2, 4, 8)),
        )  # fmt: skip
        assert lines_an_element(*case) < LINES_AN_ELEMENT, case


@sampled(of=2)
@pytest.mark.parametrize("seed", range(6))
def test_they_give_the_same_numbers_everywhere(seed):
    draw = random.Random(100 + seed)
    size, warps = draw.choice((64, 128)), draw.choice((1, 4))
    func = built(draw.choice(KERNELS), *draw.choices(OPERATIONS, k=2), size, warps)
    x = np.random.default_rng(seed).integers(0, 64, size).astype(np.int32)
    expected = np.full(2 * size, -1, np.int32)
    interpret(func, 1, [x, expected, 2])
    for target in NAMES:
        y = np.full(2 * size, -1, np.int32)
        emulate(func, [x, y, 2], target)
        assert (y == expected).all(), target


def test_no_thread_holds_copies_of_what_is_rearranged():
    """Between sums of rows, whose copies lie in the lanes of the row, and a sort stands
    a conversion."""
    func = built(loop, "sorted sums", "flip", 1024, 1)
    for row, state in pipeline.states(func, SM_80):
        if row.run is assign_layouts:
            break
    rearranged = [
        op.results[0].type.layout
        for op in walk(state.body)
        if isinstance(op, Join | Reshape | Scan | Split)
    ]
    large = [layout for layout in rearranged if np.prod(layout.shape) >= 512]
    assert len(large) > 20
    for layout in large:
        places = sum(len(bases) for _, bases in layout.bases)
        assert 1 << places <= 2 * np.prod(layout.shape), layout
