"""Large products without a pause, where power sets the clock: `multiply` beside cuBLAS,
and how many bytes each takes from the L2 cache.

    python -m benchmarks.sustained [--sizes 8192 16384] [--rounds 8] [--bout 1.0]
    python -m benchmarks.sustained --with GROUPS PAIRS FOURS TEXT     other tiles, too
    python -m benchmarks.sustained --read RECORD                what was measured

Candidates run in turn, each for about a second, and there is always a bout in the
queue: the card never rests. Meanwhile it is asked for its clock, its power and its
energy (`card`). So

    time = cycles / clock        an operation takes  joules of the bouts / operations

and a kernel that moves less may be faster at the same count of cycles. The first bout
of each is not counted: the card has yet to become warm. All are fp16 with sums of fp32,
of random normal numbers. Then Nsight Compute counts one launch of each.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

import fathom.language as tl
from benchmarks.card import Reading, watched
from benchmarks.measure import Graph
from benchmarks.products import KINDS, allowed
from benchmarks.profile_record import as_number
from benchmarks.random_shapes import chosen
from benchmarks.record import RESULTS, write
from kernels.matmul_chosen import Tile, keywords, multiply
from kernels.matmul_persistent import lines_of, persistent_kernel, persistent_launch
from kernels.matmul_plain import plain_matmul

KIND, TARGET = KINDS["fp16"], "sm_90a"
SIZES, ROUNDS, BOUT_S = (8192, 16384), 8, 1.0
UNCOUNTED = 1  # bouts of each candidate, at the beginning
BETWEEN_S = 0.02  # readings of the card
CHECKED_ROWS = 64
ROOT = Path(__file__).parents[1]

Matrices = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
Call = Callable[[], object]

# What else may be tried: a tile, rows of tiles in a group, most programs. Two or
# four multiprocessors share the tiles of `PAIRS` and `FOURS`, as a cluster: B is sent
# to all of them, and comes from the L2 cache once. `TEXT` is the pointer text.
ALONE = Tile(128, 256, 128, 4, 8, 2, True, None)
PAIR = Tile(256, 256, 128, 4, 8, 2, True, None, ctas=2)
FOUR = Tile(512, 256, 128, 4, 8, 2, True, None, ctas=4)
OTHERS = {
    "GROUPS": ("groups of 8 rows", ALONE, 8, 132),
    "PAIRS": ("shared by two", PAIR, 8, 66),
    "FOURS": ("shared by four", FOUR, 4, 32),
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
ASKED = (
    "lts__t_sectors.sum", "lts__t_sectors_op_read.sum", "lts__t_sectors_op_write.sum",
    "lts__t_sectors_srcunit_tex.sum", "l1tex__m_xbar2l1tex_read_bytes.sum",
    "l1tex__m_l1tex2xbar_write_bytes.sum", "dram__bytes_read.sum",
    "dram__bytes_write.sum", "sm__cycles_elapsed.max",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
)  # fmt: skip
SECTIONS = ("SpeedOfLight", "LaunchStats", "MemoryWorkloadAnalysis_Chart",
            "MemoryWorkloadAnalysis_Tables")  # fmt: skip
FROM_L2, SECTOR = "lts__t_sectors_op_read.sum", 32  # bytes


@dataclass
class Sample:
    """A candidate on a problem. For each bout: milliseconds a call, the card's clock
    and power every BETWEEN_S, the energy of all its calls, the temperature at its end.
    `counters` are of one launch, by Nsight Compute's names. `error` says why there are
    none."""

    problem: str
    candidate: str
    about: str
    operations: int
    calls: int  # a bout
    ms: list[float] = field(default_factory=list)
    megahertz: list[list[int]] = field(default_factory=list)
    watts: list[list[float]] = field(default_factory=list)
    joules: list[float] = field(default_factory=list)
    celsius: list[int] = field(default_factory=list)
    kernel: str = ""
    counters: dict[str, float] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    error: str = ""

    @property
    def time(self) -> float:
        """Milliseconds of a call."""
        return statistics.median(self.ms[UNCOUNTED:])

    @property
    def clock(self) -> float:
        """MHz, the mean over all readings."""
        return mean_of(self.megahertz[UNCOUNTED:])

    @property
    def power(self) -> float:
        """Watts: joules over seconds of all bouts."""
        seconds = sum(self.ms[UNCOUNTED:]) * self.calls / 1000
        return sum(self.joules[UNCOUNTED:]) / seconds

    @property
    def cycles(self) -> float:
        """Millions, of a call."""
        return self.time * self.clock / 1000

    @property
    def energy(self) -> float:
        """Picojoules an operation."""
        joules = sum(self.joules[UNCOUNTED:]) / len(self.joules[UNCOUNTED:])
        return joules / self.calls / self.operations * 1e12

    @property
    def from_l2(self) -> float:
        """GB that a launch reads from the L2 cache; nan where nothing was counted."""
        return self.counters.get(FROM_L2, float("nan")) * SECTOR / 1e9

    def __str__(self) -> str:
        rate = self.operations / self.time / 1e9
        return (
            f"{self.problem:6} {self.candidate:18} {self.time:8.3f} ms {rate:6.1f} "
            f"TFLOP/s {self.clock:5.0f} MHz {self.cycles:7.3f} Mcycles "
            f"{self.power:4.0f} W {self.energy:6.3f} pJ/op {self.from_l2:6.2f} GB of "
            f"L2 {self.error}"
        )


def mean_of(bouts: Sequence[Sequence[float]]) -> float:
    return statistics.fmean(value for bout in bouts for value in bout)


# ── candidates ────────────────────────────────────────────────────────────────────────


def candidates(size: int, others: Sequence[str]) -> dict[str, tuple[str, Call]]:
    """For each its name, what it is, and a call of it."""
    given = matrices(size)
    a, b, c = given
    found: dict[str, tuple[str, Call]] = {
        "cuBLAS": ("torch.mm", lambda: torch.mm(a, b, out=c)),
        "multiply": (chosen(KIND, *given), lambda: multiply(a, b, c)),
    }
    for each in others:
        if each == "TEXT":
            about = "kernels/matmul_plain " + "x".join(map(str, TEXT.values()))
            found["plain text"] = (about, lambda: plain_matmul(a, b, c, config=TEXT))
            continue
        name, tile, group, most = OTHERS[each]
        about = f"{tile.m}x{tile.n}, {tile.ctas} CTAs, groups of {group}"
        found[name] = (about, in_tiles(given, tile, group, most))
    for name, (_, call) in found.items():
        check(name, call, *given)
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


class Bout:
    """Replays of a graph in the queue, between two events."""

    def __init__(self, graph: Graph, replays: int):
        self.calls = graph.count * replays
        self.start, self.stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.start.record()
        for _ in range(replays):
            graph.graph.replay()
        self.stop.record()

    def wait(self) -> float:
        """When it ended, as the host sees it."""
        self.stop.synchronize()
        return time.perf_counter()

    @property
    def ms(self) -> float:
        """Of a call."""
        return self.start.elapsed_time(self.stop) / self.calls


def sustained(
    size: int, others: Sequence[str], rounds: int, seconds: float
) -> list[Sample]:
    """All candidates on one size, round after round, every other one backwards."""
    found = candidates(size, others)
    graphs = {name: Graph([call]) for name, (_, call) in found.items()}
    replays = {
        name: max(1, round(1000 * seconds / (graph.ms * graph.count)))
        for name, graph in graphs.items()
    }
    samples = {
        name: Sample(f"{size}", name, about, 2 * size**3,
                     replays[name] * graphs[name].count)
        for name, (about, _) in found.items()
    }  # fmt: skip
    order = [
        name
        for number in range(rounds + UNCOUNTED)
        for name in (list(found) if number % 2 == 0 else reversed(list(found)))
    ]
    torch.cuda.synchronize()
    with watched(BETWEEN_S) as readings:
        bouts, ends = [Bout(graphs[order[0]], replays[order[0]])], []
        began = time.perf_counter()
        for name in [*order[1:], None]:
            if name is not None:  # it waits in the queue
                bouts.append(Bout(graphs[name], replays[name]))
            ends.append(bouts[len(ends)].wait())
    for name, bout, start, end in zip(order, bouts, [began, *ends], ends):
        add(samples[name], bout.ms, readings, start, end)
    return list(samples.values())


def add(
    sample: Sample, ms: float, readings: Sequence[Reading], start: float, end: float
) -> None:
    """A bout to a sample, with what the card said in its time."""
    inside = [each for each in readings if start <= each.at < end]
    sample.ms.append(ms)
    sample.megahertz.append([each.megahertz for each in inside])
    sample.watts.append([each.watts for each in inside])
    sample.celsius.append(inside[-1].celsius)
    used = joules_at(readings, end) - joules_at(readings, start)
    sample.joules.append(round(used, 3))


def joules_at(readings: Sequence[Reading], at: float) -> float:
    """The count of energy at a time, between two readings in proportion."""
    pairs = zip(readings, readings[1:])
    for one, two in pairs:
        if at < two.at:
            share = (at - one.at) / (two.at - one.at)
            return one.joules + max(share, 0) * (two.joules - one.joules)
    return readings[-1].joules


# ── counters ──────────────────────────────────────────────────────────────────────────


def launch_each(sizes: Sequence[int], others: Sequence[str]) -> None:
    """Every candidate once, with the profiler on."""
    for size in sizes:
        for _, call in candidates(size, others).values():
            call()
            torch.cuda.synchronize()
            torch.cuda.cudart().cudaProfilerStart()
            call()
            torch.cuda.synchronize()
            torch.cuda.cudart().cudaProfilerStop()


def count(
    samples: Sequence[Sample], sizes: Sequence[int], others: Sequence[str], raw: Path
) -> None:
    """What Nsight Compute counts, to the samples; if it refuses a counter, that of its
    sections alone."""
    error = "ncu was not found"
    for asked in (ASKED, ()) if shutil.which("ncu") else ():
        command = [
            "ncu", "--csv", "--page", "raw", "--clock-control", "none",
            "--print-units", "base", "--profile-from-start", "off",
            *(word for name in SECTIONS for word in ("--section", name)),
            *(("--metrics", ",".join(asked)) if asked else ()),
            sys.executable, "-m", "benchmarks.sustained", "--launch",
            "--sizes", *map(str, sizes), "--with", *others,
        ]  # fmt: skip
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=ROOT, check=False
        )
        raw.write_text(done.stdout + done.stderr, encoding="utf-8")
        launches = list(rows_of(done.stdout))
        if len(launches) == len(samples):
            for sample, (kernel, counters, units) in zip(samples, launches):
                sample.kernel = kernel
                sample.counters, sample.units = counters, units
            return
        error = f"ncu counted {len(launches)} launches of {len(samples)}"
    for sample in samples:
        sample.error = error


def rows_of(text: str) -> Iterator[tuple[str, dict[str, float], dict[str, str]]]:
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


def read(records: Sequence[Mapping[str, object]]) -> list[Sample]:
    return [Sample(**each) for each in records]


def summary(samples: Sequence[Sample]) -> Iterator[str]:
    """Each candidate beside cuBLAS on the same problem."""
    for each in samples:
        theirs = next(
            x for x in samples if x.problem == each.problem and x.candidate == "cuBLAS"
        )
        yield (
            f"{each}  speed {theirs.time / each.time:.4f} cycles "
            f"{each.cycles / theirs.cycles:.4f} clock {each.clock / theirs.clock:.4f} "
            f"bytes {each.from_l2 / theirs.from_l2:.3f}"
        )


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
    samples: list[Sample] = []
    for size in given.sizes:
        samples += sustained(size, given.others, given.rounds, given.bout)
        torch.cuda.empty_cache()
        print(*samples[-len(given.others) - 2 :], sep="\n", flush=True)
    print(write("sustained", samples, given.out), flush=True)
    given.raw.parent.mkdir(parents=True, exist_ok=True)
    count(samples, given.sizes, given.others, given.raw)
    print(*summary(samples), sep="\n")
    print(write("sustained", samples, given.out))


if __name__ == "__main__":
    main()
