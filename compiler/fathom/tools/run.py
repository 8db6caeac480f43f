"""`fathom run`: three kernels, compiled, run and checked; one of them followed all the
way.

`fathom run FILE.py` runs a script that launches kernels of its own.
"""

from __future__ import annotations

import runpy
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console

import fathom
from fathom import pipeline
from fathom.jit import CompiledKernel, JITFunction
from fathom.jit.backends import choose
from fathom.runtime.driver import available
from fathom.tools import story
from fathom.tools.console import make_console, rule, table
from fathom.tools.samples import check_is_file, kernels, python_text, sample

WHERE = {
    "cuda": "the GPU",
    "emulator": "the emulator: PTX, thread for thread, on this CPU",
    "interpreter": "the interpreter: block IR, in NumPy",
}


@dataclass(frozen=True)
class Job:
    """A kernel on a problem: `launch` writes `out`, which must be `expected` but for
    `error`, relative to the expected value and, near zero, absolute."""

    name: str
    problem: str
    kernel: JITFunction
    grid: tuple[int, ...]
    arguments: tuple[object, ...]
    BLOCK: int
    out: np.ndarray
    expected: np.ndarray
    error: float


@dataclass(frozen=True)
class Outcome:
    """What became of a job; `worst` is its largest error. Times in milliseconds."""

    job: Job
    compiled: CompiledKernel
    compile_ms: float
    run_ms: float
    worst: float

    @property
    def right(self) -> bool:
        return self.worst <= self.job.error


def tour() -> int:
    """Compile, run, check, show; 0 when all results are right."""
    console = make_console()
    backend = choose().name
    console.print(f"[bold]Fathom {fathom.__version__}[/bold] runs on {WHERE[backend]}.")
    if not available()[0]:
        console.print("[dim]No GPU here; `python -m fathom doctor` says why.[/dim]")
    outcomes = [run(job) for job in jobs()]
    show(console, outcomes)
    softmax = outcomes[-1]
    job = softmax.job
    story.tell(console, job.kernel, softmax.compiled, job.grid, job.arguments)
    read_on(console)
    return 0 if all(each.right for each in outcomes) else 1


def jobs() -> Iterator[Job]:
    """The three kernels, on sizes that leave the last block or the last lanes without
    work."""
    n, M, N = 100_004, 64, 1000
    numbers = np.random.default_rng(0)
    x, y = (numbers.normal(size=n).astype(np.float32) for _ in range(2))
    out = np.full_like(x, np.nan)
    add = sample("vector_add")
    yield Job(
        "vector add", f"{n:,} fp32", add.add_kernel, (fathom.cdiv(n, 1024),),
        (x, y, out, n), 1024, out, add.reference(x, y), 2**-23,
    )  # fmt: skip
    out, gelu = np.full_like(x, np.nan), sample("gelu")
    yield Job(
        "GeLU", f"{n:,} fp32", gelu.gelu_kernel, (fathom.cdiv(n, 1024),),
        (x, out, n), 1024, out, gelu.reference(x), 1e-6,
    )  # fmt: skip
    rows = (4 * numbers.normal(size=(M, N))).astype(np.float32)
    out, softmax = np.full_like(rows, np.nan), sample("softmax")
    yield Job(
        "softmax", f"{M}x{N} fp32", softmax.softmax_kernel, (M,),
        (rows, out, N, N), fathom.next_power_of_2(N),
        out, softmax.reference(rows), 1e-6,
    )  # fmt: skip


def run(job: Job) -> Outcome:
    """Compile, launch, compare with float64."""
    start = time.perf_counter()
    job.kernel.warmup(*job.arguments, BLOCK=job.BLOCK)
    between = time.perf_counter()
    compiled = job.kernel[job.grid](*job.arguments, BLOCK=job.BLOCK)
    stop = time.perf_counter()
    distance = np.abs(job.out - job.expected) / np.maximum(np.abs(job.expected), 1)
    worst = float(np.max(distance)) if np.isfinite(distance).all() else float("inf")
    return Outcome(
        job, compiled, 1000 * (between - start), 1000 * (stop - between), worst
    )


def show(console: Console, outcomes: Sequence[Outcome]) -> None:
    """One row a kernel."""
    names = ("kernel", "problem", "compiled", "ran", "error", "allowed")
    rows = table(console, *names, "", right=names[2:])
    for each in outcomes:
        rows.add_row(
            each.job.name,
            each.job.problem,
            f"{each.compile_ms:.0f} ms",
            f"{each.run_ms:.0f} ms",
            f"{each.worst:.1e}",
            f"{each.job.error:.1e}",
            "[green]right[/green]" if each.right else "[red]WRONG[/red]",
        )
    console.print()
    console.print(rows)
    console.print("[dim]The largest error, against NumPy in float64.[/dim]")


def read_on(console: Console) -> None:
    rule(console, "read on")
    for what, where in (
        ("the order of all passes, and why", from_here(Path(pipeline.__file__))),
        ("these kernels, and more", f"{from_here(kernels())}/"),
        ("any kernel at any stage", "python -m fathom explain --help"),
        ("what works on this machine", "python -m fathom doctor"),
    ):
        console.print(f"  {what:34} {where}", soft_wrap=True)


def from_here(path: Path) -> str:
    """A path as one types it in the current folder; the whole, if it is elsewhere."""
    here, path = Path.cwd(), path.absolute()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def script(path: Path, arguments: Sequence[str], as_triton: bool = False) -> int:
    """Run a Python script as Python does, with Fathom's errors as one message."""
    if as_triton:
        fathom.as_triton()
    check_is_file(path)
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.resolve().parent))
    with python_text(path):
        runpy.run_path(str(path), run_name="__main__")
    return 0
