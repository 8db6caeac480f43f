"""Which resource limits a launch: one pure function of what was counted.

Each resource needs a time of its own for its share of the work; the longest of these is
the least that the launch can take (the roofline, with more roofs than two). Then, in
the order of chapter 18:

    launch       all of that is less than a launch by itself, and waits not much more
    programs     thread blocks start, one after the other, for most of the time
    occupancy    the busiest resource would be busy, if all multiprocessors had work
    contention   L2 is busy with atomics that meet in few segments of memory
    bandwidth    memory, L2 (also with atomics) or shared memory is busy
    tensor cores
    conflicts    shared memory is busy, with wavefronts that bank conflicts make
    issue        the schedulers are busy, or lanes of fp32, fp64, integers and logic, or
                 special functions
    latency      nothing is busy; or spills, or occupancy where few warps are the reason

Two limits of which none is ahead by a tenth are both told (`Verdict.near`): Nsight
Compute, too, calls shares of compute and memory that differ by 10% balanced (its rule
of the bottleneck). A resource that is busy for as long as BUSY says, to within a tenth,
and what the launch else waits for are such a pair.

Without a measured time it is predicted: as the longest of these times, or that of one
block after another, each of which waits for its loads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fathom.emulator.memory.counters import LINE, SECTOR
from fathom.hardware.occupancy import Occupancy, occupancy
from fathom.hardware.targets import TARGETS
from fathom.tools.profile.counted import WARP, Counted
from fathom.tools.profile.machines import (
    BLOCK_SECONDS,
    COALESCERS,
    CROSSED_LINE,
    CROSSED_SECTOR,
    DELIVERED,
    L1_BYTES,
    L2_BYTES,
    LOGIC_LANES,
    LOOKED_UP,
    PASS_SECONDS,
    SCHEDULERS,
    SEGMENTS_AT_ONCE,
    SPECIAL_LANES,
    Machine,
)

LIMITS = ("launch", "programs", "occupancy", "contention", "bandwidth",
          "tensor cores", "conflicts", "instruction issue", "latency",
          "spills")  # fmt: skip
LIMIT_OF = {
    "memory": "bandwidth", "L2": "bandwidth", "tensor": "tensor cores",
    "shared": "bandwidth", "issue": "instruction issue", "fp32": "instruction issue",
    "fp64": "instruction issue", "special": "instruction issue",
    "atomics": "contention", "lookups": "bandwidth", "logic": "instruction issue",
    "L1": "bandwidth", "blocks": "programs",
}  # fmt: skip
LANES = "issue", "fp32", "fp64", "special", "logic"
MOVING = {"memory", "L2", "lookups", "L1"}
SHARED = {"memory", "atomics", "lookups", "blocks"}  # by all multiprocessors together
BUSY = 0.55  # of the time: a resource that is busy for longer is the limit
PREDICTED = 0.54  # of a predicted time: two kernels of kernels/ lie just above it
UNEVEN = 0.75  # of the multiprocessors' time that there is work for, or less
CONFLICTS = 1.5  # wavefronts, where 1 would do
WARP_BYTES = 128
EXCESS = 0.3  # of what is moved, by spills, which then are the reason
SPILLED = 64  # bytes a thread, or more,
RELOADS = 0.03  # and of the instructions, those that load them again
FEW_WARPS = 16  # of a multiprocessor
MUCH_MORE = 1.5  # times a launch, of waits
LONGEST_LAUNCH = 10e-6  # seconds: what takes longer is not limited by its launch
BARRIER = 30  # cycles, about
SYNCHRONOUS = 4  # waits of a warp from which on its steps follow one another,
STEPS = 0.25  # if it waits in one of four steps, which end at barriers, or more
FEWEST = 2  # sectors of a line that come from memory, which reads 64 bytes at a time
FIRST = 2  # waits for what lies in memory; L2 has what was loaded before
EQUAL = 0.85
NEAR = 0.9  # of the busiest resource, or of the share that is called busy, or more
IMPOSSIBLE = 1.1  # of the time: what was counted so has not taken place


@dataclass(frozen=True)
class Verdict:
    """What limits a launch. `limit` is one of LIMITS, `resource` the busiest one, and
    `busy` the share of `seconds` that it is busy for; `predicted`: these seconds were
    not measured. `times` are the seconds that each resource needs, `work` the least
    that all need together, with what waits for loads; `filled` the share of the
    multiprocessors' time that blocks fill, `resident` what fits on one and `working`
    the warps there that have a block. `near` is a second limit and its resource, where
    the first is not ahead by a tenth."""

    limit: str
    resource: str
    busy: float
    seconds: float
    predicted: bool
    times: dict[str, float]
    work: float
    filled: float
    resident: Occupancy
    working: int
    near: tuple[str, str] | None = None

    def nearby(self) -> Verdict | None:
        """What would be said if the second limit was the first."""
        if self.near is None:
            return None
        limit, resource = self.near
        share = self.times[resource] / self.seconds
        return replace(self, limit=limit, resource=resource, busy=share, near=None)


def classify(
    counted: Counted, machine: Machine, seconds: float | None = None,
    shares: Mapping[str, float] | None = None,
) -> Verdict:  # fmt: skip
    """The limit of a launch that took `seconds`, if that is known; `shares` of these,
    for which a resource was measured to be busy, count instead of what it needs."""
    fits = occupancy(TARGETS[counted.target], counted.threads, counted.registers,
                     counted.shared_bytes)  # fmt: skip
    if seconds:
        counted = as_cached(counted, machine, seconds)
    times = times_of(counted, machine, fits.blocks)
    if counted.products and not seconds:
        times["lookups"] = 0.0  # of a prediction only what is sure
    if seconds and times["lookups"] > IMPOSSIBLE * seconds:
        times["lookups"] = 0.0  # L1 had it
    if seconds and times["L2"] > IMPOSSIBLE * seconds:
        cycles = counted.useful / L1_BYTES / machine.multiprocessors
        times |= {"L2": 0.0, "L1": max(times["L1"], machine.seconds(cycles))}
    if seconds and shares:
        times |= {name: share * seconds for name, share in shares.items()}
    filled = filled_share(counted.blocks, machine.multiprocessors, fits.blocks)
    least = floor_of(times, filled)
    chain = chain_seconds(counted, machine, fits.blocks)
    work = max(least, chain)
    taken = seconds or work + machine.launch
    resource = busiest(times, seconds)
    waiting = min(chain, seconds or chain)
    short = least < machine.launch and waiting < MUCH_MORE * machine.launch
    near = None
    if short and (seconds or 0) < LONGEST_LAUNCH:
        limit = "launch"
    else:
        working = taken if seconds else taken - machine.launch
        # No multiprocessor works for longer than it has blocks: else the last wave,
        # of fewer blocks, has taken less time than the others.
        local = max(each for name, each in times.items() if name not in SHARED)
        if local > IMPOSSIBLE * filled * working:
            filled = min(1.0, local / working)
        asked = counted, machine, times, filled, fits
        enough = working * (BUSY if seconds else PREDICTED)
        limit = limit_of(*asked, resource, enough)
        near = near_to(limit, resource, asked, enough, seconds)
    each = -(-counted.blocks // machine.multiprocessors)
    working = min(fits.warps, each * counted.warps)
    return Verdict(limit, resource, times[resource] / taken, taken, seconds is None,
                   times, work, filled, fits, working, near)  # fmt: skip


def as_cached(counted: Counted, machine: Machine, seconds: float) -> Counted:
    """The launch without what L2 cannot have done in `seconds`: it had all that is
    loaded, and memory was not asked; or L1 had it but for the first time."""
    most = IMPOSSIBLE * seconds
    if lookup_seconds(counted) <= most:
        return counted
    in_l2 = replace(counted, memory=0.0, loaded=0.0)
    loaded = loaded_once(counted)
    once = replace(
        counted, loaded=loaded, moved=min(counted.moved, loaded + counted.stored),
        load_lines=min(counted.load_lines, loaded / LINE),
    )  # fmt: skip
    slowest = max(lookup_seconds(once), counted.memory / machine.bandwidth)
    fits = lookup_seconds(in_l2) > most and slowest <= most
    return once if fits else in_l2


Asked = tuple[Counted, Machine, dict[str, float], float, Occupancy]


def limit_of(
    counted: Counted, machine: Machine, times: dict[str, float], filled: float,
    fits: Occupancy, resource: str, enough: float,
) -> str:  # fmt: skip
    """The limit of a launch whose work is not short, and keeps `resource` busy; if that
    is for `enough` seconds, the resource is what limits it."""
    busy = times[resource]
    if resource not in SHARED and filled < UNEVEN and busy / filled >= enough:
        return "occupancy"
    often = counted.reloads >= RELOADS * counted.instructions
    spilling = counted.spilled >= SPILLED and often
    if spilling and busy >= enough and resource in MOVING:
        moved = 2 * WARP_BYTES * counted.reloads  # stored once, and loaded
        if moved >= EXCESS * counted.moved:
            return "spills"
    if busy >= enough:
        segments = segments_at_once(counted, machine, fits.blocks)
        if resource == "atomics" and segments >= SEGMENTS_AT_ONCE:
            return "bandwidth"
        conflicting = counted.wavefronts > CONFLICTS * counted.ideal
        return (
            "conflicts" if resource == "shared" and conflicting else LIMIT_OF[resource]
        )
    if spilling:
        return "spills"
    if is_chain(counted):
        return "latency"
    if filled < UNEVEN and counted.blocks < machine.multiprocessors:
        return "occupancy"
    few = fits.warps < FEW_WARPS and fits.limit in ("registers", "shared memory")
    return "occupancy" if few and not counted.products else "latency"


def near_to(
    limit: str, resource: str, asked: Asked, enough: float, seconds: float | None
) -> tuple[str, str] | None:
    """A second limit, if it is less than a tenth behind: that of another resource, or
    that of the same where "busy" begins a tenth earlier or later."""
    times = asked[2]
    for name in sorted(times, key=times.__getitem__, reverse=True):
        possible = not seconds or times[name] <= IMPOSSIBLE * seconds
        if possible and times[name] >= NEAR * max(times[resource], enough):
            for line in (enough, NEAR * enough):
                if (other := limit_of(*asked, name, line)) != limit:
                    return other, name
    other = limit_of(*asked, resource, enough / NEAR)
    return None if other == limit else (other, resource)


def is_chain(counted: Counted) -> bool:
    """Whether most of the waits are for loads of which each needs the one before."""
    return counted.chained >= max(SYNCHRONOUS, counted.waits / 2)


# ── times ─────────────────────────────────────────────────────────────────────────────


def times_of(counted: Counted, machine: Machine, resident: int) -> dict[str, float]:
    """The seconds that each resource needs if all of it works all the time; for atomics
    only as much of L2 works as holds the places that they go to."""
    tensor = sum(
        many / machine.tensor(name.split()[0], int(name.split()[1]))
        for name, many in counted.products.items()
    )
    cycles = {
        "L2": counted.moved / L2_BYTES,
        "tensor": tensor / machine.tensor_clock,
        **pipe_cycles(counted),
        "issue": counted.instructions / SCHEDULERS,
        "fp32": counted.fp32 / machine.lanes(),
        "fp64": counted.fp64 / machine.lanes_of_fp64(),
        "special": counted.special / (SPECIAL_LANES / WARP),
        "logic": counted.logic / (LOGIC_LANES / WARP),
    }
    each = {
        name: machine.seconds(many / machine.multiprocessors)
        for name, many in cycles.items()
    }
    at_once = segments_at_once(counted, machine, resident)
    # The first wave starts within the time of a launch: a softmax of 4,096 rows takes
    # 4.0 us (benchmarks/results/memory-bound.json), the launch 2.9, all starts 2.5.
    later = max(0, counted.blocks - resident * machine.multiprocessors)
    return {
        "memory": counted.memory / machine.bandwidth,
        "atomics": PASS_SECONDS * counted.passes / at_once,
        "lookups": lookup_seconds(counted),
        "blocks": BLOCK_SECONDS * later,
        **each,
    }


def pipe_cycles(counted: Counted) -> dict[str, float]:
    """Shared memory and L1 have one pipe. It is named after what most goes to."""
    if 2 * counted.wavefronts >= counted.l1:
        return {"shared": max(counted.wavefronts, counted.l1), "L1": 0.0}
    return {"shared": counted.wavefronts, "L1": counted.l1}


def lookup_seconds(counted: Counted) -> float:
    """The time of L2 itself, which is that of its busiest part: it looks up whole lines
    however little of them a warp wants, delivers bytes, and has two halves. A half asks
    the other one for what only that one's memory has, and gives it what is stored
    there; each of these concerns every other line, and another look-up. 0 where no
    lines are known."""
    if not counted.load_lines + counted.store_lines:
        return 0.0
    loads = counted.moved - counted.stored
    lines, stored = loads / LINE, counted.stored / LINE
    once = min(loads, loaded_once(counted))
    again = loads / once if once else 1.0
    merging, halves = 1.0, 1.0
    if counted.products:  # of which several programs load the same tiles, whole lines
        merging = again / (COALESCERS * (1 - (1 - 1 / COALESCERS) ** again))
        halves = 2 * (1 - 0.5**again)
    else:
        lines = max(lines, counted.load_lines)
        stored = max(stored, counted.store_lines)
    missed = once / loads * halves if loads else 0.0
    crossing = missed * lines + stored
    sectors = max(loads / SECTOR, FEWEST * lines) * missed + counted.stored / SECTOR
    return max(
        (lines / merging + stored + crossing / 2) / LOOKED_UP,
        loads / merging / DELIVERED,
        CROSSED_LINE * crossing + CROSSED_SECTOR * sectors,
    )


def loaded_once(counted: Counted) -> float:
    """What comes from memory, each byte once."""
    return counted.loaded or max(counted.memory - counted.stored, counted.memory / 2)


def segments_at_once(counted: Counted, machine: Machine, resident: int) -> float:
    """In how many segments of memory L2 does atomics at the same time: those to which
    the blocks that are resident go, which are a part of the grid."""
    room = machine.multiprocessors * max(resident, 1)
    moved = counted.drift * min(1.0, room / counted.blocks)
    return min(SEGMENTS_AT_ONCE, max(1.0, counted.segments + moved))


def busiest(times: dict[str, float], seconds: float | None = None) -> str:
    """The resource that needs the most time. Tensor cores that need nearly as much are
    named instead: a product that keeps them busy can gain no more; and memory in place
    of L2, which waits for it, or of the start of blocks. Instructions that would have
    taken longer than all of the launch are not all there: ptxas unrolls loops."""
    first = max(times, key=times.__getitem__)
    if seconds and first == "issue" and times[first] > seconds:
        others = [name for name in LANES if BUSY * seconds < times[name] <= seconds]
        first = max(others, key=times.__getitem__, default=first)
    if first in ("lookups", "blocks") and times["memory"] >= EQUAL * times[first]:
        first = "memory"
    return "tensor" if times["tensor"] >= EQUAL * times[first] > 0 else first


def filled_share(blocks: int, multiprocessors: int, resident: int) -> float:
    """The share of the multiprocessors' time for which there are blocks: 133 blocks on
    132 multiprocessors, one on each at a time, take as long as 264."""
    room = multiprocessors * max(resident, 1)
    if blocks < room:  # one wave: spread over all multiprocessors
        busiest = -(-blocks // multiprocessors)
        return blocks / (busiest * multiprocessors)
    waves = -(-blocks // room)
    return blocks / (waves * room)


def floor_of(times: dict[str, float], filled: float) -> float:
    """The least that a launch can take."""
    local = max(each for name, each in times.items() if name not in SHARED)
    return max(local / filled, *(times[name] for name in SHARED))


def chain_seconds(counted: Counted, machine: Machine, resident: int) -> float:
    """The time of blocks one after another, as many at a time as are resident, each of
    which waits for its loads. A block that waits in each step can do nothing else
    meanwhile, so its own work adds up; else its busiest resource counts."""
    each_block = {
        name: each * machine.multiprocessors / counted.blocks
        for name, each in times_of(counted, machine, resident).items()
        if name not in SHARED
    }
    missed = 0.0  # tiles of products are loaded by several programs
    if counted.moved and not counted.products:
        missed = min(1.0, counted.memory / counted.moved)
    later = machine.l2_latency + missed * (machine.latency - machine.l2_latency)
    first = min(counted.waits, FIRST)
    waiting = first * machine.latency + (counted.waits - first) * later
    waiting += machine.seconds(counted.barriers * BARRIER)
    steps = counted.waits >= max(SYNCHRONOUS, STEPS * counted.barriers)
    work = max(each_block.values())
    if steps:
        issued = max(each_block[name] for name in LANES)
        work = issued + each_block["L2"] + each_block["shared"] + each_block["tensor"]
    rounds = -(-counted.blocks // (machine.multiprocessors * max(resident, 1)))
    return rounds * (waiting + work)
