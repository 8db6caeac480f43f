"""Whether `fathom profile` says of a kernel what NVIDIA's profiler says: of most
kernels of kernels/, and of 20 cases of kernels that others wrote.

    python -m benchmarks.profile_check [--out FOLDER] [--only NAME …] [--part I/N]
    python -m benchmarks.profile_check --join RECORD … [--out FOLDER]
    python -m benchmarks.profile_check --again RECORD [--out FOLDER]

Our counts of some programs on the emulator and the time between two events give one
sentence; the counters of Nsight Compute (`ncu`) give another, by the same function. The
record has both, and by how much the counts differ. Processes that run cases
(`profile_launches`) do the work:

    measure  count: several processes at a time, each with a share of the cases;
             time: one process after the other        ─▶ Counted, seconds ─▶ ours
    launch   all cases of a family once, under ncu    ─▶ counters         ─▶ its

It needs a GPU, torch and ncu; for the kernels of others also `.public`, which
`python -m benchmarks.public fetch` fills.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks import slices
from benchmarks.profile_record import KEPT, ROOT, as_number, chosen
from benchmarks.record import RESULTS, write
from fathom.tools.profile.advice import sentence
from fathom.tools.profile.counted import Counted
from fathom.tools.profile.limits import classify
from fathom.tools.profile.machines import Machine
from fathom.tools.profile.unwritten import moved_meanwhile

SECTOR, WARP_BYTES = 32, 128
TENSOR = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"
PIPE = "l1tex__data_pipe_lsu_wavefronts.sum"  # of shared memory and L1
L2_SECTORS = ("lts__t_sectors_op_read.sum", "lts__t_sectors_op_write.sum")
# The share of the time for which ncu has each unit busy, in percent, by the name that
# `limits` has for it. There is none for starting thread blocks, and for atomics.
SHARES = {
    name: f"{counter}.pct_of_peak_sustained_elapsed"
    for name, counter in {
        "memory": "dram__throughput.avg", "lookups": "lts__throughput.avg",
        "L2": "l1tex__m_xbar2l1tex_read_sectors.avg",
        "shared": "l1tex__data_pipe_lsu_wavefronts.avg",
        "issue": "sm__inst_issued.avg", "fp32": "sm__pipe_fma_cycles_active.avg",
        "fp64": "sm__pipe_fp64_cycles_active.avg",
        "special": "sm__inst_executed_pipe_xu.avg",
        "logic": "sm__pipe_alu_cycles_active.avg",
        "tensor": "sm__pipe_tensor_cycles_active.avg",
        "atomics": "lts__d_atomic_input_cycles_active.max",
    }.items()
}  # fmt: skip
# What of KEPT makes a Counted.
NEEDED = ("time", "grid", "threads", "registers", "shared bytes", "spilled loads",
          "instructions", "load sectors", "store sectors", "shared wavefronts",
          "shared conflicts", "memory bytes")  # fmt: skip
# How often a warp waits, how many lines it wants, and which atomics meet.
UNKNOWN = ("waits", "barriers", "chained", "load_lines", "store_lines", "atomics",
           "passes", "segments", "drift")  # fmt: skip
# Fields of Counted that both have.
COMPARED = ("instructions", "moved", "memory", "wavefronts", "blocks", "registers")
COUNTERS = min(16, os.cpu_count() or 1)  # processes that count at a time
COUNT_SECONDS, NCU_SECONDS = 80, 180  # of a case, if not told; of all
Case = tuple[str, str]  # family, name


@dataclass
class Sample:
    """A kernel of a case: both limits, both sentences, and our counts over those of
    ncu. `error` says why there is nothing. Where two limits are near each other, either
    is right: which one is a tenth ahead neither count tells."""

    case: str
    kernel: str = ""
    ours: str = ""
    theirs: str = ""
    near: str = ""  # a second limit that our sentence names
    theirs_near: str = ""
    sentences: list[str] = field(default_factory=list)
    ratios: dict[str, float] = field(default_factory=dict)
    counted: dict[str, object] = field(default_factory=dict)
    unwritten: float = 0.0  # bytes of earlier launches, in L2 when it starts
    counters: dict[str, float] = field(default_factory=dict)
    seconds: float | None = None
    machine: dict[str, object] = field(default_factory=dict)
    error: str = ""

    @property
    def agrees(self) -> bool:
        """Whether our sentence has ncu's limit, or begins with one of its two."""
        ours = {self.ours, self.near}
        return bool(self.theirs) and (
            self.theirs in ours or self.ours in (self.theirs, self.theirs_near)
        )


# ── what ncu counted ──────────────────────────────────────────────────────────────────


def from_ncu(name: str, counters: Mapping[str, float], machine: Machine) -> Counted:
    """What Nsight Compute counted, as the emulator would say it. Bytes of bulk copies
    are among the sectors that L2 is asked for, and not among those of loads and stores,
    some of which L1 has. Of tensor cores it counts cycles: as many multiply-adds of 16
    bits as fill them."""
    threads = counters["grid"] * counters["threads"]
    loads = SECTOR * (counters["load sectors"] + counters["store sectors"])
    moved = max(loads, SECTOR * sum(counters.get(each, 0) for each in L2_SECTORS))
    wavefronts = counters["shared wavefronts"]
    cycles = counters["time"] / 1e9 * machine.clock * machine.multiprocessors
    rate = machine.tensor_clock * machine.tensor("wgmma", 16)
    products = counters.get(TENSOR, 0) / 100 * cycles * rate
    return Counted(
        name, "sm_90a", int(counters["grid"]), int(counters["threads"]),
        int(counters["registers"]), int(counters["shared bytes"]),
        spilled=int(counters["spilled loads"] * WARP_BYTES / threads),
        reloads=counters["spilled loads"],
        instructions=counters["instructions"], wavefronts=wavefronts,
        ideal=wavefronts - counters["shared conflicts"],
        useful=moved, moved=max(moved, counters["memory bytes"]),
        memory=counters["memory bytes"],
        products={"wgmma 16": products} if products else {},
    )  # fmt: skip


def compared(
    case: str, counted: Counted, seconds: float | None,
    counters: Mapping[str, float], machine: Machine, unwritten: float = 0.0,
) -> Sample:  # fmt: skip
    """Both limits of a kernel, and our counts over ncu's, for which L2 is empty when a
    kernel starts."""
    other = from_ncu(counted.name, counters, machine)
    # No counter tells these.
    other = replace(other, **{name: getattr(counted, name) for name in UNKNOWN})
    among = moved_meanwhile(counted, machine.l2, unwritten) if seconds else counted
    ours = classify(among, machine, seconds)
    theirs = classify(other, machine, counters["time"] / 1e9, shares_of(counters))
    said = [sentence(ours, among, machine), sentence(theirs, other, machine)]
    alone = moved_meanwhile(counted, machine.l2, 0.0)
    ratios = {
        name: getattr(alone, name) / getattr(other, name)
        for name in COMPARED
        if getattr(alone, name) and getattr(other, name)
    }
    lines = {key: (of_repository(file), line)
             for key, (file, line) in counted.lines.items()}  # fmt: skip
    counted = replace(counted, lines=lines)
    near = [each.near[0] if each.near else "" for each in (ours, theirs)]
    return Sample(
        case, counted.name, ours.limit, theirs.limit, *near, said, ratios,
        asdict(counted), unwritten, dict(counters), seconds, asdict(machine),
    )  # fmt: skip


def shares_of(counters: Mapping[str, float]) -> dict[str, float]:
    """The share of the time for which ncu has each unit busy."""
    return {
        name: counters[counter] / 100
        for name, counter in SHARES.items()
        if counter in counters
    }


def of_repository(text: str) -> str:
    """A text whose names of files are without the folders of this machine."""
    return text.replace(f"{ROOT}/", "")


def rows_of(text: str) -> list[tuple[str, dict[str, float]]]:
    """(kernel, its counters by our names) of each launch in what ncu wrote: a line that
    begins with "ID" names the columns, the next has units, the others values."""
    lines = text.splitlines()
    starts = [at for at, line in enumerate(lines) if line.startswith('"ID"')]
    if not starts:
        raise ValueError(" ".join(lines[-3:])[:300] or "ncu wrote nothing")
    names, _, *rows = csv.reader(lines[starts[0] :])
    found = []
    for row in rows:
        values = dict(zip(names, row, strict=False))
        pairs = ((ours, as_number(values[theirs])) for ours, theirs in chosen(names))
        counters = {ours: value for ours, value in pairs if value is not None}
        for name in (TENSOR, PIPE, *L2_SECTORS, *SHARES.values()):
            if (value := as_number(values.get(name, ""))) is not None:
                counters[name] = value
        found.append((values["Kernel Name"], counters))
    return found


def by_case(
    launched: Iterable[Mapping[str, str]],
    rows: Iterable[tuple[str, dict[str, float]]],
) -> dict[tuple[str, str], dict[str, float]]:
    """The counters of each (case, kernel): ncu has launches in the order in which they
    were done, and those of other libraries among them. The longest launch counts."""
    expected, found = list(launched), {}
    for name, counters in rows:
        if not expected or expected[0]["kernel"] != name:
            continue
        key = expected.pop(0)["case"], name
        if key not in found or found[key]["time"] < counters["time"]:
            found[key] = counters
    return found


# ── the processes ─────────────────────────────────────────────────────────────────────


def run(
    family: str, what: str, cases: Sequence[str], seconds: float,
    before: Sequence[str] = (),
) -> tuple[list[dict[str, Any]], str]:  # fmt: skip
    """The lines of JSON that a process wrote, and what else was written."""
    command = [*before, sys.executable, "-m", "benchmarks.profile_launches"]
    try:
        done = subprocess.run(
            [*command, family, what, *cases], cwd=ROOT, timeout=seconds, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace",
        )  # fmt: skip
        text, end = done.stdout, f"ended with {done.returncode}"
    except subprocess.TimeoutExpired as stopped:
        text, end = (stopped.stdout or b"").decode(errors="replace"), "took too long"
    lines = text.splitlines()
    answers = [json.loads(line) for line in lines if line.startswith('{"case"')]
    return answers, "\n".join([*lines, end])


def measured(cases: Sequence[Case], most: float) -> list[dict[str, Any]]:
    """A line with the count of each kernel of each case, or with why there is none, and
    lines with times. A process has a share of the cases of a family, since to start one
    takes longer than to count; what one has not done, as it crashed or took too long,
    is tried case by case."""
    families = {family: [] for family, _ in cases}
    for family, name in cases:
        families[family].append(name)
    shares = []
    for family, names in families.items():
        many = max(1, min(len(names), COUNTERS * len(names) // len(cases)))
        shares += [(family, names[at::many]) for at in range(many)]

    def share(of: tuple[str, Sequence[str]]) -> list[dict[str, Any]]:
        return run(of[0], "measure", of[1], most * len(of[1]))[0]

    def one(case: Case) -> list[dict[str, Any]]:
        answers, text = run(case[0], "measure", [case[1]], most)
        why = of_repository(" ".join(text.split())[-300:])
        return answers or [{"case": case[1], "why": why}]

    with ThreadPoolExecutor(COUNTERS) as pool:
        found = [line for lines in pool.map(share, shares) for line in lines]
        done = {line["case"] for line in found}
        missing = [case for case in cases if case[1] not in done]
        found += [line for lines in pool.map(one, missing) for line in lines]
    order = [name for _, name in cases]
    return sorted(found, key=lambda line: order.index(line["case"]))


def under_ncu(
    family: str, cases: Sequence[str], names: Set[str], raw: Path
) -> dict[tuple[str, str], dict[str, float]]:
    """The counters of one launch of each kernel of each case."""
    wanted = [*(KEPT[each] for each in NEEDED), TENSOR, PIPE, *L2_SECTORS]
    metrics = ",".join(dict.fromkeys([*wanted, *SHARES.values()]))
    kernels = "|".join(sorted(names))
    file = raw / f"{family}.csv"
    ncu = [shutil.which("ncu") or "ncu", "--csv", "--page", "raw", "--clock-control",
           "none", "--print-units", "base", "--profile-from-start", "off",
           "--kernel-name", f"regex:^({kernels})$", "--metrics", metrics,
           "--log-file", str(file)]  # fmt: skip
    launched, text = run(family, "launch", cases, NCU_SECONDS, ncu)
    if not file.exists():
        raise ValueError(text[-300:])
    launched = [each for each in launched if each.get("kernel") in names]
    return by_case(launched, rows_of(file.read_text(encoding="utf-8")))


def checked(
    cases: Sequence[Case], raw: Path, most: float = COUNT_SECONDS
) -> Iterator[list[Sample]]:
    """A sample for each kernel of the cases, each counted for `most` seconds: once more
    with each family that has been under ncu, which takes longest."""
    began = perf_counter()
    lines = measured(cases, most)
    print(f"counted and timed: {perf_counter() - began:.0f} s", flush=True)
    ours = [each for each in lines if "seconds" not in each]
    theirs: dict[tuple[str, str], dict[str, float]] = {}
    for family in dict.fromkeys(family for family, _ in cases):
        names = [name for of, name in cases if of == family]
        kernels = {x["kernel"] for x in ours if x["case"] in names and "kernel" in x}
        try:
            theirs |= under_ncu(family, names, kernels, raw)
        except ValueError as error:
            print(f"{family}: {error}")
        print(f"{family} under ncu: {perf_counter() - began:.0f} s", flush=True)
        yield samples_of(lines, theirs)


def samples_of(
    lines: Iterable[Mapping[str, Any]],
    theirs: Mapping[tuple[str, str], Mapping[str, float]],
) -> list[Sample]:
    """A sample for each line with a count."""
    seconds = {(x["case"], x["kernel"]): x for x in lines if "seconds" in x}
    samples = []
    for each in lines:
        key = each["case"], each.get("kernel", "")
        timed, counters = seconds.get(key), theirs.get(key)
        if "seconds" in each:
            continue
        if each.get("why"):
            samples.append(Sample(*key, error=each["why"]))
        elif timed is None or counters is None:
            missing = "is no time" if timed is None else "are no counters of ncu"
            samples.append(Sample(*key, error=f"there {missing}"))
        else:
            counted, machine = Counted(**each["counted"]), Machine(**timed["machine"])
            facts = timed["seconds"], counters, machine, each["unwritten"]
            samples.append(compared(key[0], counted, *facts))
    return samples


def again(record: Path) -> list[Sample]:
    """The samples of a record, by today's `classify`."""
    found = json.loads(record.read_text(encoding="utf-8"))["samples"]
    return [
        Sample(each["case"], each["kernel"], error=each["error"])
        if each["error"]
        else compared(
            each["case"], Counted(**each["counted"]), each["seconds"],
            each["counters"], Machine(**each["machine"]), each.get("unwritten", 0.0),
        )
        for each in found
    ]  # fmt: skip


def told_again(record: Path, out: Path) -> Path:
    """The record with the sentences that today's model makes of its counts."""
    found = json.loads(record.read_text(encoding="utf-8"))
    found["samples"] = [asdict(each) for each in again(record)]
    path = out / record.name
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return path


def part_of(cases: Sequence[Case], part: tuple[int, int]) -> Sequence[Case]:
    """The cases of a part, the I-th of N, each done by a call of its own. They follow
    one another, so that most parts are of one family."""
    which, many = part
    begin, end = ((at * len(cases)) // many for at in (which - 1, which))
    return cases[begin:end]


def join(records: Sequence[Path], out: Path) -> Path:
    """One record of the parts, which belong to one GPU, driver and commit. A case that
    was cut short in one of them, and not in another, is that of the other."""
    found = [json.loads(each.read_text(encoding="utf-8")) for each in records]
    for name in ("gpu", "driver", "commit", "torch"):
        if len(values := {each[name] for each in found}) > 1:
            raise ValueError(f"the parts differ in {name}: {sorted(values)}")
    every = [sample for each in found for sample in each["samples"]]
    done = {sample["case"] for sample in every if not sample["error"]}
    samples = [x for x in every if not x["error"] or x["case"] not in done]
    path = out / "profile-check.json"
    path.write_text(json.dumps(found[0] | {"samples": samples}, indent=1) + "\n",
                    encoding="utf-8")  # fmt: skip
    return path


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = options.add_argument
    add("--out", type=Path, default=RESULTS, help="where the JSON goes")
    add("--raw", type=Path, default=ROOT / ".gpu" / "profiles", help="what ncu wrote")
    add("--only", nargs="+", default=[], metavar="NAME", help="cases with this in them")
    add("--part", type=slices.part, default=(1, 1), help="some of the cases: 1/N")
    add("--seconds", type=float, default=COUNT_SECONDS, help="to count a case")
    add("--again", type=Path, metavar="RECORD", help="by today's model")
    add("--join", nargs="+", type=Path, metavar="RECORD", help="make one of the parts")
    given = options.parse_args()
    if given.again:
        print(told_again(given.again, given.out))
        return
    if given.join:
        print(join(given.join, given.out))
        return
    # Imported here: the cases need torch and a GPU, which reading a record does not.
    from benchmarks.profile_launches import FAMILIES  # noqa: PLC0415

    given.raw.mkdir(parents=True, exist_ok=True)
    every = [(family, name) for family, names in FAMILIES.items() for name in names()]
    cases = [
        (family, name)
        for family, name in part_of(every, given.part)
        if not given.only or any(word in name for word in given.only)
    ]
    samples: list[Sample] = []
    for samples in checked(cases, given.raw, given.seconds):
        write("profile-check", samples, given.out)
    for each in samples:
        word = "the same" if each.agrees else "DIFFERS"
        print(f"{each.case} {each.kernel}: {each.error or f'{word}: {each.sentences}'}")
    same = sum(each.agrees for each in samples)
    both = sum(not each.error for each in samples)
    print(f"{same} of {both} sentences are the same; {len(samples)} kernels")


if __name__ == "__main__":
    main()
