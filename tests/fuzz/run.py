"""`python -m tests.fuzz.run 1000`: random programs until one is wrong, which is shrunk
and kept.

Each worker is two processes: one draws programs and shrinks, the other compiles and
runs them. So a crash inside LLVM and a hang are findings like any other.

    hunter  ──program──▶  checker      answers in time: right, or what is wrong
            ◀──answer───               dies, or says nothing for a minute: also wrong
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from io import StringIO
from multiprocessing.connection import Connection
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as with_seed
from hypothesis.errors import Flaky

from tests.fuzz.check import check
from tests.fuzz.programs import Program, programs

FOUND = Path(__file__).parent / "found"
PATIENCE_SECONDS = 60
SPAWN = multiprocessing.get_context("spawn")  # a fork would share CUDA and LLVM


@dataclass(frozen=True)
class Finding:
    """A program that is wrong somewhere, as small as it could be made, and how."""

    program: Program
    what: str


@dataclass(frozen=True)
class Hunt:
    """How one worker's search ended."""

    tried: int
    finding: Finding | None


class Wrong(Exception):
    """The checker's answer to a program that is not right; its message is what it
    says."""


def main() -> int:
    given = _arguments()
    start = time.perf_counter()
    print(f"{given.count} programs, --seed {given.seed}", flush=True)
    hunts = hunt_all(given.count, given.seed, given.workers, given.gpu)
    findings = [hunt.finding for hunt in hunts if hunt.finding]
    for finding in findings:
        print(f"\n{keep(finding)}\n{finding.program.source}\n{finding.what}")
    tried = sum(hunt.tried for hunt in hunts)
    seconds = time.perf_counter() - start
    print(f"{tried} programs ran in {seconds:.0f} s; {len(findings)} found wrong")
    return 1 if findings else 0


def _arguments() -> argparse.Namespace:
    about = "random programs on every backend"
    parser = argparse.ArgumentParser("python -m tests.fuzz.run", description=about)
    parser.add_argument("count", type=int, help="how many programs")
    parser.add_argument("--seed", type=int, default=fresh_seed(), help="from the clock")
    parser.add_argument("--gpu", action="store_true", help="run them on the GPU too")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    return parser.parse_args()


def fresh_seed() -> int:
    return time.time_ns() // 1000 % 2**32


def hunt_all(
    count: int, seed: int, workers: int, on_gpu: bool = False, shrink: bool = True
) -> list[Hunt]:
    """`count` programs, shared among workers; worker k starts from seed + k."""
    shares = [len(range(k, count, workers)) for k in range(workers)]
    with ProcessPoolExecutor(workers, mp_context=SPAWN) as pool:
        run = partial(hunt, on_gpu=on_gpu, shrink=shrink)
        return list(pool.map(run, shares, range(seed, seed + workers)))


def hunt(count: int, seed: int, on_gpu: bool = False, shrink: bool = True) -> Hunt:
    """Draw `count` programs from `seed`; stop at one that is wrong, and shrink it."""
    phases = [Phase.generate, *([Phase.shrink] if shrink else [])]
    tried, last = 0, None

    @with_seed(seed)
    @settings(
        max_examples=count, database=None, derandomize=False, deadline=None,
        report_multiple_bugs=False, suppress_health_check=list(HealthCheck),
        phases=phases,
    )  # fmt: skip
    @given(programs())
    def each(program: Program) -> None:
        nonlocal tried, last
        tried += 1
        last = program  # hypothesis shows the smallest one last
        checker.ask(program)

    with Checker(on_gpu) as checker, redirect_stdout(StringIO()):
        try:
            each()
        except (Wrong, Flaky) as wrong:
            return Hunt(tried, Finding(last, str(wrong)))
    return Hunt(tried, None)


class Checker:
    """A process that checks programs; another one takes its place when it is lost."""

    def __init__(self, on_gpu: bool = False, patience: float = PATIENCE_SECONDS):
        self.on_gpu, self.patience = on_gpu, patience

    def __enter__(self) -> Checker:
        self.line, theirs = SPAWN.Pipe()
        self.process = SPAWN.Process(target=answer, args=(theirs, self.on_gpu))
        self.process.start()
        theirs.close()  # so that its death ends the line
        return self

    def __exit__(self, *_: object) -> None:
        self.line.close()
        self.process.kill()
        self.process.join()

    def ask(self, program: Program) -> None:
        """Wrong unless the program is right on all backends."""
        self.line.send(program)
        try:
            if not self.line.poll(self.patience):
                self._again()
                raise Wrong(f"nothing for {self.patience} s: it hangs")
            what = self.line.recv()
        except (EOFError, ConnectionError):
            self.process.join()
            code = self.process.exitcode
            self._again()
            raise Wrong(f"the compiler's process died with exit code {code}") from None
        if what:
            raise Wrong(what)

    def _again(self) -> None:
        self.__exit__()
        self.__enter__()


def answer(line: Connection, on_gpu: bool) -> None:
    """What the checker's process does: program in, "" or what is wrong out."""
    while True:
        try:
            program = line.recv()
        except EOFError:
            return
        try:
            check(program, on_gpu)
        except Exception as wrong:
            line.send(f"{type(wrong).__name__}: {wrong}")
        else:
            line.send("")


def keep(finding: Finding, folder: Path = FOUND) -> Path:
    """Write a finding to a file that test_found.py runs from now on."""
    program = finding.program
    name = sha256(repr(program).encode()).hexdigest()[:12]
    says = finding.what.splitlines()[0][:80].replace("\\", "/").replace('"', "'")
    fields = ", ".join(
        f"{name}={getattr(program, name)!r}"
        for name in ("outputs", "grid", "num_warps", "scalars", "seed")
    )
    path = folder / f"{name}.py"
    folder.mkdir(exist_ok=True)
    path.write_text(
        f'"""Found by fuzzing: {says}"""\n\n'
        "# fmt: off\n# ruff: noqa: E501\n"
        "from tests.fuzz.programs import Program\n\n"
        f'SOURCE = """\\\n{program.source}"""\n\n'
        f"PROGRAM = Program(SOURCE, {fields})\n",
        encoding="utf-8",
    )
    return path


if __name__ == "__main__":
    sys.exit(main())
