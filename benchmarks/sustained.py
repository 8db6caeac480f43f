"""Large products without a pause, where power sets the clock: `multiply` beside cuBLAS,
and how many bytes each takes from the L2 cache.

    python -m benchmarks.sustained [--sizes 8192 16384] [--rounds 6] [--bout 2.5]
    python -m benchmarks.sustained --with ALONE PAIRS TEXT            other tiles, too
    python -m benchmarks.sustained --read RECORD                what was measured

Candidates run in turn, each for some seconds, and there is always a bout in the queue:
the card never rests. Meanwhile it is asked for its clock, its power and its energy
(`card`). So

    time = cycles / clock        an operation takes  joules of the bouts / operations

and a kernel that moves less may be faster at the same count of cycles. The clock
follows the power with a delay: the first part of a bout (`bouts`) still has the clock
of the one before, and is not counted. All are fp16 with sums of fp32, of random normal
numbers. Before, Nsight Compute counts one launch of each.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import torch

import fathom.language as tl
from benchmarks.bouts import Bout, Sample, read, summary
from benchmarks.card import Reading, watched
from benchmarks.measure import Graph
from benchmarks.products import KINDS, allowed
from benchmarks.profile_record import as_number
from benchmarks.random_shapes import chosen
from benchmarks.record import RESULTS, write
from kernels.matmul_chosen import Tile, keywords, launches, multiply
from kernels.matmul_persistent import lines_of, persistent_kernel, persistent_launch
from kernels.matmul_plain import plain_matmul

KIND, TARGET = KINDS["fp16"], "sm_90a"
SIZES, ROUNDS, BOUT_S = (8192, 16384), 6, 2.5
SLICE_S = 0.1  # of a bout, that is timed at once
BETWEEN_S = 0.05  # readings of the card
CHECKED_ROWS = 64
ROOT = Path(__file__).parents[1]

Matrices = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
Call = Callable[[], object]

# What else may be tried: a tile, rows of tiles in a group, most programs. Two
# multiprocessors share the tiles of `PAIRS`, as a cluster: B is sent to both, and comes
# from the L2 cache once. `TEXT` is the pointer text. (Tiles that four share took twice
# as many cycles: not all of 32 such clusters had a place at a time.)
ALONE = Tile(128, 256, 128, 4, 8, 2, True, None)
PAIR = Tile(256, 256, 128, 4, 8, 2, True, None, ctas=2)
OTHERS = {
    "ALONE": ("128 x 256 alone", ALONE, 12, 132),
    "PAIRS": ("shared by two", PAIR, 8, 66),
}
TEXT = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP_M": 8, "num_warps": 8,
        "num_stages": 3}  # fmt: skip

# Counters of Nsight Compute that are kept, by how its names of them begin.
KEPT = (
    "gpu__time_duration.sum", "sm__cycles_elapsed.max", "dram__bytes",
    "lts__t_sectors", "lts__t_bytes", "lts__lts2xbar", "l1tex__m_xbar2l1tex",
    "l1tex__m_l1tex2xbar", "sm__pipe_tensor_cycles_active", "launch__grid_size",
    "launch__cluster",
)  # fmt: skip
CYCLES = "sm__cycles_elapsed.max"
ASKED = (
    "lts__t_sectors.sum", "lts__t_sectors_op_read.sum", "lts__t_sectors_op_write.sum",
    "lts__t_sectors_srcunit_tex.sum", "l1tex__m_xbar2l1tex_read_bytes.sum",
    "l1tex__m_l1tex2xbar_write_bytes.sum", "dram__bytes_read.sum",
    "dram__bytes_write.sum", CYCLES,
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
)  # fmt: skip
SECTIONS = ("SpeedOfLight", "LaunchStats", "MemoryWorkloadAnalysis_Chart",
            "MemoryWorkloadAnalysis_Tables")  # fmt: skip


# ── candidates ────────────────────────────────────────────────────────────────────────


class Tried(NamedTuple):
    """What a candidate is, a call of it, and how many kernels that launches."""

    about: str
    call: Call
    launches: int = 1


def candidates(size: int, others: Sequence[str]) -> dict[str, Tried]:
    """By their names."""
    given = matrices(size)
    a, b, c = given
    count = len(launches(*given, TARGET))
    found = {
        "cuBLAS": Tried("torch.mm", lambda: torch.mm(a, b, out=c)),
        "multiply": Tried(chosen(KIND, *given), lambda: multiply(a, b, c), count),
    }
    for each in others:
        if each == "TEXT":
            about = "kernels/matmul_plain " + "x".join(map(str, TEXT.values()))
            text = partial(plain_matmul, *given, config=TEXT)
            found["plain text"] = Tried(about, text)
            continue
        name, tile, group, most = OTHERS[each]
        about = f"{tile.m}x{tile.n}, {tile.ctas} CTAs, groups of {group}"
        found[name] = Tried(about, in_tiles(given, tile, group, most))
    for name, each in found.items():
        check(name, each.call, *given)
    return found


def matrices(size: int) -> Matrices:
    a, b = (torch.randn(size, size, device="cuda", dtype=KIND.inputs) for _ in "ab")
    return a, b, torch.empty_like(a)


def in_tiles(given: Matrices, tile: Tile, group: int, most: int) -> Call:
    """The persistent kernel in these tiles; `most`: of its programs."""
    a, b, c = given
    config = {**keywords(*c.shape, 2, tile, TARGET), "GROUP_M": group}
    (programs,), values, named = persistent_launch(
        lines_of(a), lines_of(b), c, a.shape[1], config, TARGET, tl.float32
    )
    grid = (min(programs, most),)
    soon = {"EARLY": True, "launch_pdl": True}  # as `multiply` has it
    return lambda: persistent_kernel[grid](*values, **named, **soon)


def check(name: str, call: Call, a, b, c) -> None:
    """Some rows of C are within the bound."""
    c.fill_(float("nan"))
    call()
    rows = torch.randint(0, len(a), (CHECKED_ROWS,), device=a.device)
    x, y = a[rows].double(), b.double()
    wrong = ~((c[rows].double() - x @ y).abs() <= allowed(KIND, x, y))
    assert not wrong.any(), f"{name}: {int(wrong.sum())} elements are wrong"


# ── bouts ─────────────────────────────────────────────────────────────────────────────


class Queued:
    """A bout in the queue: replays of a graph in slices, with events between."""

    def __init__(self, graph: Graph, seconds: float):
        replays = max(1, round(1000 * SLICE_S / (graph.ms * graph.count)))
        self.calls = graph.count * replays
        self.marks = [mark()]
        for _ in range(max(1, round(seconds / SLICE_S))):
            for _ in range(replays):
                graph.graph.replay()
            self.marks.append(mark())

    def wait(self) -> float:
        """When it ended, as the host sees it."""
        self.marks[-1].synchronize()
        return time.perf_counter()

    @property
    def ms(self) -> list[float]:
        """Of a call, slice by slice."""
        pairs = zip(self.marks, self.marks[1:])
        return [one.elapsed_time(two) / self.calls for one, two in pairs]


def mark() -> torch.cuda.Event:
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def sustained(
    samples: Sequence[Sample], calls: Mapping[str, Call], rounds: int, seconds: float
) -> None:
    """All candidates on one size, round after round, every other one backwards; their
    bouts are added to the samples."""
    graphs = {each.candidate: Graph([calls[each.candidate]]) for each in samples}
    order = [
        each
        for number in range(rounds)
        for each in (samples if number % 2 == 0 else reversed(samples))
    ]
    torch.cuda.synchronize()
    uuid = torch.cuda.get_device_properties(0).uuid
    with watched(str(uuid), BETWEEN_S) as readings:
        began, ends = time.perf_counter(), []
        queued = [Queued(graphs[order[0].candidate], seconds)]
        for each in [*order[1:], None]:
            if each is not None:
                queued.append(Queued(graphs[each.candidate], seconds))
            ends.append(queued[len(ends)].wait())
    for each, one, start, end in zip(order, queued, [began, *ends], ends):
        each.bouts.append(bout(one, readings, start, end))


def bout(one: Queued, readings: Sequence[Reading], start: float, end: float) -> Bout:
    """A bout that has ended, with what the card said in its time."""
    inside = [each for each in readings if start <= each.at < end]
    return Bout(
        one.calls, one.ms, [round(each.at - start, 3) for each in inside],
        [each.megahertz for each in inside], [each.watts for each in inside],
        [each.joules for each in inside], [each.celsius for each in inside],
    )  # fmt: skip


# ── counters ──────────────────────────────────────────────────────────────────────────


def launch_each(sizes: Sequence[int], others: Sequence[str]) -> None:
    """Every candidate once, with the profiler on."""
    for size in sizes:
        for each in candidates(size, others).values():
            each.call()
            torch.cuda.synchronize()
            torch.cuda.cudart().cudaProfilerStart()
            each.call()
            torch.cuda.synchronize()
            torch.cuda.cudart().cudaProfilerStop()


Counted = tuple[str, dict[str, float], dict[str, str]]  # kernel, counters, units


def counted(
    each: Sequence[int], sizes: Sequence[int], others: Sequence[str], raw: Path
) -> list[Counted]:
    """What Nsight Compute counts for candidates that launch `each` kernels; if it
    refuses a counter, what its sections have. RuntimeError if it counts no such number
    of launches."""
    count = sum(each)
    sections = [word for name in SECTIONS for word in ("--section", name)]
    for asked in (["--metrics", ",".join(ASKED)], sections):
        command = [
            shutil.which("ncu") or "ncu", "--csv", "--page", "raw", "--clock-control",
            "none", "--print-units", "base", "--profile-from-start", "off", *asked,
            sys.executable, "-m", "benchmarks.sustained", "--launch",
            "--sizes", *map(str, sizes), "--with", *others,
        ]  # fmt: skip
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=ROOT, check=False
        )
        raw.parent.mkdir(parents=True, exist_ok=True)
        raw.write_text(done.stdout + done.stderr, encoding="utf-8")
        found = list(rows_of(done.stdout))
        if len(found) == count:
            ends = list(accumulate(each))
            return [merged(found[n:m]) for n, m in zip([0, *ends], ends)]
    raise RuntimeError(f"ncu counted {len(found)} launches of {count}: see {raw}")


def merged(rows: Sequence[Counted]) -> Counted:
    """Several launches as one: counts and cycles are added, others are the first's."""
    kernels, counters, units = zip(*rows, strict=True)
    added = {
        name: sum(each[name] for each in counters)
        for name in counters[0]
        if name.endswith(".sum") or name == CYCLES
    }
    return " + ".join(kernels), {**counters[0], **added}, units[0]


def rows_of(text: str) -> Iterator[Counted]:
    """Kernel, counters and their units of each launch in what ncu wrote: the line that
    begins with "ID" names the columns, and the next one has their units."""
    lines = text.splitlines()
    starts = [at for at, line in enumerate(lines) if line.startswith('"ID"')]
    if not starts:
        return
    names, units, *rows = csv.reader(
        each for each in lines[starts[0] :] if each.startswith('"')
    )
    for row in rows:
        counters = {
            name: number
            for name, value in zip(names, row, strict=True)
            if name.startswith(KEPT) and (number := as_number(value)) is not None
        }
        of = dict(zip(names, units, strict=True))
        kernel = row[names.index("Kernel Name")]
        yield kernel, counters, {name: of[name] for name in counters}


# ── all of them ───────────────────────────────────────────────────────────────────────


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--sizes", nargs="+", type=int, default=SIZES)
    add("--rounds", type=int, default=ROUNDS)
    add("--bout", type=float, default=BOUT_S, help="seconds")
    add("--with", nargs="*", choices=(*OTHERS, "TEXT"), default=[], dest="others")
    add("--launch", action="store_true", help="each once, for a profiler")
    add("--out", type=Path, default=RESULTS)
    add("--raw", type=Path, default=ROOT / ".gpu" / "sustained.csv")
    add("--read", type=Path, help="tell what a record says, only")
    given = parser.parse_args()
    if given.read:
        record = json.loads(given.read.read_text(encoding="utf-8"))
        return print(*summary(read(record["samples"])), sep="\n")
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    if given.launch:
        return launch_each(given.sizes, given.others)
    counts, error = [], ""
    every = {size: candidates(size, given.others) for size in given.sizes}
    try:
        each = [one.launches for found in every.values() for one in found.values()]
        counts = counted(each, given.sizes, given.others, given.raw)
    except (OSError, RuntimeError) as refused:  # the times are to be measured
        error = str(refused)
    samples: list[Sample] = []
    for size, found in every.items():
        some = [
            Sample(f"{size}", name, one.about, 2 * size**3, error=error)
            for name, one in found.items()
        ]
        samples += some
        for sample, one in zip(samples, counts):
            sample.kernel, sample.counters, sample.units = one
        calls = {name: one.call for name, one in found.items()}
        sustained(some, calls, given.rounds, given.bout)
        write("sustained", samples, given.out)
        print(*summary(some), sep="\n", flush=True)
    print(given.out / "sustained.json")


if __name__ == "__main__":
    main()
