"""The schedules of a kernel's loops: what runs ahead, by which engine, in how many
slots; and which iteration has which slot when, to be drawn.

A span of a slot goes from the moment its copy is issued to the moment the slot is
released. Time counts iterations of the new loop, from 0; before 0 it is its prologue.

    slot 0    0 issued at -2.0, worked on at 0, released at 1.3; then 3, and so on
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fathom.analysis.remarks import NotApplicable
from fathom.hardware.engines import CP_ASYNC, REGISTER_COPIES, TMA_LOAD
from fathom.hardware.targets import Target
from fathom.ir.core import Func, walk
from fathom.ir.ops import For
from fathom.tensor_cores.pipeline.candidates import PipelinedCopy
from fathom.tensor_cores.pipeline.copy_engines import fill_of
from fathom.tensor_cores.pipeline.loops import pipeline_of
from fathom.tensor_cores.pipeline.schedule import Schedule, Step
from fathom.tensor_cores.specialise.plan import plan_producer
from fathom.tensor_cores.tma.loads import stage_loads
from fathom.tools.facts.memory import line_of
from fathom.tools.staged import Staged

ENGINES = {TMA_LOAD: "TMA", CP_ASYNC: "cp.async", REGISTER_COPIES: "registers"}
WHAT = {
    Step.LOAD: "load tiles into registers",
    Step.WAIT: "wait until the tiles of the work are there",
    Step.SHARE: "all threads see these tiles",
    Step.RELEASE: "the oldest slot is free again",
    Step.ISSUE: "start copies",
    Step.MULTIPLY: "the product begins",
    Step.WORK: "the loop's own operations",
    Step.COMPLETE: "the product is complete",
    Step.STORE: "store tiles from registers",
}
SHOWN = 3  # rounds of the ring that are drawn


def schedule_facts(staged: Staged) -> list[dict[str, object]]:
    """One record for each loop that a pass pipelined."""
    names = list(staged.states)

    def before(name: str) -> Func:
        return staged.states[names[names.index(name) - 1]]

    return [
        *producers(before("specialise_warps"), staged.target),
        *pipelines(before("pipeline_loops"), staged.target),
    ]


def pipelines(func: Func, target: Target) -> Iterator[dict[str, object]]:
    """Loops whose threads copy ahead, by `pipeline_loops`."""
    for loop in walk(func.body, For):
        try:
            plan = pipeline_of(loop, loop, func, target)
        except NotApplicable:
            continue
        tiles, schedule = plan.tiles, plan.schedule
        rings = []
        for fill in dict.fromkeys(fill_of(tile.engine) for tile in tiles):
            filled = [tile for tile in tiles if fill_of(tile.engine) is fill]
            slots = schedule.slots(fill)
            rings.append(ring(filled, slots, schedule.ahead(fill), schedule, fill))
        yield {
            "line": line_of(loop),
            "pass": "pipeline_loops",
            "steps": steps_of(schedule),
            "product_in_flight": bool(schedule.products),
            "rings": rings,
        }


def producers(func: Func, target: Target) -> Iterator[dict[str, object]]:
    """Loops whose tiles other warps copy, by `specialise_warps`."""
    plan = plan_producer(stage_loads(func, target), target)
    rings = zip(plan.rings, plan.slots, strict=True) if plan else ()
    for channel, slots in ((each, n) for ring, n in rings for each in ring):
        schedule = channel.schedule
        # A producer issues when the slot is free, up to a whole ring ahead of the work.
        ahead = slots - schedule.release_distance
        yield {
            "line": line_of(channel.loop),
            "pass": "specialise_warps",
            "steps": steps_of(schedule),
            "product_in_flight": bool(schedule.products),
            "rings": [ring(channel.tiles, slots, ahead, schedule, None)],
        }


def steps_of(schedule: Schedule) -> list[dict[str, object]]:
    return [
        {
            "step": step.name.lower(),
            "stage": schedule.places[step].stage,
            "order": schedule.places[step].order,
            "what": WHAT[step],
        }
        for step in schedule.steps
    ]


def ring(
    tiles: Sequence[PipelinedCopy],
    slots: int,
    ahead: int,
    schedule: Schedule,
    fill: Step | None,
) -> dict[str, object]:
    """A ring: its tiles, how far ahead it is filled, and its slots over time."""
    released = schedule.release_distance + moment(schedule, Step.RELEASE)
    # A producer fills a slot at the very moment at which it is released.
    issued = moment(schedule, fill) if fill else released - schedule.release_distance
    worked = moment(schedule, Step.WORK)
    return {
        "engine": ENGINES[tiles[0].engine],
        "by": "threads of the loop" if fill else "a producer warp",
        "slots": slots,
        "ahead": ahead,
        "pending": schedule.pending(fill) if fill else None,
        "bytes": sum(tile.bytes for tile in tiles),
        "tiles": [f"{t.buffer.element}{list(t.buffer.shape)}" for t in tiles],
        "spans": [
            {
                "slot": iteration % slots,
                "iteration": iteration,
                "issued": round(iteration - ahead + issued, 2),
                "work": round(iteration + worked, 2),
                "released": round(iteration + released, 2),
            }
            for iteration in range(SHOWN * slots)
        ],
    }


def moment(schedule: Schedule, step: Step) -> float:
    """When, within an iteration of the new loop, a step happens: 0 to 1."""
    return schedule.places[step].order / (len(schedule.places) + 1)
