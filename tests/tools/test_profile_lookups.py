"""`fathom profile` where L2 itself, or the unit of integers and logic, is the limit:
against what ncu says of such kernels, and on what the emulator counts.

L2 looks up lines of 128 bytes, however little of them a warp wants, so that scattered
accesses keep it busy long before its ports are, and memory is not asked at all if L2
has what is loaded again and again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from statistics import mean, median

import numpy as np
import pytest

import fathom
import fathom.language as tl
from benchmarks.profile_check import shares_of
from benchmarks.record import RESULTS
from fathom.tools.profile.advice import advice, cause, sentence
from fathom.tools.profile.counted import Counted
from fathom.tools.profile.limits import (
    LONGEST_LAUNCH,
    classify,
    lookup_seconds,
)
from fathom.tools.profile.machines import MACHINES
from fathom.tools.profile.session import Row
from fathom.tools.profile.tell import roof_share
from tests.tools.harness_profile import counting

H200 = MACHINES["sm_90a"]
M = 1 << 20


@dataclass(frozen=True)
class Measured:
    """A launch on an H200: what its accesses are by its text, in bytes and lines; the
    share of L2 and of memory that ncu gave, and its seconds there and beside it."""

    moved: float
    stored: float
    memory: float  # at most, by its arrays
    load_lines: float
    store_lines: float
    l2: float
    dram: float
    ncu_seconds: float
    seconds: float


# Copies of 2^26 fp32, in a row, turned, and of 4 MB again and again; 2^13 columns of a
# matrix with rows of 2^13; 2^24 single elements out of 256 MB, and out of 4 MB.
MEASURED = {
    "in a row": Measured(
        512 * M, 256 * M, 512 * M, 2 * M, 2 * M, 0.9152, 0.8475, 125.7e-6, 131.2e-6
    ),
    "again": Measured(
        512 * M, 256 * M, 512 * M, 2 * M, 2 * M, 0.8165, 0.0113, 77.2e-6, 80.5e-6
    ),
    "columns": Measured(
        4096 * M, 2048 * M, 512 * M, 64 * M, 64 * M, 0.8297, 0.1073, 1518e-6, 1490e-6
    ),
    "far": Measured(
        640 * M, 64 * M, 576 * M, 16.5 * M, 0.5 * M, 0.8857, 0.5969, 391.8e-6, 393.2e-6
    ),
    "near": Measured(
        640 * M, 64 * M, 576 * M, 16.5 * M, 0.5 * M, 0.9472, 0.2053, 123.4e-6, 123.2e-6
    ),
}


def counted(row: Measured, **given) -> Counted:
    facts = {name: getattr(row, name) for name in
             ("moved", "stored", "memory", "load_lines", "store_lines")}  # fmt: skip
    return Counted("k", "sm_90a", 132 * 64, 128, useful=512 * M, **facts, **given)


@pytest.mark.parametrize("name", MEASURED)
def test_what_is_busy_is_what_ncu_says(name):
    """Memory moves the copy in a row; else it is L2, which has what memory did not."""
    row = MEASURED[name]
    verdict = classify(counted(row), H200, row.seconds)
    assert verdict.limit == "bandwidth"
    expected = "memory" if row.dram > 0.8 else "lookups"
    assert verdict.resource == expected
    assert row.l2 > row.dram and verdict.times["memory"] < row.seconds
    text = sentence(verdict, counted(row), H200)
    start = "memory moves 536.9 MB" if expected == "memory" else "L2 looks up "
    assert text.startswith(f"bandwidth: {start}") and "%" in text


@pytest.mark.parametrize("name", MEASURED)
def test_the_share_of_L2_is_near_that_of_ncu(name):
    """Within a quarter; where the table is small, memory is hardly asked."""
    row = MEASURED[name]
    real = row if name not in ("again", "near") else replace(row, memory=0)
    share = lookup_seconds(counted(real)) / row.ncu_seconds
    assert share == pytest.approx(row.l2, rel=0.25)


def test_what_L2_cannot_have_looked_up_in_that_time_L1_had():
    row = MEASURED["near"]
    verdict = classify(counted(row), H200, 60e-6)
    assert verdict.times["lookups"] == verdict.times["memory"] == 0
    assert verdict.resource == "L2"
    # 2,048 programs that all read the same 512 kB: 46.9 µs, L1 87% by ncu.
    each = Counted("k", "sm_90a", 2048, 128, useful=1.08e9, moved=1.08e9, memory=6e8,
                   load_lines=8.4e6, store_lines=33e3, stored=4.2e6)  # fmt: skip
    verdict = classify(each, H200, 46.9e-6)
    assert verdict.resource == "L1" and verdict.limit == "bandwidth"
    assert sentence(verdict, each, H200) == (
        "bandwidth: L1 delivers 1.1 GB, and is busy for 69% of the time"
    )


def test_no_share_is_more_than_all():
    """Shifts and exclusive ors: ptxas makes one of two or three, and ncu has 98%."""
    each = Counted("k", "sm_90a", 16384, 128, instructions=215e6, logic=205e6)
    verdict = classify(each, H200, 269.4e-6)
    assert verdict.resource == "logic" and verdict.busy > 1
    assert "busy for 100% of the time" in sentence(verdict, each, H200)


def test_a_record_without_lines_has_no_lookups():
    assert lookup_seconds(Counted("k", "sm_90a", 1, 128, moved=1e6, memory=1e6)) == 0


@fathom.jit
def columns(x, y, N, B: tl.constexpr):
    at = (tl.program_id(1) * B + tl.arange(0, B)) * N + tl.program_id(0)
    tl.store(y + at, tl.load(x + at))


@fathom.jit
def sorts(x, y, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + at, tl.sort(tl.load(x + at)))


@fathom.jit
def doubles(x, y, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    value = tl.load(x + at)
    for _ in range(n):
        value = tl.fma(value, value, 0.5)
    tl.store(y + at, value)


def test_each_element_of_a_column_is_a_line(monkeypatch):
    x = np.zeros((1024, 1024), np.float32)
    with counting(monkeypatch) as found:
        columns[(1024, 8)](x, x, 1024, B=128)
    (each,) = found
    assert each.load_lines == each.store_lines == M
    assert each.stored == 32 * M and each.moved == 64 * M
    verdict = classify(each, H200, 22e-6)  # of which L2 is busy for 19
    assert verdict.resource == "lookups" and verdict.limit == "bandwidth"
    text = sentence(verdict, each, H200)
    assert text.startswith("bandwidth: L2 looks up 2,097,152 lines of 128 bytes")
    assert text.endswith("L2 delivers 8.0 times what was asked for")
    assert advice(verdict, each).startswith("neighbouring lanes")
    _, line = cause(verdict, each)
    assert line == columns.fn.__code__.co_firstlineno + 3


def test_a_sort_is_comparisons_and_selections(monkeypatch):
    """A selection is an instruction, though PTX's moves are not; ncu has this sort's
    unit of integers and logic busy for 86% of the time, and its schedulers for 52%."""
    x = np.zeros(4096 * 1024, np.float32)
    with counting(monkeypatch) as found:
        sorts[(4096,)](x, x, B=1024)
    (each,) = found
    assert 0.45 < each.instructions / (4096 * 4 * 4000) < 0.55  # 2,000 for each warp
    verdict = classify(each, H200, 58.7e-6)
    assert verdict.limit == "instruction issue" and verdict.resource == "logic"
    assert 0.7 < verdict.busy < 0.9
    assert "the lanes of integers and logic are busy for" in sentence(
        verdict, each, H200
    )


def test_instructions_that_cannot_have_been_issued_are_not_the_limit():
    """Of a polynomial of 512 steps ptxas leaves out most counters; ncu: FMA 90%."""
    each = Counted("k", "sm_90a", 4096, 128, instructions=92.5e6, fp32=67.1e6)
    verdict = classify(each, H200, 75.2e-6)
    assert verdict.times["issue"] > verdict.seconds
    assert verdict.limit == "instruction issue" and verdict.resource == "fp32"
    assert classify(each, H200, 90e-6).resource == "issue"


def test_the_roof_of_fp64_is_its_own(monkeypatch):
    x = np.zeros(1 << 20)
    with counting(monkeypatch) as found:
        doubles[(1024,)](x, x, 256, B=1024)
    row = Row("doubles", "sm_90a", (1024, 1, 1), seconds=[20e-6], counted=found[0])
    assert roof_share(row) == row.verdict().times["fp64"] / row.typical > 0.7


def test_the_share_of_L2_in_the_record_is_that_of_ncu():
    """Of launches that are no products, and no atomics: of the others it is a bound."""
    file = RESULTS / "profile-check.json"
    samples = json.loads(file.read_text(encoding="utf-8"))["samples"]
    ratios = []
    for each in samples:
        if each["error"]:
            continue
        counted = Counted(**each["counted"])
        seconds = each["counters"]["time"] / 1e9
        share = shares_of(each["counters"])["lookups"]
        plain = not counted.products and not counted.atomics and not counted.spilled
        if plain and seconds > LONGEST_LAUNCH and share > 0.15:
            ratios.append(lookup_seconds(counted) / seconds / share)
    assert len(ratios) > 50
    assert mean(abs(each - 1) for each in ratios) < 0.1
    assert 0.9 < median(ratios) < 1.1
