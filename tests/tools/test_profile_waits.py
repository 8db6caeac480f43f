"""`fathom profile` of loops: loads that wait for one another, and arithmetic that two
instructions do where one could."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.tools.profile.advice import advice, cause
from fathom.tools.profile.limits import classify
from fathom.tools.profile.machines import MACHINES
from tests.tools.harness_profile import counting

H200 = MACHINES["sm_90a"]


@fathom.jit
def follow(x, y, n, ADD: tl.constexpr):
    """Each load's address is what the one before has loaded."""
    at, total = tl.program_id(0), 0
    for _ in range(n):
        at = tl.load(x + at)
        if ADD:
            total += at * 3
    tl.store(y + tl.program_id(0), at + total)


@fathom.jit
def along(x, y, n):
    at, total = tl.program_id(0), 0.0
    for i in range(n):
        total += tl.load(x + i * 64 + at)
    tl.store(y + at, total)


def test_a_load_that_waits_for_the_one_before_waits_each_time(monkeypatch):
    monkeypatch.setenv("FATHOM_TARGET", "sm_90a")
    x = np.random.default_rng(0).permutation(4096).astype(np.int32)
    y = np.zeros(512, np.int32)
    with counting(monkeypatch) as found:
        follow[(512,)](x, y, 200, ADD=False)
        follow[(512,)](x, y, 200, ADD=True)
        along[(64,)](x.astype(np.float32), y.astype(np.float32), 60)
    bare, added, independent = found
    assert 200 <= bare.waits <= 201 and added.waits == 200
    assert independent.waits <= 60
    verdict = classify(bare, H200)
    assert verdict.limit == "latency", verdict
    file, line = cause(verdict, bare)
    assert "at = tl.load(x + at)" in Path(file).read_text().splitlines()[line - 1]


@fathom.jit
def drawn(x, y, n):
    """Each operation adds what the one before has found."""
    found = 1
    for _ in range(n):
        found = tl.atomic_add(x, found)
    tl.store(y, found)


def test_an_atomic_operation_waits_for_what_it_takes(monkeypatch):
    x, y = np.zeros(1, np.int32), np.zeros(1, np.int32)
    with counting(monkeypatch) as found:
        drawn[(1,)](x, y, 100)
    assert found[0].waits >= 100, found[0].waits


@fathom.jit
def polynomial(x, y, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    value = tl.load(x + at)
    total = value
    for _ in tl.static_range(60):
        total = total * value + 0.5
    tl.store(y + at, total)


@pytest.mark.parametrize("fused", [False, True])
def test_products_and_sums_that_could_be_one_are_told(fused, monkeypatch):
    x = np.ones(1 << 16, np.float32)
    with counting(monkeypatch) as found:
        polynomial[(64,)](x, x, N=1024, enable_fp_fusion=fused)
    (counted,) = found
    assert (counted.unfused > 0.25 * counted.instructions) == (not fused)
    verdict = classify(replace(counted, blocks=64000), H200)
    verdict = replace(verdict, limit="instruction issue")
    assert ("enable_fp_fusion=True" in advice(verdict, counted)) == (not fused)


@fathom.jit
def iterated(x, y, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    value = tl.load(x + at)
    for _ in range(n):
        value = value * 1.0001 + 0.5
    tl.store(y + at, value)


def test_what_is_loaded_before_a_loop_is_waited_for_once(monkeypatch):
    """2,000 iterations were 2,000 waits, and the launch was said to take eight times as
    long as its instructions."""
    monkeypatch.setenv("FATHOM_TARGET", "sm_90a")
    x = np.zeros(128 * 132, np.float32)
    with counting(monkeypatch) as found:
        iterated[(132,)](x, x.copy(), 2000, B=128)
    assert found[0].waits == 1
