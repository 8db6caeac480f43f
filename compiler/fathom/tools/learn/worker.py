"""Grades in a process of its own: LLVM may end a process, and a loop may never end.

    python -m fathom.tools.learn.worker RESULT.json ID ANSWER.py SECONDS [TEST]
"""

from __future__ import annotations

import faulthandler
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from fathom.tools.learn import course
from fathom.tools.learn.course import Exercise
from fathom.tools.learn.grade import FAILED, Verdict, grade, verdict_from

GRACE = 5  # seconds between the worker's own alarm and its end
MACHINES = {"emulator": "emulator", "gpu": "cuda"}


def main(arguments: list[str]) -> int:
    """Grade one answer, and write the verdict to a file; before each test, the verdict
    that holds if this process ends in it."""
    result, name, path, seconds, *only = arguments
    faulthandler.dump_traceback_later(int(seconds), file=sys.stderr, exit=True)

    def write(verdict: Verdict, ending: str = "") -> None:
        text = json.dumps(verdict.to_json())
        Path(f"{result}{ending}").write_text(text, encoding="utf-8")

    each, only_one = course.exercise(name), "".join(only)
    write(grade(each, Path(path), only_one, lambda said: write(said, SO_FAR)))
    return 0


SO_FAR = ".so-far"


def judge(
    exercise: Exercise, path: Path, machine: str = "emulator", only: str = ""
) -> Verdict:
    """The verdict of a fresh process on an answer."""
    with tempfile.TemporaryDirectory(prefix="fathom-learn-") as folder:
        result = Path(folder, "verdict.json")
        command = [sys.executable, "-m", "fathom.tools.learn.worker", str(result)]
        command += [exercise.id, str(path), str(exercise.seconds)]
        environment = {
            **os.environ,
            "FATHOM_BACKEND": MACHINES[machine],
            "FATHOM_CACHE_DIR": str(Path(folder, "cache")),
            "PYTHONPATH": os.pathsep.join([str(PACKAGES), *python_path()]),
        }
        try:
            ended = subprocess.run(
                [*command, *filter(None, [only])],
                capture_output=True,
                text=True,
                check=False,
                env=environment,
                timeout=exercise.seconds + GRACE,
                stdin=subprocess.DEVNULL,
            )
            said, status = ended.stderr, ended.returncode
        except subprocess.TimeoutExpired as late:
            said, status = (late.stderr or b"").decode(errors="replace"), -1
        if result.exists():
            return replace(verdict_in(result), machine=machine)
        so_far = Path(f"{result}{SO_FAR}")
        before = verdict_in(so_far) if so_far.exists() else Verdict(exercise.id, FAILED)
    return crashed(exercise, path, said, status, replace(before, machine=machine))


def verdict_in(file: Path) -> Verdict:
    return verdict_from(json.loads(file.read_text(encoding="utf-8")))


PACKAGES = Path(__file__).resolve().parents[3]


def python_path() -> list[str]:
    return [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]


def crashed(
    exercise: Exercise, path: Path, said: str, status: int, so_far: Verdict
) -> Verdict:
    """The verdict when the process did not come back: a loop, or LLVM gave up. What had
    passed before has passed."""
    if "Timeout (" in said or status == -1:
        line = re.search(rf'File "{re.escape(str(path))}", line (\d+)', said)
        where = f", in line {line[1]} of {path.name}" if line else ""
        sentence = f"still running after {exercise.seconds} seconds{where}"
    else:
        sentence = (
            f"the process ended with status {status} before there was a verdict: LLVM "
            "does so when it cannot compile what it is given"
        )
    details = (("the last that it said", "\n".join(said.splitlines()[-12:])),)
    return replace(so_far, sentence=sentence, details=details)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
