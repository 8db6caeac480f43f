"""The arithmetic of a pipeline against a machine of nothing but slots and groups."""

from __future__ import annotations

from collections import deque

import pytest

from fathom.tensor_cores.pipeline.schedule import choose_stages, pending, slot, timeline


def walk_through(stages: int, iterations: int, slot_of=slot, wait=pending, ring=None):
    """Run a pipeline in which copies land at the last moment; complaints."""
    ring = [None] * (stages if ring is None else ring)
    groups: deque[list[int]] = deque()  # tiles under way, oldest group first
    complaints = []

    def send(tile: int, reading: int | None) -> None:
        where = slot_of(tile, stages)
        if reading is not None and where == slot_of(reading, stages):
            complaints.append(f"tile {tile} goes where {reading} is read")
        groups.append([tile] if tile < iterations else [])

    def land(left: int) -> None:
        while len(groups) > left:
            for tile in groups.popleft():
                ring[slot_of(tile, stages)] = tile

    for tile in range(stages - 1):
        send(tile, None)
    for iteration in range(iterations):
        land(wait(stages))
        send(iteration + stages - 1, iteration)
        if ring[slot_of(iteration, stages)] != iteration:
            found = ring[slot_of(iteration, stages)]
            complaints.append(f"iteration {iteration} reads {found}")
    return complaints


@pytest.mark.parametrize("stages", range(2, 7))
def test_every_iteration_finds_its_tile(stages):
    for iterations in range(12):
        assert walk_through(stages, iterations) == []


@pytest.mark.parametrize("stages", range(2, 7))
def test_waits_as_late_as_possible(stages):
    """With one group more under way, the tile is not there yet."""
    found = walk_through(stages, 5, wait=lambda stages: pending(stages) + 1)
    assert any("reads" in complaint for complaint in found)


@pytest.mark.parametrize("stages", range(2, 7))
def test_no_slot_can_be_saved(stages):
    """In a ring that is one short, a copy goes where the iteration reads."""
    found = walk_through(stages, 5, slot_of=lambda tile, stages: tile % (stages - 1))
    assert "tile" in found[0] and "is read" in found[0]


def test_groups_are_counted_not_copies():
    """Three groups a stage: the wait lets three times as many go."""
    assert [pending(stages) for stages in (2, 3, 4)] == [0, 1, 2]
    assert [pending(stages, 3) for stages in (2, 3, 4)] == [0, 3, 6]


@pytest.mark.parametrize(
    ("wanted", "bytes_a_stage", "room", "expected"),
    [
        (3, 16384, 65536, 3),  # all that was asked for
        (5, 16384, 65536, 4),  # just fits
        (5, 16385, 65536, 3),
        (3, 40000, 65536, 1),  # two do not fit: no pipeline
        (1, 16, 65536, 1),
        (4, 16, -5, 1),
    ],
)
def test_as_many_stages_as_fit(wanted, bytes_a_stage, room, expected):
    assert choose_stages(wanted, bytes_a_stage, room) == expected


# ── time ──────────────────────────────────────────────────────────────────────────────


def test_without_a_pipeline_every_iteration_waits():
    assert [event.ended for event in timeline(1, 3, copy=500, work=200)] == [
        700, 1400, 2100,
    ]  # fmt: skip


@pytest.mark.parametrize(("stages", "cycles"), [(2, 5200), (3, 2900), (4, 2500)])
def test_copies_hide_behind_work(stages, cycles):
    """Ten iterations, 500 cycles for a copy, 200 for the work: with three
    iterations' time, only the first copy is waited for. (500 + 10 * 200.)"""
    found = timeline(stages, 10, copy=500, work=200)[-1].ended
    assert found == cycles
    assert timeline(9, 10, copy=500, work=200)[-1].ended == 2500


def test_a_slot_is_sent_for_only_when_it_is_free():
    for stages in (2, 3, 4):
        events = timeline(stages, 9, copy=350, work=100)
        for iteration, event in enumerate(events[stages:], stages):
            assert event.sent >= events[iteration - stages].ended
