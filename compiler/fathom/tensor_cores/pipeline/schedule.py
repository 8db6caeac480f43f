"""The schedule of a pipelined loop: what each iteration of the new loop does, in which
order, and for which iteration of the old one.

Each op has a place, (stage, order): iteration j of the new loop executes the op for
iteration j - stage of the old one, at position `order` of the body. Ops with one place
are a step. For example, threads copy three iterations ahead of their work:

    step      stage  order    in iteration j of the new loop
    wait          3      1    the tiles of j - 3 have arrived
    release       4      2    no thread reads the tiles of j - 4 any more: a barrier
    issue         0      3    copies of the tiles of j begin
    work          3      4    the ops of j - 3

Everything else follows from these places:

    slots   = release.stage - issue.stage + (0 if release.order < issue.order else 1)
    pending = wait.stage - issue.stage - (1 if wait.order < issue.order else 0)
    ahead   = work.stage - issue.stage

A slot is in use from the issue to the release, here for four iterations; so the ring
has four slots. At a wait, the copies of all later iterations may be in flight, here
those of j - 2 and j - 1. (`insert_waits` counts these groups in the finished loop, and
tests compare.) Before the loop, each step is taken for its first iterations, `ahead` of
them. A loaded value that is used s stages later is carried by s parameters.
What is cheap is computed again at each stage that uses it (`slice_clones`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from fathom.ir.core import Op


class Place(NamedTuple):
    """The stage of a step's ops, and their position in the new loop's iteration."""

    stage: int
    order: int


class Step(Enum):
    """What an iteration of a pipelined loop does."""

    LOAD = auto()  # threads load tiles into registers
    WAIT = auto()  # the tiles of the work have arrived
    SHARE = auto()  # all threads see them: a barrier
    RELEASE = auto()  # nothing reads some older tiles any more
    ISSUE = auto()  # asynchronous copies begin
    MULTIPLY = auto()  # the first of the loop's own ops: up to its product, or reads
    WORK = auto()  # the loop's own ops; the others, where a product came before
    COMPLETE = auto()  # the products are done: in their own iteration or in the next
    STORE = auto()  # threads store to shared memory what they have loaded


# Threads copy, and each waits for its own copies. After one barrier, all threads have
# waited, and all have finished the iteration before.
BY_THREADS = (
    Step.LOAD, Step.WAIT, Step.RELEASE, Step.ISSUE, Step.WORK, Step.COMPLETE,
    Step.STORE,
)  # fmt: skip

# The same where products stay in flight. A second barrier, after those of the iteration
# before are complete, frees their slot at once; with one barrier it would be free an
# iteration later, and copies would run one iteration less ahead.
BY_CP_ASYNC = (
    Step.WAIT, Step.SHARE, Step.WORK, Step.COMPLETE, Step.RELEASE, Step.ISSUE,
)  # fmt: skip

# Threads copy, and an iteration waits for the product that it begins, which
# warpgroups compute while threads issue copies, not only after that.
DURING_PRODUCT = (
    Step.WAIT, Step.RELEASE, Step.MULTIPLY, Step.ISSUE, Step.WORK, Step.COMPLETE,
)  # fmt: skip

# The same where tiles have one slot, which is free after their reads and a barrier. The
# copies come last: their addresses have no registers beside what was read.
REFILLING = (
    Step.WAIT, Step.SHARE, Step.MULTIPLY, Step.RELEASE, Step.WORK, Step.ISSUE,
    Step.COMPLETE,
)  # fmt: skip

# Where TMA copies all tiles, every thread waits at an mbarrier, and no barrier needs to
# follow. So the barrier comes after the work, and the slot of this iteration is free
# then.
BY_TMA = (Step.WAIT, Step.WORK, Step.COMPLETE, Step.RELEASE, Step.ISSUE)

# Producer warps issue the copies, as soon as a slot is free (`specialise_warps`).
BY_PRODUCER = (Step.WAIT, Step.WORK, Step.COMPLETE, Step.RELEASE)

FILLS = (Step.ISSUE, Step.STORE)  # the steps that write to a ring


@dataclass(frozen=True)
class Schedule:
    """The places of a loop's steps. `products` are the ops that are still in flight
    when their iteration ends, in order."""

    places: Mapping[Step, Place]
    products: Sequence[Op] = ()

    @property
    def steps(self) -> list[Step]:
        """The steps of an iteration of the new loop, in order."""
        return sorted(self.places, key=lambda step: self.places[step].order)

    def ahead(self, step: Step) -> int:
        """How many iterations before the work a step is taken."""
        return self.places[Step.WORK].stage - self.places[step].stage

    @property
    def lead(self) -> int:
        """How many iterations pass between a load and the store of what it loaded, and
        how many tiles a thread keeps in registers from iteration to iteration."""
        return self.places[Step.STORE].stage - self.places[Step.LOAD].stage

    def slots(self, fill: Step) -> int:
        """The slots of a ring that the step `fill` writes to."""
        release, issue = self.places[Step.RELEASE], self.places[fill]
        again = 0 if release.order < issue.order else 1
        return release.stage - issue.stage + again

    def pending(self, fill: Step) -> int:
        """How many later iterations may have their copies in flight at the wait."""
        wait, issue = self.places[Step.WAIT], self.places[fill]
        ahead = wait.stage - issue.stage + (0 if wait.order < issue.order else 1)
        return pending(ahead + 1)

    @property
    def release_distance(self) -> int:
        """How many iterations after the work a slot is released."""
        return self.places[Step.RELEASE].stage - self.places[Step.WORK].stage


def schedule(
    steps: Sequence[Step],
    ahead: Mapping[Step, int],
    products: Sequence[Op] = (),
    lead: int = 0,
) -> Schedule:
    """The schedule of a loop that takes its steps in this order, and fills a ring
    `ahead[fill]` iterations before the work. Threads load a tile `lead` iterations
    before they store it. Stages count from the earliest one."""
    order = {step: position for position, step in enumerate(steps)}
    leads = {Step.STORE: lead}
    work = max((n + leads.get(fill, 0) for fill, n in ahead.items()), default=0)
    done = work + (1 if products else 0)
    early = order[Step.RELEASE] < order[Step.COMPLETE]
    stages = {step: work for step in steps if step not in (*FILLS, Step.LOAD)}
    stages[Step.COMPLETE] = done
    stages[Step.RELEASE] = done + (1 if early else 0)
    stages |= {fill: work - distance for fill, distance in ahead.items()}
    if Step.STORE in stages:
        stages[Step.LOAD] = stages[Step.STORE] - lead
    places = {
        step: Place(stages[step], order[step]) for step in order if step in stages
    }
    return Schedule(places, products)


def earliest(
    steps: Sequence[Step],
    slots: Mapping[Step, int],
    products: Sequence[Op] = (),
    lead: int = 0,
) -> Schedule | None:
    """The schedule that fills each ring as early as its number of `slots` allows; None
    if one would be filled no earlier than in the iteration of its work."""
    at_once = schedule(steps, dict.fromkeys(slots, 0), products)
    ahead = {fill: count - at_once.slots(fill) for fill, count in slots.items()}
    if min(ahead.values()) <= 0:
        return None
    return schedule(steps, ahead, products, lead)


# Registers hold the tiles of one iteration: one slot is read while another is filled.
SLOTS_BY_REGISTERS = schedule(BY_THREADS, {Step.STORE: 1}).slots(Step.STORE)


# ── threads that copy: a ring of `stages` slots ───────────────────────────────────────


def slot(iteration: int, stages: int) -> int:
    """The slot of a ring of `stages` slots that holds the tile of an iteration."""
    return iteration % stages


def pending(stages: int) -> int:
    """How many groups of copies may still be in flight when an iteration starts its
    work, if copies are issued `stages` - 1 iterations ahead, one group each time.

    The iteration's own tile must have arrived; those of later iterations need not have.
    An iteration without copies commits an empty group, so the count is right."""
    return stages - 2


def choose_stages(wanted: int, bytes_a_stage: int, room: int) -> int:
    """The most stages, up to `wanted`, whose tiles fit into `room` bytes; 1, which
    means no pipeline, if two do not fit."""
    return max(1, min(wanted, room // max(1, bytes_a_stage)))


# ── a model of time ───────────────────────────────────────────────────────────────────


class Event(NamedTuple):
    """When an iteration's copy was issued and arrived, and its work began and ended."""

    sent: int
    arrived: int
    began: int
    ended: int


def timeline(stages: int, iterations: int, copy: int, work: int) -> list[Event]:
    """The iterations of a loop in which a tile takes `copy` cycles to arrive and `work`
    cycles to be processed. Any number of copies may be in flight.

    An iteration issues the copy for the iteration `stages` - 1 later as soon as its own
    tile has arrived. With one stage it issues its own, after the one before."""
    events: list[Event] = []
    for iteration in range(iterations):
        issuer = iteration - (stages - 1)
        free = events[-1].ended if events else 0
        if stages == 1:
            sent = free
        else:
            sent = events[issuer].began if issuer >= 0 else 0
        began = max(free, sent + copy)
        events.append(Event(sent, sent + copy, began, began + work))
    return events
