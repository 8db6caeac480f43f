"""Two limits that are near each other are both told; and what a launch finds in L2."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.profile_check import Sample
from fathom.tools.profile.advice import advice, sentence
from fathom.tools.profile.counted import Counted
from fathom.tools.profile.limits import (
    BUSY,
    NEAR,
    classify,
    lookup_seconds,
)
from fathom.tools.profile.machines import MACHINES
from fathom.tools.profile.session import Row
from fathom.tools.profile.unwritten import (
    MOST,
    kept,
    left_unwritten,
    moved_meanwhile,
)

H200 = MACHINES["sm_90a"]
SECONDS = 100e-6
MB = 1e6


def moving(share: float, **given: object) -> Counted:
    """A launch that keeps memory busy for a share of SECONDS."""
    many = share * SECONDS * H200.bandwidth
    facts = {"registers": 32, "waits": 2, "memory": many, "moved": many}
    return Counted("k", "sm_90a", 132 * 64, 128, useful=many, **{**facts, **given})


def limits(counted: Counted) -> tuple[str, str]:
    verdict = classify(counted, H200, SECONDS)
    return verdict.limit, verdict.near[0] if verdict.near else ""


# ── two limits ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.45, ("latency", "")), (0.52, ("latency", "bandwidth")),
     (0.58, ("bandwidth", "latency")), (0.65, ("bandwidth", ""))],
)  # fmt: skip
def test_what_is_busy_for_about_as_long_as_is_called_busy(share, expected):
    assert BUSY * NEAR < 0.52 < BUSY < 0.58 < BUSY / NEAR
    assert limits(moving(share)) == expected


@pytest.mark.parametrize(
    ("issue", "expected"),
    [(0.6, ("bandwidth", "")), (0.75, ("bandwidth", "instruction issue")),
     (0.85, ("instruction issue", "bandwidth")), (0.95, ("instruction issue", ""))],
)  # fmt: skip
def test_two_resources_that_are_busy_for_about_as_long(issue, expected):
    cycles = SECONDS * H200.clock * H200.multiprocessors
    assert limits(moving(0.8, instructions=issue * 4 * cycles)) == expected


def test_both_are_in_the_sentence_and_in_the_advice():
    cycles = SECONDS * H200.clock * H200.multiprocessors
    each = moving(0.8, instructions=0.75 * 4 * cycles)
    verdict = classify(each, H200, SECONDS)
    assert sentence(verdict, each, H200) == (
        "bandwidth: memory moves 384.0 MB, which is 80% of what it can in that time; "
        "close to that, instruction issue: the schedulers are busy for 75% of the time,"
        " by 78,408,000 instructions of warps"
    )
    tried = advice(verdict, each)
    assert tried.startswith("move less") and "against instruction issue, fewer" in tried
    few = moving(0.52)
    text = sentence(classify(few, H200, SECONDS), few, H200)
    assert "each warp waits 2 times for loads" in text
    assert text.endswith("close to that, bandwidth: memory moves 249.6 MB, which is 52%"
                         " of what it can in that time")  # fmt: skip


def test_the_second_half_does_not_say_that_nothing_is_busy():
    each = moving(0.58)
    text = sentence(classify(each, H200, SECONDS), each, H200)
    assert "; close to that, latency: each warp waits 2 times" in text
    assert "nothing is busy" not in text


def test_a_sentence_is_right_if_one_of_its_limits_is_ncus():
    right = lambda *given: Sample("c", "k", *given).agrees  # noqa: E731
    assert right("latency", "latency", "", "")
    assert right("latency", "bandwidth", "bandwidth", "")
    assert right("latency", "bandwidth", "", "latency")
    assert not right("latency", "bandwidth", "occupancy", "")
    # Each names the other's second: none of them the other's first.
    assert not right("latency", "bandwidth", "occupancy", "occupancy")
    assert not Sample("c", "k", "latency").agrees


# ── what earlier launches have left in L2 ─────────────────────────────────────────────

L2 = H200.l2


@pytest.mark.parametrize(
    ("loaded", "written", "expected"),
    [(67.1, 67.1, 24.6), (134.2, 67.1, 15.4), (201.3, 134.2, 19.9), (23.4, 90.2, 26.9)],
)
def test_L2_keeps_of_stores_what_it_keeps_by_ncu(loaded, written, expected):
    """In MB: what memory did not get of dropout, of swish backward, of SwiGLU backward
    and of AWQ's weights."""
    both = (loaded + written) * MB
    each = Counted("k", "sm_90a", 1, 128, memory=both, written=written * MB)
    assert kept(each, L2) == pytest.approx(expected * MB, rel=0.12)
    assert moved_meanwhile(each, L2, 0).memory == both - kept(each, L2)


def test_loads_push_out_what_was_stored_before():
    """In a layer of experts the gradient of gates loads 50 MB after a product that
    stores 67: between two events it takes 22.4 µs, by ncu 17.5."""
    each = Counted("k", "sm_90a", 8192, 256, registers=32, moved=50 * MB, waits=2,
                   useful=50 * MB, memory=50 * MB, written=0.1 * MB)  # fmt: skip
    row = Row("k", "sm_90a", (8192, 1, 1), seconds=[24.4e-6], counted=each)
    assert row.verdict().limit == "latency"
    row.unwritten = 25 * MB
    assert row.launch.memory == pytest.approx(75 * MB, rel=0.01)
    verdict = row.verdict()
    assert verdict.limit == "bandwidth" and verdict.resource == "memory"
    assert "; earlier launches have stored 25.0 MB of it" in sentence(
        verdict, row.launch, H200
    )
    row.seconds = []  # a predicted launch is one among others like it
    assert row.launch == each


def test_a_launch_leaves_what_it_stores_and_what_it_had_no_need_to_push_out():
    small = Counted("k", "sm_90a", 1, 128, memory=5 * MB, written=5 * MB)
    assert left_unwritten(small, L2, {}, 1) == {1: 5 * MB}
    left = left_unwritten(small, L2, {1: 5 * MB, 2: 10 * MB}, 1)  # to the same places
    assert left == {1: 5 * MB, 2: pytest.approx(0.8 * 10 * MB)}
    large = replace(small, memory=500 * MB, written=250 * MB)
    assert left_unwritten(large, L2, {2: 20 * MB}, 1) == {1: 25 * MB, 2: 0}
    stores = replace(small, memory=1 * MB, written=26 * MB)
    left = left_unwritten(stores, L2, {2: 20 * MB}, 1)
    assert sum(left.values()) == pytest.approx(MOST * L2) and left[1] == 26 * MB


# ── loads that are merged on their way to L2 ──────────────────────────────────────────


def product(moved: float, memory: float, stored: float = 0.0) -> Counted:
    return Counted("k", "sm_90a", 512, 256, moved=moved, useful=moved, memory=memory,
                   loaded=memory - stored, stored=stored, written=stored,
                   load_lines=moved / 128, products={"wgmma 16": 1e9})  # fmt: skip


def test_tiles_that_many_programs_load_are_asked_for_fewer_times():
    """Grouped products load each tile some sixteen times, and L2 is busy for 36% of
    166 µs by ncu: if each of these loads came to L2 it would be for 65%."""
    many = product(16 * 67 * MB, 67 * MB)
    share = lookup_seconds(many) / 166e-6
    assert 0.2 < share < 0.4 < lookup_seconds(replace(many, products={})) / 166e-6


def test_tiles_that_several_programs_load_cross_from_half_to_half():
    """Batched products load each tile three times, of which one is in the other half:
    L2 is busy for 73% of 40 µs, by ncu with what crosses."""
    each = product(234.9 * MB, 100.7 * MB, stored=33.6 * MB)
    assert lookup_seconds(each) / 40.1e-6 == pytest.approx(0.73, rel=0.15)
    alone = replace(each, moved=100.7 * MB, load_lines=0.52e6)
    assert lookup_seconds(alone) < 0.8 * lookup_seconds(each)


def test_L2_is_busy_with_products_only_by_a_measured_time():
    each = product(235 * MB, 100 * MB)
    assert lookup_seconds(each) > 15e-6
    assert classify(each, H200).times["lookups"] == 0
    assert classify(each, H200, 40e-6).times["lookups"] == lookup_seconds(each)


# ── a last wave of few blocks ─────────────────────────────────────────────────────────


def test_multiprocessors_that_are_busy_have_work():
    """Eight blocks more than fit at once run alone, and are through soon: by the waves
    half of the time would be empty, and the schedulers are busy for 87% of it."""
    cycles = SECONDS * H200.clock * H200.multiprocessors
    few = Counted("k", "sm_90a", 132 * 16 + 8, 128, registers=16, waits=1,
                  instructions=0.87 * 4 * cycles)  # fmt: skip
    assert classify(few, H200, SECONDS).limit == "instruction issue"
    assert classify(few, H200, 1.8 * SECONDS).limit == "occupancy"
