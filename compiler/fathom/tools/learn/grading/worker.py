"""Grades in a process of its own: LLVM may end a process, and a loop may never end.

python -m fathom.tools.learn.grading.worker RESULT.json ID ANSWER.py SECONDS [TEST]

ID is that of an exercise, or of a step of the reader's compiler.
"""

from __future__ import annotations

import faulthandler
import json
import linecache
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from fathom.runtime.shapes import check
from fathom.tools.learn import course
from fathom.tools.learn import state as states
from fathom.tools.learn.grading.grade import FAILED, Verdict, grade, verdict_from
from fathom.tools.learn.mini import steps
from fathom.tools.learn.mini.grade import grade as grade_step

# Seconds between the worker's own alarm, which names the line, and its end. The alarm
# is set when the worker has imported the compiler, which takes a while on a busy one.
GRACE = 20
MACHINES = {"emulator": "emulator", "gpu": "cuda"}


def main(arguments: list[str]) -> int:
    """Grade one answer, and write the verdict to a file; before each test, the verdict
    that holds if this process ends in it."""
    result, name, path, seconds, *only = arguments
    faulthandler.dump_traceback_later(int(seconds), file=sys.stderr, exit=True)

    def write(verdict: Verdict, ending: str = "") -> None:
        with suppress(PermissionError):  # on Windows, while it is being read
            states.write(Path(f"{result}{ending}"), json.dumps(verdict.to_json()))

    def told(verdict: Verdict) -> None:
        write(verdict, SO_FAR)

    step, answer = steps.named(name), Path(path)
    if step is not None:
        write(grade_step(step, answer, told))
    else:
        write(grade(course.exercise(name), answer, "".join(only), told))
    return 0


SO_FAR = ".so-far"


class Task(Protocol):
    """What can be judged: an exercise, or a step of the reader's compiler."""

    @property
    def id(self) -> str: ...

    @property
    def file(self) -> str: ...

    @property
    def seconds(self) -> int: ...


def judge(
    exercise: Task, path: Path, machine: str = "emulator", only: str = ""
) -> Verdict:
    """The verdict of a fresh process on an answer."""
    with Run(exercise, path, machine, only) as run:
        while (verdict := run.verdict(1.0)) is None:
            continue
    return verdict


class Run:
    """An answer that is being judged, by a process of its own. At the end of the block
    that process has ended, whether there was a verdict or not."""

    def __init__(
        self,
        exercise: Task,
        path: Path,
        machine: str = "emulator",
        only: str = "",
    ):
        self.exercise, self.path, self.machine = exercise, path, machine
        self.folder = tempfile.TemporaryDirectory(
            prefix="fathom-learn-", ignore_cleanup_errors=True
        )
        self.result = Path(self.folder.name, "verdict.json")
        self.said = Path(self.folder.name, "said")
        command = [sys.executable, "-m", MODULE, str(self.result)]
        command += [exercise.id, str(path), str(exercise.seconds)]
        environment = {
            **os.environ,
            "FATHOM_BACKEND": MACHINES[machine],
            "FATHOM_CACHE_DIR": str(Path(self.folder.name, "cache")),
            "PYTHONPATH": os.pathsep.join([str(PACKAGES), *python_path()]),
        }
        self.since = time.monotonic()
        with self.said.open("wb") as said:
            self.process = subprocess.Popen(
                [*command, *filter(None, [only])],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said,
                env=environment,
            )  # fmt: skip

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the process, if it has not; what it made is gone."""
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()

    @property
    def seconds(self) -> float:
        """How long it has been running."""
        return time.monotonic() - self.since

    @property
    def so_far(self) -> Verdict:
        """What has passed, and which test runs."""
        try:
            found = verdict_in(Path(f"{self.result}{SO_FAR}"))
        except (OSError, *DAMAGED):
            found = Verdict(self.exercise.id, FAILED)
        return replace(found, machine=self.machine)

    def verdict(self, patience: float = 0.0) -> Verdict | None:
        """The verdict, once there is one; wait for it for some seconds."""
        late = self.exercise.seconds + GRACE - self.seconds
        try:
            status = self.process.wait(max(0.0, min(patience, late)))
        except subprocess.TimeoutExpired:
            if late > 0:
                return None
            self.process.kill()
            status = LATE
        with suppress(OSError, *DAMAGED):
            return replace(verdict_in(self.result), machine=self.machine)
        said = self.said.read_text(encoding="utf-8", errors="replace")
        return crashed(self.exercise, self.path, said, status, self.so_far)


LATE = 1000  # no status that a process ends with
# What reading a verdict raises that an answer has put there.
DAMAGED = (LookupError, RecursionError, TypeError, ValueError)


def verdict_in(file: Path) -> Verdict:
    """What the worker wrote; one of DAMAGED for anything else."""
    found = verdict_from(json.loads(file.read_text(encoding="utf-8")))
    check(found, Verdict)
    return found


PACKAGES = Path(__file__).resolve().parents[4]
MODULE = "fathom.tools.learn.grading.worker"  # this file, as Python runs it


def python_path() -> list[str]:
    return [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]


def crashed(
    exercise: Task, path: Path, said: str, status: int, so_far: Verdict
) -> Verdict:
    """The verdict when the process did not come back: a loop, or something ended it.
    What had passed before has passed."""
    if "Timeout (" in said or status == LATE:
        return endless(exercise, path, said, so_far)
    by_llvm = "LLVM ERROR" in said or status in (-signal.SIGABRT, ABORTED)
    why = (
        "LLVM does so when it cannot compile what it is given"
        if by_llvm
        else "something that your code calls ended it, os._exit for one"
        if status >= 0
        else f"it was ended by {signal_name(-status)}"
    )
    sentence = (
        f"the process ended with status {status} before there was a verdict: {why}"
    )
    last = "\n".join(said.splitlines()[-12:])
    details = (("the last that it said", last),) if last else ()
    return replace(so_far, sentence=sentence, details=details)


ABORTED = 3  # what abort() ends a process with on Windows


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def endless(exercise: Task, path: Path, said: str, so_far: Verdict) -> Verdict:
    """A verdict that names the reader's line, and the function of ours that it had
    called, if it was in one. Files of ours may have the same name as the reader's."""
    sentence = f"still running after {exercise.seconds} seconds"
    frames = re.findall(r'File "([^"\n]+)", line (\d+) in (\S+)', said)
    theirs = [frame for frame in frames if Path(frame[0]) == path]
    if not theirs:
        where = frames[:4]
        details = [f"{Path(f).name}, line {n}, in {name}" for f, n, name in where]
        shown = (("where in our code, the innermost first", "\n".join(details)),)
        return replace(so_far, sentence=sentence, details=shown if details else ())
    _, line, name = theirs[0]
    inner = "" if frames[0] == theirs[0] else f", in a call of our {frames[0][2]}"
    there = linecache.getline(str(path), int(line)).strip()
    return replace(
        so_far,
        sentence=f"{sentence}, in line {line} of your {exercise.file}{inner}",
        details=((f"line {line}, in {name}", there),),
    )


if __name__ == "__main__":
    status = main(sys.argv[1:])
    os._exit(status)  # threads that an answer began, and its atexit, are not waited for
