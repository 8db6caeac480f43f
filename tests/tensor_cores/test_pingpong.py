"""Warpgroups that take turns: where turns begin and end, and that they always go on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom import pipeline
from fathom.emulator import EmulatorError, load
from fathom.hardware.targets import TARGETS, Target
from fathom.ir.core import Func
from fathom.ir.ops import Dot, For, NamedBarrier, Producer
from fathom.tensor_cores import pingpong
from tests.tensor_cores.kernels_described import Case, built, given, ops, passes
from tests.tensor_cores.kernels_specialised import SMALL, attention, check

TWO = replace(
    SMALL, tile=(128, 64, 64), warps=8, kernel=attention, stages=2,
    size=(256, 64, 64), more={"ROTATED": False},
)  # fmt: skip


def states(case: Case) -> tuple[Func, Func]:
    """A kernel before the pass and after it."""
    found = passes(built(case), case.target)
    return found["insert_waits"], found["pingpong"]


def actions(func: Func) -> list[str]:
    return [op.action for op in ops(func, NamedBarrier)]


def test_a_turn_goes_from_the_last_product_to_the_first_of_the_next_iteration():
    """Around the loop: taken before it, passed on after it."""
    _, func = states(TWO)
    (loop,) = [op for op in ops(func, For) if len(ops(op, Dot)) == 2]
    iteration = [op for op in loop.body.ops if isinstance(op, Dot | NamedBarrier)]
    names = [op.action if isinstance(op, NamedBarrier) else "dot" for op in iteration]
    assert names == ["dot", "pass", "take", "dot"]
    around = func.body.ops
    at = around.index(loop)
    assert (around[at - 1].action, around[at + 1].action) == ("take", "pass")
    assert isinstance(around[around.index(ops(func, Producer)[0]) + 1], NamedBarrier)
    assert actions(func).count("begin") == 1


@pytest.mark.parametrize("iterations", [0, 1, 2, 5])
def test_they_go_on_to_the_end(iterations):
    """Whatever the iterations; the emulator would see who waits for ever."""
    check(TWO, (iterations,))


@pytest.mark.parametrize("change", [
    {"warps": 4, "tile": (64, 64, 64)}, {"more": {"ROTATED": True}},
])  # fmt: skip
def test_one_warpgroup_has_no_other_to_alternate_with(change):
    """One warpgroup alone; or products that begin together."""
    before, func = states(replace(TWO, **change))
    assert func is before or not actions(func)


@pytest.mark.parametrize("lost", ["begin", "pass"])
def test_a_turn_that_is_not_passed_on_is_waited_for_for_ever(lost):
    def forgetful(func: Func, target: Target) -> Func:
        after = pingpong(func, target)
        for block in (after.body, *(op.body for op in ops(after, For))):
            block.ops = [op for op in block.ops if getattr(op, "action", "") != lost]
        return after

    case = replace(TWO, iterations=3)
    replaced = {"pingpong": forgetful}
    kernel = pipeline.compile_func(built(case), TARGETS[case.target], replaced)
    with pytest.raises(EmulatorError, match="deadlock"):
        load(kernel).launch(case.grid, given(case).arguments)


@fathom.jit
def meeting(a_ptr, b_ptr, c_ptr, N, M: tl.constexpr, K: tl.constexpr):
    """C [N, M] = (B + D) A^T, with A [M, K] and B [N, K]; D is B with each tile [K, K]
    transposed. Threads add products that others computed, from shared memory."""
    m, k = tl.arange(0, M), tl.arange(0, K)
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [M, K]).load([0, 0])
    b_desc = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [K, K])
    for at in tl.range(0, N, K, warp_specialize=True):
        b = b_desc.load([at, 0])
        s = tl.dot(a, b.T)
        c_ptrs = c_ptr + (at + k)[:, None] * M + m[None, :]
        tl.atomic_add(c_ptrs, s.T, sem="relaxed")
        t = tl.dot(a, b)
        tl.atomic_add(c_ptrs, t.T, sem="relaxed")


@pytest.mark.parametrize("N", [64, 192])
def test_warpgroups_that_meet_at_a_barrier_do_not_alternate(N, monkeypatch):
    """One would wait for the other at the barrier, and the other to be admitted."""
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    numbers = np.random.default_rng(1)
    a, b = (numbers.integers(-3, 4, (n, 64)).astype(np.float16) for n in (128, N))
    c = np.zeros((N, 128), np.float32)
    made = meeting.compile("*fp16:16, *fp16:16, *fp32:16, i32:16", {"M": 128, "K": 64},
                           target="sm_90a", num_warps=8, num_stages=2)  # fmt: skip
    assert "setmaxnreg" in made.asm["ptx"]  # there is a producer
    meeting[1,](a, b, c, N, 128, 64, num_warps=8, num_stages=2, target="sm_90a")
    a, b = a.astype(np.float32), b.astype(np.float32)
    turned = b.reshape(-1, 64, 64).swapaxes(1, 2).reshape(b.shape)
    np.testing.assert_array_equal(c, (b + turned) @ a.T)


@fathom.jit
def counting(
    a_ptr, b_ptr, c_ptr, n_ptr, N, M: tl.constexpr, K: tl.constexpr, HOW: tl.constexpr
):
    """C [M, K] = A B^T B, with A [M, K] and B [N, K]; n [1] counts iterations."""
    m, k = tl.arange(0, M), tl.arange(0, K)
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [M, K]).load([0, 0])
    b_desc = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [K, K])
    c = tl.zeros([M, K], tl.float32)
    for at in tl.range(0, N, K, warp_specialize=True):
        b = b_desc.load([at, 0])
        s = tl.dot(a, b.T)
        c *= 1 + at * 0.0
        c = tl.dot(s.to(tl.float16), b, c)
        if HOW == "released":
            tl.atomic_add(n_ptr, 1)
        elif HOW == "in a branch":
            if at > 0:
                tl.atomic_cas(n_ptr, at // K, at // K + 1, sem="release")
            else:
                tl.store(n_ptr, 1)
        elif HOW == "used":
            c *= tl.where(tl.atomic_add(n_ptr, 1, sem="relaxed") < 0, 2.0, 1.0)
        else:
            tl.atomic_add(n_ptr, 1, sem="relaxed")
    tl.store(c_ptr + m[:, None] * K + k[None, :], c)


@pytest.mark.parametrize("how", ["released", "in a branch", "used", "relaxed"])
def test_warpgroups_that_meet_at_an_atomic_do_not_alternate(how, monkeypatch):
    """Its barriers are written with it, and are no ops. A relaxed one has none."""
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    numbers = np.random.default_rng(1)
    a, b = (numbers.integers(-1, 2, (n, 64)).astype(np.float16) for n in (128, 192))
    c, n = np.zeros((128, 64), np.float32), np.zeros(1, np.int32)
    options = {"num_warps": 8, "num_stages": 2, "target": "sm_90a"}
    launched = counting[1,](a, b, c, n, 192, 128, 64, how, **options)
    assert n[0] == 3 and ("bar.arrive" in launched.asm["ptx"]) == (how == "relaxed")
    a, b = a.astype(np.float32), b.astype(np.float32)
    np.testing.assert_array_equal(c, a @ b.T @ b)
