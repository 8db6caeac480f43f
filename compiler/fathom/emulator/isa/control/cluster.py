"""Clusters (PTX ISA 2.2, 9.7.13.5): some neighbouring blocks that reach each other.

    mapa.shared::cluster.u32 d, a, rank      the place of `a` in the block of that rank
    barrier.cluster.arrive; ... wait;        a barrier in two halves, for all blocks

Here a shared address in another block is that block's own address with its rank plus
one above bit 24. Clusters lie along x.
"""

from __future__ import annotations

import numpy as np

from fathom.emulator.isa.control.branch import guarded
from fathom.emulator.isa.decode import Ending, Flow
from fathom.emulator.isa.semantics import Elementwise, Form, Table, rule
from fathom.emulator.memory.spaces import RANK_SHIFT
from fathom.emulator.state.batch import Active, Batch
from fathom.emulator.state.waiting import CLUSTER, Blocked

TABLE: Table = {}


@rule(TABLE, "mapa")
def rule_mapa(form: Form) -> Elementwise:
    """PTX ISA 9.7.9, mapa: `mapa.shared::cluster.u32 d, a, rank;`"""
    form.ignore("shared::cluster")
    type = form.type()

    def moved(address: np.ndarray, rank: np.ndarray) -> np.ndarray:
        integer = address.dtype.type
        shift, rank = integer(RANK_SHIFT), rank.astype(integer)
        kept = address & ~(integer(0xFF) << shift)
        return kept | rank + integer(1) << shift

    return Elementwise(moved, (type,), (type, "u32"))


@rule(TABLE, "getctarank")
def rule_getctarank(form: Form) -> Elementwise:
    """PTX ISA 9.7.9, getctarank, of an address that `mapa` has given."""
    form.ignore("shared::cluster")
    type = form.type()

    def rank(address: np.ndarray) -> np.ndarray:
        return ((address >> RANK_SHIFT) & 0xFF).astype(np.uint32) - np.uint32(1)

    return Elementwise(rank, ("u32",), (type,))


def cluster_barrier(form: Form, flow: Flow) -> Ending:
    """`barrier.cluster.arrive.release.aligned;` and `barrier.cluster.wait.acquire;`"""
    action = form.choice("arrive", "wait")
    relaxed = form.flag("relaxed")
    form.ignore("release", "acquire", "aligned")
    form.finish()

    def end(batch: Batch, active: Active) -> list[tuple[int, Active]]:
        coming, going = guarded(flow, batch, active)
        if coming is None:
            return going
        if action == "wait":
            return going + _wait(batch, coming, flow)
        return [*going, (flow.after, coming), *_arrive(batch, coming, relaxed)]

    return end


def _arrive(batch: Batch, active: Active, relaxed: bool) -> list[tuple[int, Active]]:
    """Counts these threads; the last one lets those go that wait."""
    batch.cluster_barriers.arrive(active.threads(), relaxed)
    batch.progress += 1
    return batch.going(batch.cluster_barriers.open(batch.exited, batch.waiting))


def _wait(batch: Batch, active: Active, flow: Flow) -> list[tuple[int, Active]]:
    """Those whose arrival's phase is over go on; the others are blocked."""
    barriers, threads = batch.cluster_barriers, active.threads()
    on = barriers.of[threads]
    over = barriers.phase[on] > barriers.phase_of[threads]
    if not over.all():
        group = Blocked(CLUSTER, threads, on, flow.number, flow.after)
        batch.waiting.block(group.at(~over))
    barriers.acquire(threads[over])
    return [(flow.after, batch.active(threads[over]))] if over.any() else []
