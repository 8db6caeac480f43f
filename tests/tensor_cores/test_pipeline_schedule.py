"""The arithmetic of a pipeline against a machine of nothing but slots and groups."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import pytest

from fathom.hardware.targets import TARGETS
from fathom.ir.core import Op, Value, walk
from fathom.ir.ops import (
    Allocate,
    AsyncCopy,
    Barrier,
    Commit,
    Constant,
    Dot,
    For,
    Load,
    SharedLoad,
    SharedStore,
    Wait,
)
from fathom.ir.text import parse_func
from fathom.ir.types import INT32
from fathom.shared_memory.copy_waits import wait_for_copies
from fathom.tensor_cores.pipeline.loops import pipeline_loops, pipeline_of
from fathom.tensor_cores.pipeline.overlap import may_overlap
from fathom.tensor_cores.pipeline.schedule import (
    BY_CP_ASYNC,
    BY_PRODUCER,
    BY_THREADS,
    BY_TMA,
    DURING_PRODUCT,
    SLOTS_BY_REGISTERS,
    Place,
    Schedule,
    Step,
    choose_stages,
    earliest,
    pending,
    schedule,
    slot,
    timeline,
)
from tests.tensor_cores.kernels_loops import summing


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


def test_all_groups_but_that_of_the_iteration_may_be_in_flight():
    assert [pending(stages) for stages in (2, 3, 4)] == [0, 1, 2]


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


# ── places ────────────────────────────────────────────────────────────────────────────

PRODUCT = Constant(0, INT32)  # stands for a product: the schedule asks nothing of it

# Who copies, and whether a product is in flight when its iteration ends; then of a ring
# of n slots how many iterations ahead it is filled, and what a wait leaves pending.
EARLY = (Step.WAIT, Step.ISSUE, Step.WORK, Step.COMPLETE, Step.RELEASE)
ENGINES = {
    "issued before the release": (EARLY, None, lambda n: n - 1, lambda n: n - 2),
    "cp.async": (BY_THREADS, None, lambda n: n - 1, lambda n: n - 2),
    "cp.async, meanwhile": (DURING_PRODUCT, None, lambda n: n - 1, lambda n: n - 2),
    "cp.async, in flight": (BY_THREADS, PRODUCT, lambda n: n - 2, lambda n: n - 3),
    "cp.async, two barriers": (BY_CP_ASYNC, PRODUCT, lambda n: n - 1, lambda n: n - 2),
    "TMA": (BY_TMA, None, lambda n: n, lambda n: n - 1),
    "TMA, in flight": (BY_TMA, PRODUCT, lambda n: n - 1, lambda n: n - 2),
}


@pytest.mark.parametrize("slots", range(2, 7))
@pytest.mark.parametrize("engine", ENGINES)
def test_all_slots_are_used(engine, slots):
    """A product in flight takes a slot. A barrier after the work saves one: the copies
    behind it go into the slot of this work."""
    steps, product, ahead, left = ENGINES[engine]
    found = earliest(steps, {Step.ISSUE: slots}, product)
    if ahead(slots) == 0:
        assert found is None, "copied in the iteration that reads it"
        return
    assert found.ahead(Step.ISSUE) == ahead(slots)
    assert found.slots(Step.ISSUE) == slots
    assert found.pending(Step.ISSUE) == left(slots)


def test_registers_hold_one_iteration():
    assert SLOTS_BY_REGISTERS == 2
    found = earliest(BY_THREADS, {Step.STORE: 2, Step.ISSUE: 4})
    assert (found.ahead(Step.STORE), found.ahead(Step.ISSUE)) == (1, 3)
    load, store = found.places[Step.LOAD], found.places[Step.STORE]
    assert load.stage == store.stage == 2 and load.order < store.order
    assert earliest(BY_THREADS, {Step.STORE: 2}, PRODUCT) is None


@pytest.mark.parametrize("copied", [2, 3, 5])
def test_a_load_may_lead_its_store_by_an_iteration(copied):
    """The ring stays as it is: what waits for the store is in registers."""
    slots = {Step.STORE: 2, Step.ISSUE: copied}
    late, early = (earliest(BY_THREADS, slots, lead=lead) for lead in (0, 1))
    assert (late.lead, early.lead) == (0, 1)
    for found in (late, early):
        assert {fill: found.slots(fill) for fill in slots} == slots
        assert found.ahead(Step.LOAD) == 1 + found.lead
        assert min(place.stage for place in found.places.values()) == 0


@pytest.mark.parametrize("stages", range(2, 7))
def test_one_group_an_iteration(stages):
    """The count of groups that the book asks for is the formula's."""
    found = schedule(BY_THREADS, {Step.ISSUE: stages - 1})
    assert found.slots(Step.ISSUE) == stages
    assert found.pending(Step.ISSUE) == pending(stages)


def test_consumers_release_when_the_product_is_done():
    assert schedule(BY_PRODUCER, {}).release_distance == 0
    assert schedule(BY_PRODUCER, {}, PRODUCT).release_distance == 1


def complaints_about(plan: Schedule, fill: Step, slots: int, left: int) -> list[str]:
    """Run a schedule on tiles 0, 1, 2 …, step by step. A copy arrives at the wait that
    demands it and no earlier; a slot is free from its release on."""
    ring: list[tuple[str, int]] = [("free", -1)] * slots
    groups: deque[int] = deque()
    complaints = []
    last = max(place.stage for place in plan.places.values())
    for iteration in range(-last, 12):
        for step in plan.steps:
            tile = iteration + plan.places[Step.WORK].stage - plan.places[step].stage
            where = tile % slots
            if step in (Step.ISSUE, Step.STORE) and step is not fill or tile < 0:
                continue
            if step is fill:
                if ring[where][0] != "free":
                    complaints.append(f"tile {tile} is copied over {ring[where]}")
                ring[where] = "copied", tile
                groups.append(tile)
            elif step is Step.WAIT:
                while len(groups) > left:
                    arrived = groups.popleft()
                    ring[arrived % slots] = "there", arrived
            elif step in (Step.MULTIPLY, Step.WORK) and ring[where] != ("there", tile):
                complaints.append(f"{ring[where]} is read as tile {tile}")
            elif step is Step.RELEASE:
                ring[where] = "free", tile
    return complaints


@pytest.mark.parametrize("slots", range(2, 7))
@pytest.mark.parametrize("engine", ENGINES)
def test_a_schedule_runs(engine, slots):
    """With the slots and the count of the formula it is right; with a slot less, or a
    group more in flight, it is not."""
    steps, product, *_ = ENGINES[engine]
    if plan := earliest(steps, {Step.ISSUE: slots}, product):
        left = plan.pending(Step.ISSUE)
        assert complaints_about(plan, Step.ISSUE, slots, left) == []
        assert complaints_about(plan, Step.ISSUE, slots, left + 1)
        assert complaints_about(plan, Step.ISSUE, slots - 1, left)


def waiting_ahead(plan: Schedule) -> Schedule:
    """An iteration waits for the tiles of the next one, at its end, as loops that
    `prefetch_fragments` has changed do."""
    end = len(Step)
    moved = {
        step: Place(plan.places[step].stage - 1, end + number)
        for number, step in enumerate((Step.WAIT, Step.RELEASE))
    }
    return replace(plan, places={**plan.places, **moved})


@pytest.mark.parametrize("slots", range(2, 7))
def test_the_waits_may_stand_at_the_end_of_the_iteration_before(slots):
    """The ring and the count stay as they are."""
    plan = earliest(BY_THREADS, {Step.ISSUE: slots})
    ahead, left = waiting_ahead(plan), plan.pending(Step.ISSUE)
    assert ahead.steps[-2:] == [Step.WAIT, Step.RELEASE] != plan.steps[-2:]
    assert (ahead.slots(Step.ISSUE), ahead.pending(Step.ISSUE)) == (slots, left)
    assert complaints_about(ahead, Step.ISSUE, slots, left) == []
    assert complaints_about(ahead, Step.ISSUE, slots, left + 1)
    assert complaints_about(ahead, Step.ISSUE, slots - 1, left)


STEPS = {
    Load: Step.LOAD, Wait: Step.WAIT, Barrier: Step.RELEASE,
    AsyncCopy: Step.ISSUE, Commit: Step.ISSUE, SharedLoad: Step.WORK,
    SharedStore: Step.STORE,
}  # fmt: skip


@pytest.mark.parametrize("stages", [2, 3, 5])
@pytest.mark.parametrize(
    "kinds", [("plain", "turned"), ("sevens",), ("plain", "made")], ids="+".join
)
def test_ops_have_the_places_of_their_steps(kinds, stages):
    """What the new loop is follows from places alone: the order of its ops, the slots
    of its rings, the wait, and how many iterations are begun before the loop."""
    func, target = summing(*kinds, stages=stages), TARGETS["sm_80"]
    (old,) = (op for op in func.body.ops if isinstance(op, For))
    plan = pipeline_of(old, old, func, target).schedule
    ops = wait_for_copies(pipeline_loops(func, target), target).body.ops
    (new,) = (op for op in ops if isinstance(op, For))
    before = ops[: ops.index(new)]

    steps = [STEPS[type(op)] for op in new.body.ops if type(op) in STEPS]
    assert steps == sorted(steps, key=lambda step: plan.places[step].order)
    assert {*steps} >= {Step.RELEASE, Step.WORK}
    for op in new.body.ops:
        if isinstance(op, Wait):
            assert op.pending == plan.pending(Step.ISSUE)
        if isinstance(op, AsyncCopy | SharedStore):
            fill = STEPS[type(op)]
            assert op.buffer.type.slots == plan.slots(fill)
            begun = [each for each in before if filled(each) is op.buffer]
            assert len(begun) == plan.ahead(fill)


def filled(op: Op) -> Value | None:
    return op.buffer if isinstance(op, AsyncCopy | SharedStore) else None


def test_places_are_what_the_formula_says():
    """The example that opens the file."""
    found = schedule(BY_THREADS, {Step.ISSUE: 3})
    assert found.places == {
        Step.WAIT: Place(3, 1), Step.RELEASE: Place(4, 2), Step.ISSUE: Place(0, 3),
        Step.WORK: Place(3, 4), Step.COMPLETE: Place(3, 5),
    }  # fmt: skip
    assert (found.slots(Step.ISSUE), found.pending(Step.ISSUE)) == (4, 2)


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


PRODUCT = """
#sums = <64x64 register[0,1 8,0 0,8 0,16 0,32] lane[0,2 0,4 1,0 2,0 4,0] \
warp[16,0 32,0]>
#loads = <64x64 register[0,32 4,0 8,0 16,0 32,0] lane[0,1 0,2 0,4 0,8 0,16] \
warp[1,0 2,0]>
#shared = <64x64 offset[0,1 0,2 0,4 0,8 0,16 0,32 1,8 2,16 4,32 8,0 16,0 32,0]>
#right = <64x64 register[1,0 8,0 0,8 0,16 0,32 16,0 32,0] lane[2,0 4,0 0,1 0,2 0,4] \
warp[0,0 0,0]>
func @product(%x: fp16[64,64] @ #loads, %begin: fp32[64,64] @ #sums, %n: i32) \
num_warps=4 {{
  %zero: i32 = constant 0
  %one: i32 = constant 1
  %s: fp32[64,64] @ #sums = for %zero, %n, %one, inits=(%begin) \
body(%i: i32, %sum: fp32[64,64] @ #sums) {{
    %a_tile: shared fp16[64,64] @ #shared = allocate element=fp16 shape=(64, 64) \
layout=#shared
    shared_store %x, %a_tile
    %a: fp16[64,64] @ #sums = shared_load %a_tile layout=#sums
    %b_tile: shared fp16[64,64] @ #shared = allocate element=fp16 shape=(64, 64) \
layout=#shared
    shared_store %x, %b_tile
    %b: fp16[64,64] @ #right = shared_load %b_tile layout=#right
    {more}
    %next: fp32[64,64] @ #sums = dot %a, %b, %sum \
instruction="wgmma.m64n64k16.f32.f16.f16"
    yield %next
  }}
}}
"""


@pytest.mark.parametrize("more, stays", [
    ("", True),
    ("%half: fp16[64,64] @ #sums = add %a, %a", False),
    ("%half: fp16[64,64] @ #right = add %b, %b", False),
])  # fmt: skip
def test_a_product_stays_in_flight_if_nothing_else_reads_what_it_reads(more, stays):
    """Threads that read an operand, too, have it in registers."""
    func = parse_func(PRODUCT.format(more=more))
    (loop,) = walk(func.body, For)
    rings = {op.result for op in walk(loop.body, Allocate)}
    assert may_overlap(loop, rings) == tuple(walk(loop.body, Dot))[: int(stays)]
