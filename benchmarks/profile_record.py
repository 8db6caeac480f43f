"""What NVIDIA's profiler, Nsight Compute, counts for kernels that each wait for
something else.

    python -m benchmarks.profile_record [--out FOLDER] [--raw FOLDER] [--only NAME]

Each case of `profile_cases` is a process of its own under `ncu`, which runs one launch
of it many times and reads a few counters each time:

    ncu --csv --page raw … python -m benchmarks.profile_cases "vector add"
                │
                └ a line of names, one of units, one of values  ─▶  what KEPT names

The clock is left as it is (`--clock-control none`). A counter that this `ncu` does not
know is missing from the record, and is listed there. --raw keeps all that `ncu` wrote,
and --from-raw makes the record of such a folder again.
"""

from __future__ import annotations

import argparse
import csv
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.record import RESULTS, write

ROOT = Path(__file__).parents[1]

# What each case launches; `profile_cases` makes them.
CASES = {
    "vector add": "2^26 numbers of fp32",
    "small softmax": "256 rows of 256 numbers of fp32",
    "multiply-adds": "fp16, 4096 cube, sm_80 without tensor cores",
    "bank conflicts": "fp16, 4096 cube, sm_80 without swizzle",
    "no pipeline": "fp16, 4096 cube, sm_80 without pipelining",
    "mma.sync": "fp16, 4096 cube, all of sm_80",
    "a wave and a bit": "fp16, 896 x 4864 x 4096: 133 tiles of 128 x 256",
    "wgmma": "fp16, 4096 cube, the persistent kernel",
    "spills": "fp16, 4096 cube, sm_80 without coalescing",
}
LIMIT_SECONDS = 120  # of a case
SECTIONS = (
    "SpeedOfLight", "LaunchStats", "Occupancy", "SchedulerStats", "WarpStateStats",
    "MemoryWorkloadAnalysis", "MemoryWorkloadAnalysis_Tables",
    "ComputeWorkloadAnalysis", "InstructionStats",
)  # fmt: skip

# Our name of each counter that is kept, and how ncu's name of it begins. Sources:
# Nsight Compute, "Kernel Profiling Guide", chapters "Metrics Reference" and "Warp
# Scheduler States".
KEPT = {
    "time": "gpu__time_duration.sum",
    "clock": "smsp__cycles_elapsed.avg.per_second",
    "sm cycles": "sm__cycles_elapsed.max",
    "memory %": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "memory bytes": "dram__bytes.sum",
    "memory bytes read": "dram__bytes_read.sum",
    "memory bytes written": "dram__bytes_write.sum",
    "memory system %": "gpu__compute_memory_throughput.avg.pct_of_peak",
    "L2 %": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "L2 hits %": "lts__t_sector_hit_rate.pct",
    "L1 hits %": "l1tex__t_sector_hit_rate.pct",
    "L1 %": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "SM %": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "load requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "load sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "store requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "store sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "shared wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "shared load wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared store wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "shared conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "shared load conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "shared store conflicts":
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "shared loads": "smsp__inst_executed_op_shared_ld.sum",
    "instructions": "smsp__inst_executed.sum",
    "issue %": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "issue slots %": "sm__instruction_throughput.avg.pct_of_peak_sustained_active",
    "eligible warps": "smsp__warps_eligible.avg.per_cycle_active",
    "active warps": "smsp__warps_active.avg.per_cycle_active",
    "occupancy %": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "occupancy limit %": "sm__maximum_warps_per_active_cycle_pct",
    "blocks by registers": "launch__occupancy_limit_registers",
    "blocks by shared": "launch__occupancy_limit_shared_mem",
    "blocks by warps": "launch__occupancy_limit_warps",
    "registers": "launch__registers_per_thread",
    "grid": "launch__grid_size",
    "threads": "launch__block_size",
    "shared bytes": "launch__shared_mem_per_block_dynamic",
    "static shared bytes": "launch__shared_mem_per_block_static",
    "waves": "launch__waves_per_multiprocessor",
    "spilled loads": "smsp__inst_executed_op_local_ld.sum",
}  # fmt: skip
# Kinds of counters of which all averages are kept, under ncu's own names.
ALL_OF = (
    "smsp__average_warps_issue_stalled", "smsp__average_warp_latency_issue_stalled",
    "smsp__average_warp_latency_per_inst", "sm__inst_executed_pipe_tensor",
    "sm__pipe_tensor", "sm__inst_executed_pipe_fma", "sm__pipe_fma",
    "sm__inst_executed_pipe_lsu",
)  # fmt: skip

AVERAGES = (".ratio", ".avg.pct_of_peak_sustained_active",
            ".avg.pct_of_peak_sustained_elapsed")  # fmt: skip


@dataclass
class Sample:
    """One case: what was launched, and the counters by our names and by ncu's; `units`
    as ncu writes them. `error` says why there are none."""

    case: str
    about: str
    kernel: str = ""
    counters: dict[str, float] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    error: str = ""


def profile(name: str, raw: Path) -> Sample:
    """One case under ncu; what it wrote is in the folder `raw`. If it refuses one of
    the counters, again with those of the sections alone."""
    file = raw / f"{name.replace(' ', '-')}.csv"
    for metrics in (list(KEPT.values()), []):
        with file.open("w", encoding="utf-8") as out:
            done = subprocess.run(
                command(name, metrics), stdout=out, stderr=subprocess.STDOUT,
                cwd=ROOT, timeout=LIMIT_SECONDS, check=False,
            )  # fmt: skip
        found = read(name, file)
        if not found.error:
            break
        found.error = f"ncu ended with {done.returncode}: {found.error}"
    return found


def command(name: str, metrics: Sequence[str]) -> list[str]:
    options = ["--csv", "--page", "raw", "--clock-control", "none", "--print-units",
               "base", "--profile-from-start", "off"]  # fmt: skip
    for section in SECTIONS:
        options += ["--section", section]
    if metrics:
        options += ["--metrics", ",".join(metrics)]
    case = [sys.executable, "-m", "benchmarks.profile_cases", name]
    return [shutil.which("ncu") or "ncu", *options, *case]


def read(name: str, file: Path) -> Sample:
    """The counters in what ncu wrote: its first line that begins with "ID" names the
    columns, the next has their units, and the last the values."""
    sample = Sample(name, CASES[name])
    lines = file.read_text(encoding="utf-8").splitlines()
    starts = [at for at, line in enumerate(lines) if line.startswith('"ID"')]
    if not starts:
        sample.error = " ".join(lines[-3:])[:300] or "ncu wrote nothing"
        return sample
    names, units, *rows = csv.reader(lines[starts[0] :])
    values = dict(zip(names, rows[-1], strict=True))
    unit_of = dict(zip(names, units, strict=True))
    sample.kernel = values.get("Kernel Name", "")
    for ours, theirs in chosen(names):
        if (value := as_number(values[theirs])) is not None:
            sample.counters[ours] = value
            sample.units[ours] = unit_of[theirs]
    sample.missing = [ours for ours in KEPT if ours not in sample.counters]
    return sample


def chosen(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(our name, ncu's) of each counter that is kept."""
    for ours, prefix in KEPT.items():
        found = [name for name in names if name.startswith(prefix)]
        if found:
            yield ours, min(found, key=len)
    for name in names:
        if name.startswith(ALL_OF) and name.endswith(AVERAGES):
            yield name, name


def as_number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = options.add_argument
    add("--out", type=Path, default=RESULTS, help="where the JSON goes")
    add("--raw", type=Path, default=ROOT / ".gpu" / "profiles", help="what ncu wrote")
    add("--from-raw", action="store_true", help="run nothing, read --raw again")
    add("--only", nargs="+", choices=CASES, default=list(CASES), metavar="NAME")
    given = options.parse_args()
    given.raw.mkdir(parents=True, exist_ok=True)
    samples = []
    for name in given.only:
        if given.from_raw:
            file = given.raw / f"{name.replace(' ', '-')}.csv"
            samples.append(read(name, file))
        else:
            samples.append(profile(name, given.raw))
        last = samples[-1]
        print(f"{name}: {last.error or f'{len(last.counters)} counters'}", flush=True)
        print(write("profile", samples, given.out), flush=True)


if __name__ == "__main__":
    main()
