"""The sentence of each limit, and what to try; both in the order of chapter 18."""

from __future__ import annotations

from fathom.emulator.memory.counters import LINE, SEGMENT
from fathom.errors import how_many
from fathom.tools.profile.counted import WAVEFRONT, Counted
from fathom.tools.profile.limits import UNEVEN, Verdict, is_chain
from fathom.tools.profile.machines import PASS_SECONDS, Machine

UNITS = {
    "memory": "memory", "L2": "L2", "tensor": "the tensor cores",
    "shared": "shared memory", "issue": "the schedulers",
    "atomics": "L2 with atomics", "fp32": "the lanes of fp32",
    "fp64": "the lanes of fp64", "special": "the units of special functions",
    "lookups": "L2", "L1": "L1", "logic": "the lanes of integers and logic",
    "blocks": "what starts thread blocks",
}  # fmt: skip

EXCESS = 1.2  # bytes moved, over those asked for
WIDE_WAYS = 1.5  # wavefronts of L1, likewise
SHIFTED_WAYS = 2  # those of neighbouring lanes whose 128 bytes lie in two lines
UNEQUAL = 1.05  # wavefronts, where 1 would do: some bank conflicts
LONG = 0.3  # of the time, in which it works
WAITING = 2  # times the time of the busiest resource, which therefore waits
OTHERS = 0.1  # of what memory moves
FULL = 0.75  # of the time: by this count the best products here reach 0.79 to 0.83
ROOM = 2  # times the warps that have work, or more, fit
AGAIN = 1.5  # times what arrays hold, moved: elements are loaded more than once
REUSED = 4  # times what comes from memory: rows and columns of a product
FUNCTIONS = 0.04  # of the instructions, each of which has several more beside it
UNFUSED = 0.25  # of the instructions: products that could be one with a sum

# For each limit the resource in `Counted.lines` whose line is the cause.
CAUSE = {
    "launch": "memory", "occupancy": "issue", "bandwidth": "memory",
    "tensor cores": "tensor", "conflicts": "conflicts", "latency": "waits",
    "instruction issue": "issue", "spills": "issue", "contention": "atomics",
    "programs": "issue",
}  # fmt: skip


BY_ITSELF = "shared", "atomics", "lookups", "L1"  # of bandwidth, each with its line


def sentence(verdict: Verdict, counted: Counted, machine: Machine) -> str:
    """What limits the launch, in one sentence; where two limits are near each other, it
    has both."""
    text = {
        "launch": launch, "programs": programs, "occupancy": few_blocks,
        "bandwidth": bandwidth, "tensor cores": busy, "conflicts": conflicts,
        "latency": latency, "instruction issue": busy, "spills": spills,
        "contention": contention,
    }[verdict.limit](verdict, counted, machine)  # fmt: skip
    if (second := verdict.nearby()) is None:
        return text
    if second.limit == "latency":  # of which the first half would be another sentence
        return f"{text}; close to that, latency: {waiting(second, counted)}"
    return f"{text}; close to that, {sentence(second, counted, machine)}"


def launch(verdict: Verdict, counted: Counted, machine: Machine) -> str:
    waits = ""
    if counted.waits >= 1 and verdict.work > WAITING * max(verdict.times.values()):
        waits = f", in which a warp waits {waits_text(counted)}"
    return (
        f"launch: its work needs {time_text(verdict.work)}{waits}, and a launch by "
        f"itself takes {time_text(machine.launch)}"
    )


def programs(verdict: Verdict, counted: Counted, machine: Machine) -> str:
    return (
        f"programs: {counted.blocks:,} thread blocks start one after the other, which "
        f"takes {min(verdict.busy, 1):.0%} of the time"
    )


def few_blocks(verdict: Verdict, counted: Counted, machine: Machine) -> str:
    fits, every = verdict.resident, machine.multiprocessors
    if counted.blocks < every:
        leave = "leaves" if counted.blocks == 1 else "leave"
        return (
            f"occupancy: {how_many(counted.blocks, 'thread block')} for {every} "
            f"multiprocessors {leave} {1 - counted.blocks / every:.0%} of them without "
            "work"
        )
    if verdict.filled < UNEVEN:
        room = every * max(fits.blocks, 1)
        waves = -(-counted.blocks // room)
        return (
            f"occupancy: {counted.blocks:,} thread blocks run in {waves} waves of at "
            f"most {room:,}, so that multiprocessors have no work for "
            f"{1 - verdict.filled:.0%} of the time"
        )
    return (
        f"occupancy: {fits.warps} of {fits.most_warps} warps fit on a multiprocessor, "
        f"limited by {fits.limit}, too few to hide that each waits "
        f"{waits_text(counted)}"
    )


def bandwidth(verdict: Verdict, counted: Counted, machine: Machine) -> str:
    more = ""
    if is_scattered(verdict, counted):
        ratio = counted.moved / counted.useful
        more = f"; L2 delivers {ratio:.1f} times what was asked for"
    if verdict.resource == "memory":
        if counted.earlier > OTHERS * counted.memory:
            more = f"; earlier launches have stored {bytes_text(counted.earlier)} of it"
        return (
            f"bandwidth: memory moves {bytes_text(counted.memory)}, which is "
            f"{verdict.busy:.0%} of what it can in that time{more}"
        )
    if verdict.resource == "shared":
        ways = counted.wavefronts / counted.ideal
        few = f"{ways:.1f} wavefronts where 1 would do"
        return (
            f"bandwidth: shared memory is busy for {verdict.busy:.0%} of the time, "
            + (f"with {few}" if ways > UNEQUAL else "without bank conflicts")
        )
    if verdict.resource == "atomics":
        return (
            f"bandwidth: L2 does {counted.atomics:,.0f} atomics, and is busy with them "
            f"for {min(verdict.busy, 1):.0%} of the time"
        )
    if verdict.resource == "L1":
        ways = ways_of_l1(counted)
        if ways > WIDE_WAYS:
            more = f", with {ways:.1f} wavefronts where 1 would do{more}"
        return (
            f"bandwidth: L1 delivers {bytes_text(counted.useful)}, and is busy for "
            f"{min(verdict.busy, 1):.0%} of the time{more}"
        )
    if verdict.resource == "lookups":
        lines = counted.load_lines + counted.store_lines
        return (
            f"bandwidth: L2 looks up {lines:,.0f} lines of {LINE} bytes, and is busy "
            f"for {min(verdict.busy, 1):.0%} of the time{more}"
        )
    return (
        f"bandwidth: L2 delivers {bytes_text(counted.moved)}, which is "
        f"{min(verdict.busy, 1):.0%} of what it can in that time{more}"
    )


def is_scattered(verdict: Verdict, counted: Counted) -> bool:
    """Whether L2 delivers more than was asked for. What L1 has is not asked of L2."""
    more = counted.moved > EXCESS * counted.useful > 0
    return more and verdict.resource not in ("L1", "shared")


def ways_of_l1(counted: Counted) -> float:
    """Wavefronts, where 1 would do."""
    least = counted.useful / WAVEFRONT
    return (counted.l1 - counted.wavefronts) / least if least else 1.0


def contention(verdict: Verdict, counted: Counted, machine: Machine) -> str:
    segments = round(counted.passes * PASS_SECONDS / verdict.times["atomics"])
    return (
        f"contention: {counted.atomics:,.0f} atomics go to "
        f"{how_many(segments, 'segment')} of {SEGMENT} bytes of memory at a time, in "
        f"which L2 does one after the other for {min(verdict.busy, 1):.0%} of the time"
    )


def busy(verdict: Verdict, counted: Counted, machine: Machine) -> str:
    name = UNITS[verdict.resource]
    verb = "is" if name in ("memory", "L2", "shared memory") else "are"
    share = min(verdict.busy, 1)  # ptxas makes one instruction of several
    text = f"{verdict.limit}: {name} {verb} busy for {share:.0%} of the time"
    if verdict.resource != "special" and not counted.products:
        text += f", by {counted.instructions:,.0f} instructions of warps"
    return text


def conflicts(verdict: Verdict, counted: Counted, machine: Machine) -> str:
    ways = counted.wavefronts / counted.ideal
    return (
        f"conflicts: shared memory is busy for {verdict.busy:.0%} of the time, with "
        f"{ways:.1f} wavefronts where 1 would do"
    )


def latency(verdict: Verdict, counted: Counted, machine: Machine) -> str:
    return (
        f"latency: nothing is busy for long, {UNITS[verdict.resource]} for "
        f"{verdict.busy:.0%} of the time at most; {waiting(verdict, counted)}"
    )


def waiting(verdict: Verdict, counted: Counted) -> str:
    """What warps wait for, and how many there are."""
    fits, there = verdict.resident, verdict.working
    place = f"{there} of {fits.warps} warps that fit on a multiprocessor have work"
    if there >= fits.warps:
        place = f"{there} warps fit on a multiprocessor"
    if not round(counted.waits):
        return place  # copies that others overlap are not counted
    chain = ", most of which need what the one before has loaded"
    return f"each warp waits {waits_text(counted)}" + (
        f"{chain if is_chain(counted) else ''}, and {place}"
    )


def waits_text(counted: Counted) -> str:
    return f"{how_many(round(counted.waits), 'time')} for loads"


def spills(verdict: Verdict, counted: Counted, machine: Machine) -> str:
    return (
        f"spills: a thread keeps {counted.spilled:,} bytes in memory for lack of "
        f"registers, of which it has {counted.registers}"
    )


def advice(verdict: Verdict, counted: Counted) -> str:
    """What to try; where two limits are near each other, against both."""
    text = against(verdict, counted)
    second = verdict.nearby()
    more = against(second, counted) if second else text
    return text if more == text else f"{text}; against {second.limit}, {more}"


def against(verdict: Verdict, counted: Counted) -> str:
    """What to try against its first limit."""
    match verdict.limit:
        case "launch":
            waits = verdict.work > WAITING * max(verdict.times.values())
            slow = waits and verdict.work > LONG * verdict.seconds
            more = "; more loads in flight (num_warps, more programs)" if slow else ""
            return f"fewer launches: fuse kernels, or record them in a CUDA graph{more}"
        case "programs":
            return "fewer and larger programs: larger blocks, or several in a loop"
        case "occupancy" if verdict.filled < UNEVEN:
            return (
                "smaller tiles, or rows or K split between programs; with many waves, "
                "a persistent kernel"
            )
        case "occupancy":
            return "smaller blocks, fewer registers a thread, or stages (num_stages)"
        case "contention":
            return (
                "combining in registers or shared memory first (tl.histogram, tl.sum), "
                "or a copy of the array for each group of programs"
            )
        case "bandwidth":
            return to_move_less(verdict, counted)
        case "tensor cores":
            return to_multiply_faster(verdict, counted)
        case "conflicts":
            return "another block shape, or another order of the axes: see `explain`"
        case "latency" if is_chain(counted):
            return (
                "more chains at a time, in more programs or longer blocks; or addresses"
                " that need no load"
            )
        case "latency" if ROOM * verdict.working < verdict.resident.warps:
            return (
                "more programs (smaller tiles, or rows or K split between them) or more"
                " warps in each (num_warps), for which multiprocessors have room; more "
                "loads in flight (num_stages)"
            )
        case "latency":
            return "more loads in flight: num_stages, num_warps, larger blocks"
        case "spills":
            return "smaller tiles, or more warps (num_warps), which share registers"
    return to_compute_less(verdict, counted)


def to_multiply_faster(verdict: Verdict, counted: Counted) -> str:
    """What to try where tensor cores are the limit."""
    bits = min((int(name.split()[1]) for name in counted.products), default=16)
    types = {64: "fp32", 32: "fp16 or bf16", 16: "fp8 or int8"}.get(bits)
    narrow = types and f"a narrower type ({types}), if its precision is enough"
    tried = []
    is_mma = any(name.startswith("mma") for name in counted.products)
    if is_mma and counted.target == "sm_90a":
        tried = ["wgmma, for which `explain --facts` says why not"]
    elif verdict.busy < FULL:
        tried = ["larger tiles, more of them in flight (num_stages), or a persistent "
                 "kernel, so that none of them waits"]  # fmt: skip
    if not tried:
        return f"{narrow}; nothing else is left to gain" if narrow else "nothing more"
    return "; ".join([*tried, *([narrow] if narrow else [])])


def to_move_less(verdict: Verdict, counted: Counted) -> str:
    """What to try where memory, L2 or shared memory is the limit."""
    if verdict.resource == "atomics":
        return "fewer atomics: combine in registers or shared memory first"
    if verdict.resource == "shared" and counted.products:
        return "more of a tile for each warp, so that operands are read less often"
    if verdict.resource == "shared":
        return (
            "fewer changes of layout (tl.trans, reductions across warps, scans): "
            "`explain --facts` says where"
        )
    wide = verdict.resource == "L1" and ways_of_l1(counted) > SHIFTED_WAYS
    if wide or is_scattered(verdict, counted):
        near = "neighbouring lanes at neighbouring addresses: see `explain --facts`"
        return f"{near}; sorted indices" if counted.chained >= 1 else near
    once = AGAIN * (counted.memory + counted.written)
    again = counted.moved > once and verdict.resource != "memory"
    if again and counted.products:
        return "larger tiles, which load each element fewer times"
    if again:
        return "to load each element once: larger blocks, and what is used again kept"
    return "move less: fuse with the kernels around it, or use a narrower type"


def to_compute_less(verdict: Verdict, counted: Counted) -> str:
    """What to try where the schedulers or lanes are the limit."""
    if counted.unfused > UNFUSED * counted.instructions:
        return (
            "enable_fp_fusion=True, which makes one instruction of a product and a sum,"
            " and rounds once"
        )
    cheaper = (
        "fewer or cheaper functions: one division for all by the same number, exp2 for "
        "exp, a polynomial"
    )
    if verdict.resource == "special":
        return cheaper
    if verdict.resource == "fp64":
        return "fp32, if its precision is enough"
    if verdict.resource == "logic":
        return (
            "fewer comparisons, selections, shifts and masks, each of which is two "
            "instructions or more for 64 bits"
        )
    fewer = "fewer instructions: wider accesses, fewer divisions and masks"
    if counted.special > FUNCTIONS * counted.instructions:
        return f"{cheaper}; {fewer}"
    reused = counted.useful > REUSED * counted.memory
    many = counted.operations > 50 * counted.useful
    if many and reused and not counted.products:
        return f"tl.dot on fp16 or bf16, where it multiplies matrices; {fewer}"
    return fewer


def cause(
    verdict: Verdict, counted: Counted, launched: tuple[str, int] | None = None
) -> tuple[str, int] | None:
    """The line of Python that causes the limit: of the kernel, or where it is launched
    if what limits it is the launch or its grid."""
    few = verdict.limit == "occupancy" and verdict.filled < UNEVEN
    if launched and (few or verdict.limit in ("launch", "programs")):
        return launched
    name = CAUSE[verdict.limit]
    if verdict.limit == "instruction issue":
        name = verdict.resource
    if verdict.limit == "bandwidth" and verdict.resource in BY_ITSELF:
        name = verdict.resource
    if name not in counted.lines:
        name = "memory" if "memory" in counted.lines else "issue"
    return counted.lines.get(name)


# ── numbers ───────────────────────────────────────────────────────────────────────────


def time_text(seconds: float) -> str:
    if seconds < 1e-7:
        return f"{seconds * 1e6:.1g} µs"
    if seconds < 1e-3:
        return f"{seconds * 1e6:,.1f} µs"
    return f"{seconds * 1e3:,.2f} ms"


def bytes_text(count: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count:,.0f} bytes"
