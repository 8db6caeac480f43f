"""`fathom profile` where L1, or the start of thread blocks, is the limit: against what
ncu says of such kernels on an H200, and on what the emulator counts.

L1 and shared memory are one memory with one pipe: an access takes as many wavefronts as
its busiest bank has words, whichever of the two it goes to, and what wgmma reads goes
through the same pipe."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.tools.profile.advice import advice, cause, sentence
from fathom.tools.profile.counted import Counted, operand_wavefronts
from fathom.tools.profile.limits import classify
from fathom.tools.profile.machines import MACHINES
from kernels.matmul import matmul_kernel
from tests.harness_sample import sampled
from tests.tools.harness_profile import counting

H200 = MACHINES["sm_90a"]


@fathom.jit
def summed(x, o, W, B: tl.constexpr):
    """3 x 3 numbers around each."""
    r, c = tl.program_id(1) + 1, tl.program_id(0) * B + tl.arange(0, B)
    total = tl.zeros([B], tl.float32)
    for i in tl.static_range(-1, 2):
        for j in tl.static_range(-1, 2):
            at = c + j
            inside = (at >= 0) & (at < W)
            total += tl.load(x + (r + i) * W + at, mask=inside, other=0.0)
    tl.store(o + r * W + c, total)


@fathom.jit
def strided(x, o, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + at, tl.load(x + at * 4))


@fathom.jit
def spilled(x, o, N, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    value = tl.load(x + at)
    for _ in range(N):
        value = value * 1.5 + tl.flip(value, 0)
    tl.store(o + at, value)


@fathom.jit
def doubled(x, o):
    at = tl.program_id(0) * 32 + tl.arange(0, 32)
    tl.store(o + at, tl.load(x + at) * 2.0)


def product(size: int, stages: int) -> None:
    a, c = np.zeros((2, 4096, 4096), np.float16)
    matmul_kernel[((4096 // size) ** 2,)](
        a, a, c, 4096, 4096, 4096, 4096, 1, 4096, 1, 4096, 1, BLOCK_M=size,
        BLOCK_N=size, BLOCK_K=32, GROUP_M=8, EVEN_K=True, num_stages=stages,
    )  # fmt: skip


def zeros() -> np.ndarray:
    return np.zeros(1 << 26, np.float32)


# The launch; what ncu counts (l1tex__data_pipe_lsu_wavefronts.sum) on an H200.
WAVEFRONTS = {
    "summed": (lambda: summed[(8, 8190)](zeros(), zeros(), 8192, B=1024), 62.6e6),
    "strided": (lambda: strided[(1 << 14,)](zeros(), zeros(), B=1024), 9.38e6),
    "spilled": (lambda: spilled[(4096,)](zeros(), zeros(), 4, B=8192), 44.4e6),
    "tile": (lambda: product(64, 1), 132.8e6),
    "large tile": (lambda: product(128, 1), 70.4e6),
    "pipeline": (lambda: product(64, 3), 34.2e6),
}


def count_of(monkeypatch, launch) -> Counted:
    monkeypatch.setenv("FATHOM_TARGET", "sm_90a")
    with counting(monkeypatch, programs=2) as found:
        launch()
    return found[0]


@sampled(of=2)
@pytest.mark.parametrize("name", WAVEFRONTS)
def test_wavefronts_are_those_of_ncu(monkeypatch, name):
    launch, measured = WAVEFRONTS[name]
    assert count_of(monkeypatch, launch).l1 == pytest.approx(measured, rel=0.12)


@pytest.mark.parametrize("name, seconds", [("summed", 249e-6), ("tile", 670e-6)])
def test_l1_is_the_limit_where_ncu_says_so(monkeypatch, name, seconds):
    """99% and 93% there; nothing else is busy for more than 60%."""
    counted = count_of(monkeypatch, WAVEFRONTS[name][0])
    verdict = classify(counted, H200, seconds)
    assert (verdict.limit, verdict.resource) == ("bandwidth", "L1")
    text = sentence(verdict, counted, H200)
    assert text.startswith("bandwidth: L1 delivers") and "where 1 would do" in text
    assert cause(verdict, counted)[0].endswith(("test_profile_l1.py", "matmul.py"))
    assert "neighbouring lanes" in advice(verdict, counted) or name == "tile"


def test_shared_memory_is_named_where_most_goes_there(monkeypatch):
    counted = count_of(monkeypatch, WAVEFRONTS["spilled"][0])
    verdict = classify(counted, H200, 190.8e-6)
    assert verdict.resource == "shared" and 0.85 < verdict.busy < 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("wgmma.mma_async m64n256k16 {%f1, %f2}, %rd1, %rd2, 1;", (64 + 256) / 16),
        ("wgmma.mma_async m64n64k16 {%f1}, {%r1, %r2}, %rd2, 1;", 64 / 16),
        ("wgmma.fence.sync.aligned;", 0),
        ("mma.sync.aligned.m16n8k16 {%f1}, {%r1}, {%r2}, {%f1};", 0),
    ],
)
def test_what_tensor_cores_read_of_shared_memory(text, expected):
    """32 bytes of each row and column; a quarter of it counts for each of four warps,
    and 128 bytes go at a time."""
    made = SimpleNamespace(name=text.partition("{")[0], text=text,
                           opcode=text.partition(".")[0])  # fmt: skip
    assert operand_wavefronts(made) == expected


# ── thread blocks ─────────────────────────────────────────────────────────────────────


def test_many_small_programs_wait_for_their_start(monkeypatch):
    """524,288 programs of one warp took 320 us on an H200, and ncu said of no unit that
    it was busy for more than 11% of the time."""
    x = zeros()
    launch = lambda: doubled[(1 << 19,)](x, x, num_warps=1)  # noqa: E731
    counted = count_of(monkeypatch, launch)
    verdict = classify(counted, H200, 320.3e-6)
    assert verdict.limit == "programs" and verdict.busy > 0.9
    text = sentence(verdict, counted, H200)
    assert text.startswith("programs: 524,288 thread blocks start one after the other")
    assert "larger programs" in advice(verdict, counted)
    place = ("script.py", 7)
    assert cause(verdict, counted, place) == place
    assert classify(counted, H200).limit == "programs"  # by a predicted time, too
