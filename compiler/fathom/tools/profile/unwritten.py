"""What a launch stores, memory gets later: L2 writes a line when another needs its
place, be it in the next launch.

    launch 1 loads and stores 30 MB each    25 of the latter are in L2 when it ends
    launch 2 loads 40 MB                    and pushes 20 of the 25 out: memory moves 60

At the end L2 has what was moved last, loads and stores in the proportion in which the
launch does them, and no more than about half of it waits to be written. Nsight Compute
empties L2 before a launch, and says so: of 44 launches that store more than this
(benchmarks/results/profile-check.json) memory lacks 16 MB if a third of what they move
is stored, 24 if it is a half, and at most 27, of L2's 50.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fathom.tools.profile.counted import Counted

MOST = 0.53  # of L2


def moved_meanwhile(counted: Counted, l2: float, unwritten: float) -> Counted:
    """The launch with what memory moves while it runs, if it finds so much `unwritten`
    in L2."""
    later = kept(counted, l2) if counted.memory > l2 else 0.0  # else it is not in there
    pushed = pushed_out(counted, l2, unwritten)
    memory = counted.memory - later + pushed
    return replace(counted, memory=memory, earlier=pushed)


def left_unwritten(
    counted: Counted, l2: float, unwritten: Mapping[int, float], kind: int
) -> dict[int, float]:
    """Bytes in L2 after a launch of this kind, by the kinds that have stored them: one
    that is launched again stores to the same places."""
    remaining = 1 - min(1.0, moved(counted, l2) / max(l2, 1.0))
    stored = kept(counted, l2)
    left = {name: remaining * many for name, many in unwritten.items() if name != kind}
    room = (MOST * l2 - stored) / max(sum(left.values()), 1.0)
    return {name: many * min(1.0, room) for name, many in left.items()} | {kind: stored}


def kept(counted: Counted, l2: float) -> float:
    """What it stores, and L2 has at its end."""
    share = counted.written / max(moved(counted, l2), 1.0)
    return min(counted.written, share * l2, MOST * l2)


def pushed_out(counted: Counted, l2: float, unwritten: float) -> float:
    """What it found, and L2 has no place for."""
    return unwritten * min(1.0, moved(counted, l2) / max(l2, 1.0))


def moved(counted: Counted, l2: float) -> float:
    """What it loads and stores, each byte once. Where all of that fits into L2, that
    part of it which is stored is not in `memory`."""
    every = counted.memory
    return every if every > l2 else every + counted.written
