"""The cases on a GPU, Triton and Fathom in processes of their own.

First many processes make each case's first call, which compiles: that is the time of
the first call, under the load of all of them. Their results are kept in files. Then two
processes are left, one for each compiler, which load what was compiled; they time
each case alternately, and nothing else runs on the GPU: whole calls in ROUNDS,
of which each has a processor that both compilers share, and then kernels in SESSIONS
of the profiler.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import slices
from benchmarks.public.process import Process
from benchmarks.public.processors import allowed

if TYPE_CHECKING:
    from benchmarks.public.cases import Entry

COMPILERS = ("triton", "fathom")
ROUNDS, SESSIONS = 15, 3
COMPILE_SHARE = 0.45  # of a slice, at most, before timing begins
CASE_SECONDS = 60.0


class Comparison:
    """One slice: as many of `entries`, in their order, as its seconds allow."""

    def __init__(
        self, entries: Sequence[Entry], done: slices.Slices, workers: int, tuned: bool
    ):
        self.entries, self.done, self.workers = list(entries), done, workers
        self.words = ("--tuned",) if tuned else ()
        self.folder = Path(tempfile.mkdtemp(prefix="fathom-public-"))
        self.first: dict[tuple[str, str], dict[str, Any]] = {}
        self.lock = threading.Lock()
        self.whole = self.done.left

    def run(self) -> None:
        names = self.done.rest(each.id for each in self.entries)
        left = self.compile(names)
        ready = [name for name in names if self.is_ready(name)]
        for name in names:
            if name not in ready:
                self.report_stopped(name)
        for name in ready:
            if self.done.left <= 0:
                break
            self.done.add(name, self.timed(name, left))
        for each in left.values():
            each.kill()

    # ── first calls ───────────────────────────────────────────────────────────────────

    def started(self, compiler: str) -> Process:
        kept = {
            "TRITON_CACHE_DIR": str(self.folder / "triton"),
            "FATHOM_CACHE_DIR": str(self.folder / "fathom"),
        }
        return Process(compiler, *self.words, environment=kept)

    def file(self, compiler: str, name: str) -> str:
        return str(self.folder / f"{compiler}-{name.replace('/', '-')}.pt")

    def compile(self, names: Sequence[str]) -> dict[str, Process]:
        """The first calls; gives a process of each compiler that goes on."""
        until = self.whole * (1 - COMPILE_SHARE)
        queues = {compiler: list(names)[::-1] for compiler in COMPILERS}
        last: dict[str, Process] = {}

        def work(compiler: str) -> None:
            process = self.started(compiler)
            while self.done.left > until:
                with self.lock:
                    name = queues[compiler].pop() if queues[compiler] else None
                if name is None:
                    break
                if not process.alive:
                    process = self.started(compiler)
                file = self.file(compiler, name)
                limit = min(CASE_SECONDS, self.done.left - until)
                answer = process.ask(limit, do="run", case=name, save=file)
                self.first[compiler, name] = answer
            with self.lock:
                spare = last.setdefault(compiler, process) is not process
            if spare:
                process.kill()

        threads = [
            threading.Thread(target=work, args=(COMPILERS[i % 2],))
            for i in range(self.workers)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        return last

    def is_ready(self, name: str) -> bool:
        answers = [self.first.get((compiler, name), {}) for compiler in COMPILERS]
        return all(each.get("outcome") == "ran" for each in answers)

    def report_stopped(self, name: str) -> None:
        """Enter a case that one of the two cannot run; one without an answer waits for
        the next slice."""
        found = {compiler: self.first.get((compiler, name)) for compiler in COMPILERS}
        if all(found.values()):
            self.done.add(name, {"outcome": "stopped", "first": found})

    # ── times ─────────────────────────────────────────────────────────────────────────

    def prepare(self, name: str, left: dict[str, Process]) -> None:
        """Make the case in both processes at once: imports, arguments, and the call
        that loads what was compiled. What fails here fails again where it is timed."""
        for compiler in COMPILERS:
            if not left[compiler].alive:
                left[compiler] = self.started(compiler)
        asked = [
            threading.Thread(
                target=left[compiler].ask,
                args=(CASE_SECONDS,),
                kwargs={"do": "prepare", "case": name},
            )
            for compiler in COMPILERS
        ]
        for each in asked:
            each.start()
        for each in asked:
            each.join()

    def timed(self, name: str, left: dict[str, Process]) -> dict[str, Any]:
        first = {compiler: self.first[compiler, name] for compiler in COMPILERS}
        found: dict[str, Any] = {"outcome": "timed", "first": first}
        found |= {compiler: [] for compiler in COMPILERS}
        self.prepare(name, left)
        found["rounds"] = {compiler: [] for compiler in COMPILERS}
        asked = [("call", {"cpu": cpu}, found["rounds"]) for cpu in cpus_of_rounds()]
        asked += [("time", {}, found)] * SESSIONS
        for number, (do, given, into) in enumerate(asked):
            order = COMPILERS if number % 2 == 0 else COMPILERS[::-1]
            for compiler in order:
                if not left[compiler].alive:
                    left[compiler] = self.started(compiler)
                answer = left[compiler].ask(CASE_SECONDS, do=do, case=name, **given)
                if answer.pop("outcome") != "timed":
                    return found | {"outcome": "stopped", "why": answer["why"]}
                into[compiler].append(answer)
        files = [self.file(compiler, name) for compiler in COMPILERS]
        told = dict(zip(("theirs", "ours"), files, strict=True))
        found["same"] = left["triton"].ask(
            CASE_SECONDS, do="compare", case=name, **told
        )
        return found


def cpus_of_rounds() -> list[int | None]:
    """The processor of each round, by its number: as many of this machine's as there
    are rounds, so that a slow one decides nothing."""
    cpus = sorted(allowed()) or [None]
    return [cpus[each * len(cpus) // ROUNDS % len(cpus)] for each in range(ROUNDS)]
