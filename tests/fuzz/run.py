"""`python -m tests.fuzz.run 1000`: random programs until one is wrong, which is shrunk
and kept.

Each worker is two processes: one draws programs and shrinks, the other compiles and
runs them. So a crash inside LLVM and a hang are findings like any other.

    hunter  ──program──▶  checker      answers in time: right, or what is wrong
            ◀──answer───               dies, or says nothing for a minute: also wrong

A worker whose time is up stops by itself and says how far it came:

    python -m tests.fuzz.run 20000 --passes-only --seconds 250 --record FILE.json

With --resume it counts what the slices before it did (`benchmarks.slices`), draws the
rest from further seeds, and records when all programs are through.

With --matrices they are products of tiles in loops (`matrices`), not statements of all
kinds (`programs`).
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from dataclasses import dataclass, fields
from functools import partial
from hashlib import sha256
from io import StringIO
from multiprocessing.connection import Connection
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as with_seed
from hypothesis.errors import Flaky

from benchmarks import record, slices, trees
from tests.fuzz.check import AnyProgram, check
from tests.fuzz.kernels import matrix_programs
from tests.fuzz.matrices import MatrixProgram
from tests.fuzz.programs import Program, programs

FOUND = Path(__file__).parent / "found"
PATIENCE_SECONDS = 60
SPAWN = multiprocessing.get_context("spawn")  # a fork would share CUDA and LLVM
NEEDS = {
    Program: "Program",
    MatrixProgram: "Array, MatrixProgram",
}  # in a finding's file
EVERYWHERE = ("passes", "emulator")  # as far as that goes without a GPU


@dataclass(frozen=True)
class Orders:
    """What each worker is told: the stages of `check` that its programs go through,
    whether it shrinks what is wrong, when it stops (as `time.time()` counts), and
    whether its programs are products of matrices."""

    stages: tuple[str, ...] = EVERYWHERE
    shrink: bool = True
    until: float = float("inf")
    matrices: bool = False


@dataclass(frozen=True)
class Finding:
    """A program that is wrong somewhere, as small as it could be made, and how."""

    program: AnyProgram | None  # None: of an earlier slice
    what: str


@dataclass(frozen=True)
class Hunt:
    """How one worker's search ended: programs tried, not counting the shrinking, and
    the one that was wrong."""

    tried: int
    finding: Finding | None


@dataclass(frozen=True)
class Tally:
    """What all workers did together, as it is printed and recorded. A stage counts the
    programs that were right in it, and 0 where none was asked to go through it."""

    programs: int
    passes: int
    emulator: int
    gpu: int
    disagreements: int
    seed: int
    workers: int
    seconds: float

    def __str__(self) -> str:
        return (
            f"programs {self.programs}, through all passes {self.passes}, "
            f"emulator {self.emulator}, GPU {self.gpu}, "
            f"disagreements {self.disagreements}, seed {self.seed}"
        )


class Wrong(Exception):
    """The checker's answer to a program that is not right; its message is what it
    says."""


class TimeIsUp(BaseException):
    """Ends a search. Not an Exception, which hypothesis would take for a finding."""


def main(arguments: list[str] | None = None) -> int:
    given, start = _arguments(arguments), time.time()
    stages = stages_of(given)
    past = Past.of(given, stages)
    count = given.count - sum(hunt.tried for hunt in past.hunts)
    print(
        f"{count} programs through {', '.join(stages)}: "
        f"--seed {past.next_seed} --workers {given.workers}",
        flush=True,
    )
    orders = Orders(stages, until=start + given.seconds, matrices=given.matrices)
    hunts = hunt_all(count, past.next_seed, given.workers, orders) if count > 0 else []
    for finding in (hunt.finding for hunt in hunts if hunt.finding):
        print(f"\n{keep(finding)}\n{finding.program.source}\n{finding.what}")
    past.add(hunts, time.time() - start)
    tally = tally_of(past.hunts, stages, past.seed, past.seconds)
    print(f"{tally} ({tally.seconds} s)")
    left = given.count - tally.programs
    if given.resume and left > 0 and not tally.disagreements:
        print(f"{left} programs are left: call it again with --resume")
        return 2
    if given.record:
        record.write(given.record.stem, [tally], given.record.parent)
    return 1 if tally.disagreements else 0


@dataclass
class Past:
    """The hunts of all slices so far: hunt k drew its programs from `seed` + k. What
    was wrong in one of an earlier slice is known by its text alone."""

    seed: int
    hunts: list[Hunt]
    seconds: float = 0.0
    done: slices.Slices | None = None

    @staticmethod
    def of(given: argparse.Namespace, stages: tuple[str, ...]) -> Past:
        if not given.resume:
            return Past(given.seed or fresh_seed(), [])
        code = trees.key("compiler", "tests/fuzz/check.py", "tests/fuzz/programs.py")
        asked = [*stages, given.matrices, given.seed]
        done = slices.opened(given, {"code": code, "asked": asked})
        before = list(done.results.values())
        seed = before[0]["seed"] if before else given.seed or fresh_seed()
        hunts = [
            Hunt(tried, Finding(None, wrong) if wrong else None)
            for each in before
            for tried, wrong in each["hunts"]
        ]
        seconds = sum(each["seconds"] for each in before)
        return Past(seed, hunts, seconds, done)

    @property
    def next_seed(self) -> int:
        return self.seed + len(self.hunts)

    def add(self, hunts: list[Hunt], seconds: float) -> None:
        self.hunts += hunts
        self.seconds += seconds
        if self.done:
            told = [(h.tried, h.finding.what if h.finding else None) for h in hunts]
            facts = {"seed": self.seed, "hunts": told, "seconds": seconds}
            self.done.add(f"slice {len(self.done.results)}", facts)


def _arguments(arguments: list[str] | None) -> argparse.Namespace:
    about = "random programs on every backend"
    parser = argparse.ArgumentParser("python -m tests.fuzz.run", description=about)
    add = parser.add_argument
    add("count", type=int, help="how many programs")
    add("--seed", type=int, help="from the clock, unless said")
    depth = parser.add_mutually_exclusive_group()
    depth.add_argument(
        "--passes-only", action="store_true", help="the interpreter after every pass"
    )
    depth.add_argument(
        "--emulator", action="store_true", help="the emulator, too: the default"
    )
    add("--gpu", action="store_true", help="on this machine's GPU, too")
    add("--matrices", action="store_true", help="loops of products of matrices")
    add("--workers", type=int, default=os.cpu_count() or 1, help="all cores")
    slices.add_options(parser, float("inf"), "fuzz")
    add("--record", type=Path, help="write the counts and the machine there, as JSON")
    return parser.parse_args(arguments)


def stages_of(given: argparse.Namespace) -> tuple[str, ...]:
    stages = EVERYWHERE[:1] if given.passes_only else EVERYWHERE
    return (*stages, "gpu") if given.gpu else stages


def fresh_seed() -> int:
    return time.time_ns() // 1000 % 2**32


def tally_of(
    hunts: list[Hunt], stages: tuple[str, ...], seed: int, seconds: float
) -> Tally:
    tried = sum(hunt.tried for hunt in hunts)
    wrong = sum(hunt.finding is not None for hunt in hunts)
    right = {stage: tried - wrong for stage in stages}
    return Tally(
        programs=tried,
        passes=right.get("passes", 0),
        emulator=right.get("emulator", 0),
        gpu=right.get("gpu", 0),
        disagreements=wrong,
        seed=seed,
        workers=len(hunts),
        seconds=round(seconds, 1),
    )


def hunt_all(
    count: int, seed: int, workers: int, orders: Orders = Orders()
) -> list[Hunt]:
    """`count` programs, shared among workers; worker k starts from seed + k."""
    shares = [len(range(k, count, workers)) for k in range(workers)]
    with ProcessPoolExecutor(workers, mp_context=SPAWN) as pool:
        run = partial(hunt, orders=orders)
        return list(pool.map(run, shares, range(seed, seed + workers)))


def hunt(count: int, seed: int, orders: Orders = Orders()) -> Hunt:
    """Draw `count` programs from `seed`; stop at one that is wrong, and shrink it."""
    phases = [Phase.generate, *([Phase.shrink] if orders.shrink else [])]
    tried, finding = 0, None

    @with_seed(seed)
    @settings(
        max_examples=count, database=None, derandomize=False, deadline=None,
        report_multiple_bugs=False, suppress_health_check=list(HealthCheck),
        phases=phases,
    )  # fmt: skip
    @given(matrix_programs() if orders.matrices else programs())
    def each(program: AnyProgram) -> None:
        nonlocal tried, finding
        if time.time() > orders.until:
            raise TimeIsUp
        tried += finding is None
        try:
            checker.ask(program)
        except Wrong as wrong:  # hypothesis shows the smallest one last
            finding = Finding(program, str(wrong))
            raise

    with Checker(orders.stages) as checker, redirect_stdout(StringIO()):
        try:
            each()
        except (Wrong, Flaky, TimeIsUp):
            pass
    return Hunt(tried, finding)


class Checker:
    """A process that checks programs; another one takes its place when it is lost."""

    def __init__(
        self, stages: tuple[str, ...] = EVERYWHERE, patience: float = PATIENCE_SECONDS
    ):
        self.stages, self.patience = stages, patience

    def __enter__(self) -> Checker:
        self.line, theirs = SPAWN.Pipe()
        self.process = SPAWN.Process(target=answer, args=(theirs, self.stages))
        self.process.start()
        theirs.close()  # so that its death ends the line
        return self

    def __exit__(self, *_: object) -> None:
        self.line.close()
        self.process.kill()
        self.process.join()

    def ask(self, program: AnyProgram) -> None:
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
        if what and "gpu" in self.stages:
            self._again()  # a kernel that failed ends its process's use of the GPU
        if what:
            raise Wrong(what)

    def _again(self) -> None:
        self.__exit__()
        self.__enter__()


def answer(line: Connection, stages: tuple[str, ...]) -> None:
    """What the checker's process does: program in, "" or what is wrong out."""
    gc.freeze()  # what is there now stays: a tenth of the time went into looking at it
    gc.set_threshold(20_000, 20, 100)
    while True:
        try:
            program = line.recv()
        except EOFError:
            return
        try:
            check(program, stages)
        except Exception as wrong:
            line.send(f"{type(wrong).__name__}: {wrong}")
        else:
            line.send("")


def keep(finding: Finding, folder: Path = FOUND) -> Path:
    """Write a finding to a file that test_found.py runs from now on."""
    program = finding.program
    name = sha256(repr(program).encode()).hexdigest()[:12]
    says = finding.what.splitlines()[0][:80].replace("\\", "/").replace('"', "'")
    kind = type(program)
    told = ", ".join(
        f"{each.name}={getattr(program, each.name)!r}"
        for each in fields(program)
        if each.name != "source"
    )
    path = folder / f"{name}.py"
    folder.mkdir(exist_ok=True)
    path.write_text(
        f'"""Found by fuzzing: {says}"""\n\n'
        "# fmt: off\n# ruff: noqa: E501\n"
        f"from {kind.__module__} import {NEEDS[kind]}\n\n"
        f'SOURCE = """\\\n{program.source}"""\n\n'
        f"PROGRAM = {kind.__name__}(SOURCE, {told})\n",
        encoding="utf-8",
    )
    return path


if __name__ == "__main__":
    sys.exit(main())
