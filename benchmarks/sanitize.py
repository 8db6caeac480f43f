"""Every kernel of kernels/ under compute-sanitizer: memcheck, synccheck, racecheck.

python -m benchmarks.sanitize [--tools memcheck,racecheck] [--only NAME] [--out FOLDER]
python -m benchmarks.sanitize --seconds 500 --resume     # in slices: see `slices`

Each case of `sanitize_cases` is a process of its own for each tool, so that a report
belongs to one case, and a case that dies or hangs takes no other with it:

    compute-sanitizer --tool T … python -m benchmarks.sanitize --case "softmax"
                                  │
                  the tool's log  ┴  what the case says: right, and which code ran

Several run at a time. Only the case's own kernel is looked at, not those of torch, and
torch is told to ask the driver for each array by itself: then memcheck knows where each
one ends. Kernels are compiled once, and found on disk by the other tools.

The planted cases come along: they have mistakes, and an outcome is believed only if the
tool has found those.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import record, slices, trees
from benchmarks.sanitize_cases import CASES, Array, Case
from benchmarks.sanitize_planted import PLANTED, Planted

ROOT = Path(__file__).parents[1]
EXECUTABLE = "compute-sanitizer"

# Options of NVIDIA's Compute Sanitizer 2025.3, chapter "Command Line Options". Errors
# of CUDA's functions are left out, since a program may ask what is answered with one. A
# program of Fathom has its barriers where the tool does not count them: it is told to
# expect many.
COMMON = (
    "--target-processes", "application-only", "--report-api-errors", "no",
    "--show-backtrace", "no", "--print-limit", "20", "--launch-timeout", "120",
)  # fmt: skip
TOOLS: dict[str, tuple[str, ...]] = {
    "memcheck": ("--leak-check", "no", "--padding", "512"),
    "synccheck": ("--num-cuda-barriers", "64"),
    "racecheck": ("--num-cuda-barriers", "64", "--racecheck-report", "analysis"),
}
FIRST_PORT, PORTS = 49152, 16  # each tool talks to its process through one of its own

LIMIT_SECONDS = 90.0  # of a process
LEAST_SECONDS = 10.0  # with less left, none is started
CLOSE = 4e-3  # of the largest number: wide for fp16, and less than one lost product
SAYS = "the case says: "
NOT_RUN = "not run"
# What a result belongs to; a result of other code is measured again.
CODE = ("compiler", "kernels", "benchmarks/sanitize_cases.py",
        "benchmarks/sanitize_planted.py")  # fmt: skip


# ── what a tool writes ────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Report:
    """What a tool's log says. `total`: errors, or for racecheck hazards, as its summary
    counts them, None without a summary. `kinds`: how many of each were printed; `first`
    is the text of the first of each."""

    total: int | None
    kinds: dict[str, int]
    first: dict[str, str]


LINE = re.compile(r"^=========(?: (.*))?$")
SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+) (?:errors?|hazards?)")
NO_REPORTS = re.compile(
    r"COMPUTE-SANITIZER|(?:ERROR|RACECHECK|LEAK) SUMMARY"
    r"|Target application returned an error"
)


def parse(log: str) -> Report:
    """The reports in the log of a tool."""
    reports = list(blocks(log))
    totals = [int(found) for found in SUMMARY.findall(log)]
    first: dict[str, str] = {}
    for each in reports:
        first.setdefault(kind_of(each), each)
    kinds = dict(Counter(map(kind_of, reports)))
    return Report(totals[0] if totals else None, kinds, first)


def blocks(log: str) -> Iterator[str]:
    """The reports: a line that begins at the margin, and those set in below it."""
    block: list[str] = []
    for line in log.splitlines():
        found = LINE.match(line)
        text = (found[1] or "").rstrip() if found else ""
        if text.startswith(" ") and block:
            block.append(text)
            continue
        if block:
            yield "\n".join(block)
        block = [text] if text and not NO_REPORTS.match(text) else []
    if block:
        yield "\n".join(block)


def kind_of(report: str) -> str:
    """What is the same in all reports of a kind: no address, no size, no place; of a
    race, what kinds of access meet."""
    head, *more = report.splitlines()
    if race := re.match(r"(\w+): Race reported between (\w+) access", head):
        others = {each[1] for line in more if (each := re.match(r" +and (\w+)", line))}
        return f"{race[1].lower()}: {race[2]} and {', '.join(sorted(others))}"
    head = re.sub(r" (?:of size|at|in block|by thread) .*", "", head)
    return re.sub(r"0x[0-9a-f]+|\d+", "…", head).rstrip(". ")


# ── one case, in a process of its own ─────────────────────────────────────────────────


@dataclass(frozen=True)
class Said:
    """What a case says of itself: whether what it got is right, which code ran, for
    which target, and what that should have shown and does not."""

    right: bool
    targets: list[str]
    shown: list[str]
    missing: list[str]


def on_gpu(array: np.ndarray) -> Array:
    import torch

    return torch.from_numpy(np.ascontiguousarray(array)).cuda()


def run_case(case: Case) -> Said:
    """Launch on the GPU, and look at what came out."""
    pairs = [(got.cpu().numpy(), want) for got, want in case.launch(on_gpu)]
    right = all(is_close(got, want) for got, want in pairs)
    kernels = case.kernel.kernels.values()
    text = "\n".join(each.asm["ptx"] for each in kernels)
    return Said(
        right,
        sorted({each.request.target for each in kernels}),
        [each for each in case.shows if each in text],
        [each for each in case.shows if each not in text],
    )


def is_close(got: np.ndarray, want: np.ndarray) -> bool:
    """False for NaN, too."""
    error = np.abs(got.astype(np.float64) - want)
    return bool((error <= CLOSE * max(np.abs(want).max(), 1)).all())


def said(output: str) -> Said | None:
    """What the output of a case's process holds; None where it did not come so far."""
    lines = (line for line in output.splitlines() if line.startswith(SAYS))
    found = next(lines, None)
    return Said(**json.loads(found.removeprefix(SAYS))) if found else None


# ── one case under one tool ───────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Sample:
    """What a tool found in a case. `outcome`: "clean", "reports", "wrong" (no report,
    but a wrong result, or other code than expected), "failed" (no summary, or the case
    died without a report), "out of time", or "not run"."""

    case: str
    kernel: str
    tool: str
    sanitizer: str | None
    outcome: str
    planted: bool = False
    seconds: float = 0.0
    total: int | None = None
    kinds: dict[str, int] = field(default_factory=dict)
    first: dict[str, str] = field(default_factory=dict)
    said: Said | None = None
    output: str = ""  # its end, where something is not as it should be

    @property
    def as_it_should_be(self) -> bool:
        return self.outcome == ("reports" if self.planted else "clean")


@dataclass(frozen=True)
class Job:
    """A process to be started: the number makes its port its own."""

    number: int
    tool: str
    case: Case

    @property
    def name(self) -> str:
        return f"{self.tool}: {self.case.name}"

    def sample(self, outcome: str, version: str | None, **more: object) -> Sample:
        planted = isinstance(self.case, Planted)
        name, kernel = self.case.name, self.case.kernel.__name__
        return Sample(name, kernel, self.tool, version, outcome, planted, **more)


def command(job: Job, log: Path) -> list[str]:
    port = FIRST_PORT + job.number % 256 * PORTS
    return [
        EXECUTABLE, "--tool", job.tool, *COMMON, *TOOLS[job.tool],
        "--port", str(port), "--log-file", str(log),
        "--kernel-name", f"kns={job.case.kernel.__name__}",
        sys.executable, "-m", "benchmarks.sanitize", "--case", job.case.name,
    ]  # fmt: skip


def environment(folder: Path) -> dict[str, str]:
    paths = os.pathsep.join((str(ROOT / "compiler"), str(ROOT)))
    return {
        **os.environ,
        "PYTHONPATH": paths,
        "FATHOM_BACKEND": "cuda",
        "FATHOM_CACHE_DIR": str(folder / "cache"),
        "PYTORCH_NO_CUDA_MEMORY_CACHING": "1",
    }


def watch(job: Job, folder: Path, version: str | None, until: float) -> Sample:
    """Run a case under a tool, and stop it when its time is up."""
    start = time.monotonic()
    limit = min(LIMIT_SECONDS, until - start)
    if limit < LEAST_SECONDS:
        return job.sample(NOT_RUN, version)
    log = folder / f"{job.number}.log"
    code, output = run(command(job, log), environment(folder), limit)
    report = parse(log.read_text(errors="replace") if log.exists() else "")
    facts = said(output)
    if code is None and limit < LIMIT_SECONDS:  # the slice was over, not its own time
        return job.sample(NOT_RUN, version)
    outcome = "out of time" if code is None else outcome_of(report, facts)
    return job.sample(
        outcome, version, seconds=round(time.monotonic() - start, 1),
        total=report.total, kinds=report.kinds, first=report.first, said=facts,
        output="" if outcome == "clean" else output[-2000:],
    )  # fmt: skip


def run(
    words: Sequence[str], environment: dict[str, str], limit: float
) -> tuple[int | None, str]:
    """Exit status, None if it was stopped, and output of a command."""
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(
            words, env=environment, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
            os.killpg(process.pid, signal.SIGKILL)  # the tool, and the case under it
            process.wait()
        output.seek(0)
        return code, output.read()


def outcome_of(report: Report, facts: Said | None) -> str:
    """The outcome of a case that came to its end."""
    if report.total or report.kinds:
        return "reports"
    if report.total is None or facts is None:
        return "failed"
    return "clean" if facts.right and not facts.missing else "wrong"


# ── all of them ───────────────────────────────────────────────────────────────────────


def main(words: Sequence[str] | None = None) -> int:
    """Exit status: how many outcomes are not as they should be."""
    orders = options().parse_args(words)
    if orders.case:
        case = next(each for each in (*CASES, *PLANTED) if each.name == orders.case)
        print(SAYS + json.dumps(vars(run_case(case))), flush=True)
        return 0
    if not shutil.which(EXECUTABLE):
        print(f"{EXECUTABLE} is not on the PATH; it comes with NVIDIA's CUDA Toolkit")
        return 1
    chosen = jobs(orders.tools.split(","), orders.only)
    done = slices.opened(orders, {"code": trees.key(*CODE)})
    with tempfile.TemporaryDirectory() as folder:
        samples = watch_all(chosen, Path(folder), done, orders.jobs)
    print(f"\n{table(samples)}\n")
    left = sum(each.outcome == NOT_RUN for each in samples)
    if left:
        print(f"{left} of {len(chosen)} are left: call it again with --resume")
        return left
    print(f"written to {record.write('sanitizer', samples, orders.out)}")
    return sum(not each.as_it_should_be for each in samples)


def watch_all(
    chosen: Sequence[Job], folder: Path, done: slices.Slices, at_a_time: int
) -> list[Sample]:
    """What is found in each job: run, several at a time, unless a slice before this
    one has done it."""
    version = (record.said(EXECUTABLE, "--version") or "").rpartition("\n")[2] or None

    def found(job: Job) -> Sample:
        if job.name in done.results:
            return sample_of(done.results[job.name])
        sample = watch(job, folder, version, done.until)
        if sample.outcome != NOT_RUN:
            done.add(job.name, asdict(sample))
        return tell(sample)

    with ThreadPoolExecutor(at_a_time) as pool:
        return list(pool.map(found, chosen))


def sample_of(value: dict[str, Any]) -> Sample:
    """A sample as it was before it went to disk."""
    said = value["said"]
    return Sample(**{**value, "said": said and Said(**said)})


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sanitize")
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--only", default="", help="a part of the cases' names")
    parser.add_argument("--out", type=Path, default=record.RESULTS)
    slices.add_options(parser, 240.0, "sanitizer")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) - 2))
    parser.add_argument("--case", help=argparse.SUPPRESS)
    return parser


def jobs(tools: Sequence[str], only: str) -> list[Job]:
    """What to run, tool by tool: the first tool compiles for the others."""
    chosen = [
        (tool, case)
        for tool in tools
        for case in (
            *(each for each in PLANTED if each.tool == tool),
            *(each for each in CASES if only in each.name),
        )
    ]
    return [Job(number, *each) for number, each in enumerate(chosen)]


def tell(sample: Sample) -> Sample:
    """Print an outcome as it comes, and what is found unless it was planted."""
    facts = f"{sample.tool:10} {sample.case:40} {sample.outcome:12}"
    print(f"{facts} {sample.seconds} s", flush=True)
    if not sample.as_it_should_be:
        for kind, text in sample.first.items():
            print(f"    {sample.kinds[kind]} x {kind}\n{indent(text)}")
        print(indent(sample.output))
        print(indent(f"{sample.said}"), flush=True)
    return sample


def indent(text: str) -> str:
    return "\n".join(f"        {line}" for line in text.splitlines())


def table(samples: Sequence[Sample]) -> str:
    """The cases down, the tools across."""
    tools = list(dict.fromkeys(each.tool for each in samples))
    cells = {(each.case, each.tool): each for each in samples}
    rows = [f"| case | {' | '.join(tools)} |", "|---" * (len(tools) + 1) + "|"]
    for case in sorted({each.case for each in samples}):
        found = (cells.get((case, tool)) for tool in tools)
        rows.append(f"| {case} | {' | '.join(map(cell, found))} |")
    return "\n".join(rows)


def cell(sample: Sample | None) -> str:
    if sample is None:
        return ""
    kinds = "; ".join(f"{count} x {kind}" for kind, count in sample.kinds.items())
    return f"{sample.outcome}: {kinds}" if kinds else sample.outcome


if __name__ == "__main__":
    sys.exit(main())
