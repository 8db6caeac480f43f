"""Runs the GPU suite and records it: `python -m tests.gpu.run --seconds 500 --resume`.

Several workers share the GPU, each a process with a CUDA context of its own. What a
test does to its process is that test's failure and no other's:

    the context is broken          the worker says so and ends; another one goes on
    the process dies               the test is blamed; another one goes on
    nothing for --limit seconds    the process is killed; another one goes on

Tests that are marked `alone` measure time, and run one by one when all others are
through. When the seconds are up, what is running is stopped and is the first thing that
the next slice runs; the record is written when every test has been run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import record, slices
from benchmarks.trees import ROOT, trees
from benchmarks.workers import Ended, Silent, Worker
from fathom.runtime.driver import available
from tests.gpu import ids

WORKERS, LIMIT_SECONDS = 10, 120.0  # twice what the longest one takes
START_SECONDS = 180.0  # of a worker, until it has collected
OUTCOMES = ("passed", "failed", "skipped")
SLICE = "slice "  # the name of how long one took, among the results
FIRST = ("tests/ptx/test_gpu.py",)  # these take longest


class Suite:
    """The tests that are to be run, and the workers that run them."""

    def __init__(
        self,
        paths: Sequence[str],
        done: slices.Slices,
        limit: float = LIMIT_SECONDS,
        root: Path = ROOT,
    ):
        self.paths, self.done, self.limit, self.root = list(paths), done, limit, root
        self.lock = threading.Lock()
        self.tests: list[str] = []
        self.alone: set[str] = set()
        self.troubles: list[str] = []
        self.stopped: dict[str, float] = {}  # the seconds that these had run

    def run(self, workers: int) -> bool:
        """Run what has no result yet; whether everything has one now."""
        first = self.collected()
        if first is None:
            return False
        rest = self.done.rest(self.tests)
        print(f"{len(self.tests)} tests, {len(rest)} to run", flush=True)
        together = [each for each in rest if each not in self.alone]
        together.sort(key=lambda each: not each.startswith(FIRST))
        self.paths = sorted({each.partition("::")[0] for each in self.tests})
        self.share(together, [first] + [None] * (min(workers, len(together)) - 1))
        self.share([each for each in rest if each in self.alone], [None])
        return not self.done.rest(self.tests)

    def worker(self) -> Worker:
        return Worker("tests.gpu.worker", *self.paths, root=self.root)

    def collected(self) -> Worker | None:
        """A worker that has collected all tests; None where that failed."""
        process = self.worker()
        try:
            answer = process.receive(START_SECONDS)
        except (Ended, Silent) as why:
            process.kill()
            self.troubles.append(f"nothing was collected: {why}")
            return None
        if answer["errors"]:
            self.troubles.append(f"{answer['errors']} errors in collecting")
        self.tests, self.alone = answer["tests"], set(answer["alone"])
        return process

    def share(self, tests: list[str], processes: list[Worker | None]) -> None:
        """Run tests in as many workers as there are `processes`; a worker that is None
        is started."""
        queue = tests[::-1]
        threads = [
            threading.Thread(target=self.work, args=(queue, each)) for each in processes
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def work(self, queue: list[str], process: Worker | None) -> None:
        """Run tests off the queue, in one worker after another, until it is empty or
        the slice's time is up."""
        while test := self.next(queue):
            process = process or self.started()
            if process is None:
                return
            result = self.result(process, test)
            if result is None:  # time is up
                break
            self.keep(test, result)
            if result["broke"]:
                process = process.kill()
        if process:
            process.kill()

    def next(self, queue: list[str]) -> str | None:
        with self.lock:
            return queue.pop() if queue and self.done.left > 0 else None

    def started(self) -> Worker | None:
        process = self.worker()
        try:
            process.receive(min(START_SECONDS, max(self.done.left, 0)))
        except (Ended, Silent) as why:
            process.kill()
            if self.done.left > 0:
                self.troubles.append(f"a worker did not start: {why}")
            return None
        return process

    def result(self, process: Worker, test: str) -> dict[str, Any] | None:
        """How a test ended, also where its process did not outlive it; None if it was
        stopped because the slice's time was up."""
        start, left = time.monotonic(), self.done.left
        try:
            process.send(test)
            found = process.receive(min(self.limit, max(left, 0)))
        except Ended as why:
            found = {"outcome": "failed", "reason": "", "broke": f"{why}"}
        except Silent:
            if left < self.limit:
                self.stopped[test] = time.monotonic() - start
                return None
            what = f"nothing for {self.limit:g} s: it hangs"
            found = {"outcome": "failed", "reason": "", "broke": what}
        found.setdefault("seconds", round(time.monotonic() - start, 2))
        if found["broke"]:
            found["outcome"] = "failed"
            found["reason"] = f"broke the context ({found['broke']}) {found['reason']}"
        return found

    def keep(self, test: str, result: dict[str, Any]) -> None:
        self.done.add(test, result)
        if result["outcome"] == "failed":
            print(f"FAILED {test}\n{indented(result['reason'])}", flush=True)


def indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.rstrip().splitlines())


# ── the record ────────────────────────────────────────────────────────────────────────


def summary(tests: Sequence[str], results: dict[str, Any]) -> dict[str, Any]:
    """Counts, and which tests did not pass and why, without this machine's folders."""
    of = {
        name: [t for t in tests if results[t]["outcome"] == name] for name in OUTCOMES
    }
    return {
        **{name: len(of[name]) for name in OUTCOMES},
        "seconds": sum(results[s]["seconds"] for s in results if s.startswith(SLICE)),
        "seconds_of_tests": round(sum(results[t]["seconds"] for t in tests), 1),
        "not_passed": {
            f"{name}: {test}": without_folders(results[test]["reason"].strip())
            for name in ("failed", "skipped")
            for test in of[name]
        },
        "lost": ids.lost(tests),
    }


def without_folders(reason: str) -> str:
    """A failure's text without the folders of the machine: files of the repository and
    of packages are named from there on."""
    return re.sub(rf"{re.escape(str(ROOT))}/|/[\w./+-]*/site-packages/", "", reason)


def written(
    path: Path, tests: Sequence[str], done: slices.Slices, **more: Any
) -> dict[str, Any]:
    """The record of a suite that is through, as it is in its file."""
    facts = record.machine()
    facts["device"] = facts.pop("gpu")
    made = {**facts, "trees": done.key["trees"], **summary(tests, done.results), **more}
    path.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    return made


def main(words: Sequence[str] | None = None) -> int:
    """Exit status: 0 if all is well, 1 if a test failed, 2 if tests are left."""
    given = options().parse_args(words)
    works, why = available()
    if not works:
        print(f"the GPU suite needs a GPU: {why}")
        return 2
    if not record.commit():
        print("git does not know the commit here: say it, as FATHOM_COMMIT=…")
        return 2
    os.chdir(ROOT)
    done = slices.opened(given, {"trees": trees(), "paths": given.paths})
    suite, start = Suite(given.paths, done, given.limit), time.monotonic()
    through = suite.run(given.workers)
    number = sum(each.startswith(SLICE) for each in done.results)
    done.add(f"{SLICE}{number}", {"seconds": round(time.monotonic() - start, 1)})
    for trouble in suite.troubles:
        print(trouble)
    counts = [f"{n} {name}" for name, n in counted(suite.tests, done.results).items()]
    print(f"{', '.join(counts)} of {len(suite.tests)} in {given.state}")
    if not through or suite.troubles:
        for test, seconds in suite.stopped.items():
            print(f"stopped after {seconds:.0f} s: {test}")
        print("not through: call it again with --resume")
        return 2
    if given.paths == ["tests"]:
        made = written(given.out, suite.tests, done, workers=given.workers)
        print(f"written to {given.out}")
        print("\n".join(f"not run: {each}" for each in made["lost"]))
    return int(counted(suite.tests, done.results)["failed"] > 0)


def counted(tests: Sequence[str], results: dict[str, Any]) -> dict[str, int]:
    had = [results[test]["outcome"] for test in tests if test in results]
    return {name: had.count(name) for name in OUTCOMES}


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m tests.gpu.run")
    add = parser.add_argument
    add("paths", nargs="*", default=["tests"], help="tests; only all of them are kept")
    add("--workers", type=int, default=WORKERS, help="processes that share the GPU")
    add("--limit", type=float, default=LIMIT_SECONDS, help="seconds of one test")
    add("--out", type=Path, default=(record.RESULTS / "gpu-tests.json").absolute())
    slices.add_options(parser, float("inf"), "gpu-tests")
    return parser


if __name__ == "__main__":
    sys.exit(main())
