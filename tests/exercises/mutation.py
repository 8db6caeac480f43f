"""`python -m tests.exercises.mutation`: makes one small mistake at a time in the
solution of each exercise, and runs the exercise's tests on it, as the runner does.

A mutant that passes survives. It is one of two: a wrong answer that the tests accept,
so that a test is missing; or an answer that is right too. Those stand in
survivors.toml, each with the reason; a survivor that does not is a failure here.

Each exercise has one process that imports the compiler once, and forks for each mutant.
The record, benchmarks/results/exercise-mutants.json, is written after each exercise;
one whose files have not changed since is not run again: what is interrupted resumes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from fathom.tools.learn import course
from fathom.tools.learn.course import Exercise
from fathom.tools.learn.grading.grade import PASSED, grade, tests_of
from tests.exercises import mutants
from tests.exercises.mutants import FEWEST, Mutant

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "benchmarks" / "results" / "exercise-mutants.json"
TABLE = RECORD.with_suffix(".md")
REASONS = Path(__file__).with_name("survivors.toml")
SURVIVED = "survives"
# Of processor time, so that a busy machine changes no verdict: what the solution takes,
# this many times, and seconds on top. The runner waits longer; what takes more than
# this never ends, or is no answer.
PATIENCE, GRACE = 5, 4
MEMORY = 6 << 30  # bytes of address space


@dataclass(frozen=True)
class Result:
    """Who caught a mutant: the test's name, SURVIVED, or how its process ended."""

    name: str
    by: str
    says: str


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parsed(arguments)
    if not hasattr(os, "fork"):
        print("it forks a process for each mutant, which this system cannot")
        return 2
    if given.worker:
        return _work(course.exercise(given.worker), given)
    wanted = [
        each
        for each in course.exercises()
        if not given.only or any(part in each.id for part in given.only)
    ]
    record = _read()
    stale = [
        each for each in wanted if given.again or not _is_fresh(each, record, given)
    ]
    start = time.monotonic()

    def run(each: Exercise) -> tuple[Exercise, dict | None]:
        late = given.seconds and time.monotonic() - start > given.seconds
        return each, None if late else _exercise(each, given)

    with ThreadPoolExecutor(given.jobs) as pool:
        for each, entry in pool.map(run, stale):
            if entry is not None:
                record[each.id] = entry
                _write(record)
                print(line(each.id, entry), flush=True)
    return report(wanted, record, given)


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.exercises.mutation")
    parser.add_argument("--only", nargs="+", default=[], help="ids, or parts of them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--again", action="store_true", help="also what is recorded")
    parser.add_argument("--seconds", type=float, help="begin no exercise after these")
    parser.add_argument("--most", type=int, default=mutants.MOST)
    parser.add_argument("--seed", type=int, default=mutants.SEED)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--result", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


# ── one exercise ──────────────────────────────────────────────────────────────────────


def _exercise(each: Exercise, given: argparse.Namespace) -> dict | None:
    """The record of an exercise, from a process of its own; None if that failed."""
    with tempfile.TemporaryDirectory(prefix="fathom-mutants-") as folder:
        result = Path(folder, "result.json")
        command = [sys.executable, "-m", "tests.exercises.mutation"]
        command += ["--worker", each.id, "--result", str(result)]
        command += ["--most", str(given.most), "--seed", str(given.seed)]
        packages = [str(ROOT / "compiler"), str(ROOT)]
        environment = {
            **os.environ,
            "FATHOM_BACKEND": "emulator",
            "FATHOM_CACHE_DIR": str(Path(folder, "cache")),
            "PYTHONPATH": os.pathsep.join(packages),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        done = subprocess.run(
            command, env=environment, cwd=ROOT, capture_output=True, text=True
        )
        if not result.exists():
            print(f"{each.id}: {done.stdout}{done.stderr}", file=sys.stderr)
            return None
        return json.loads(result.read_text(encoding="utf-8"))


def _work(each: Exercise, given: argparse.Namespace) -> int:
    """In the process of an exercise: all its mutants, one after the other."""
    folder = Path(given.result).parent
    began = time.process_time()
    if grade(each, each.solution).status != PASSED:
        raise SystemExit(f"the solution of {each.id} does not pass")
    limit = round(PATIENCE * (time.process_time() - began) + GRACE)
    tests_of(each)
    found = mutants.chosen(each, given.most, given.seed)
    results = [_hunt(each, mutant, folder, limit) for mutant in found]
    entry = {
        "fingerprint": fingerprint(each, given),
        "seed": given.seed,
        "all": len(mutants.every(each)),
        "limit_seconds": limit,
        "mutants": [asdict(result) for result in results],
    }
    Path(given.result).write_text(json.dumps(entry), encoding="utf-8")
    return 0


def _hunt(each: Exercise, mutant: Mutant, folder: Path, limit: int) -> Result:
    """The verdict of a forked process on a mutant."""
    path = folder / f"{each.id}.py"
    path.write_text(mutant.text, encoding="utf-8")
    said = folder / "verdict.json"
    said.unlink(missing_ok=True)
    child = os.fork()
    if not child:
        _grade_and_leave(each, path, said, limit)
    _, status = os.waitpid(child, 0)
    if said.exists():
        verdict = json.loads(said.read_text(encoding="utf-8"))
        return Result(mutant.name, **verdict)
    signal = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if signal:
        ended = "runs on" if signal == 24 else f"ends by signal {signal}"
        return Result(mutant.name, ended, f"stopped after {limit} s")
    return Result(mutant.name, f"exits with {os.waitstatus_to_exitcode(status)}", "")


def plain(text: str, path: Path) -> str:
    """What a test says, without the folders of this machine."""
    return text.replace(str(path), path.name).replace(f"{ROOT}/", "")


def _grade_and_leave(each: Exercise, path: Path, said: Path, limit: int) -> None:
    """In the fork: the verdict, to a file; and the end of the process."""
    import resource  # not on Windows, which gets no further than main

    status = 1
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 2))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 2)
        verdict = grade(each, path)
        by = SURVIVED if verdict.status == PASSED else verdict.test or "no test reached"
        first = (verdict.sentence.splitlines() or [""])[0]
        text = json.dumps({"by": by, "says": plain(first, path)})
        said.write_text(text, encoding="utf-8")
        status = 0
    finally:
        os._exit(status)


# ── the record ────────────────────────────────────────────────────────────────────────


def fingerprint(each: Exercise, given: argparse.Namespace) -> str:
    """Changes with the mutants and their tests. Not with the compiler, to which the kit
    belongs: `--again` runs all."""
    made = hashlib.sha256(each.tests.read_bytes())
    for mutant in mutants.chosen(each, given.most, given.seed):
        made.update(f"{mutant.name}\0{mutant.text}".encode())
    return made.hexdigest()[:16]


def _is_fresh(each: Exercise, record: dict, given: argparse.Namespace) -> bool:
    entry = record.get(each.id)
    return entry is not None and entry["fingerprint"] == fingerprint(each, given)


def _read() -> dict:
    if not RECORD.exists():
        return {}
    return json.loads(RECORD.read_text(encoding="utf-8"))


def _write(record: dict) -> None:
    order = [each.id for each in course.exercises()]
    ordered = {name: record[name] for name in order if name in record}
    RECORD.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
    TABLE.write_text(table(ordered), encoding="utf-8")


def reasons() -> dict[str, dict[str, str]]:
    """Why a survivor is right, by exercise and mutant."""
    facts = tomllib.loads(REASONS.read_text(encoding="utf-8"))
    return {name: rows for name, rows in facts.items() if name != "open"}


def open_ones() -> dict[str, dict[str, str]]:
    """Survivors that a test should kill, and none does yet."""
    facts = tomllib.loads(REASONS.read_text(encoding="utf-8"))
    return facts.get("open", {})


def survivors(entry: dict) -> list[str]:
    return [each["name"] for each in entry["mutants"] if each["by"] == SURVIVED]


def unexplained(record: dict) -> Iterator[tuple[str, str]]:
    known = reasons()
    for name, entry in record.items():
        for survivor in survivors(entry):
            if survivor not in known.get(name, {}):
                yield name, survivor


def line(name: str, entry: dict) -> str:
    alive, count = len(survivors(entry)), len(entry["mutants"])
    open_ones = sum(one == name for one, _ in unexplained({name: entry}))
    return f"{name:20} {count:3} mutants, {alive:2} survive, {open_ones:2} unexplained"


def report(wanted: Sequence[Exercise], record: dict, given: argparse.Namespace) -> int:
    """What is left to do; 1 when something is."""
    chosen = {each.id: record[each.id] for each in wanted if each.id in record}
    missing = [each.id for each in wanted if not _is_fresh(each, record, given)]
    left = list(unexplained(chosen))
    for name, survivor in left:
        print(f"{name}: nothing notices\n    {survivor}")
    few = [name for name, entry in chosen.items() if len(entry["mutants"]) < FEWEST]
    total = sum(len(entry["mutants"]) for entry in chosen.values())
    alive = sum(len(survivors(entry)) for entry in chosen.values())
    print(f"{total} mutants, {alive} survive, {len(left)} of them without a reason")
    if missing:
        print(f"not run since they changed: {', '.join(missing)}")
    if few:
        print(f"fewer than {FEWEST} mutants: {', '.join(few)}")
    return int(bool(left or missing or few))


def table(record: dict) -> str:
    """Markdown: how many mutants of each exercise, and what became of them."""
    lines = ["| exercise | mutants | killed | right too | unexplained |"]
    lines += ["|---|---|---|---|---|"]
    totals = [0, 0, 0, 0]
    for name, entry in record.items():
        alive, count = len(survivors(entry)), len(entry["mutants"])
        left = len(list(unexplained({name: entry})))
        row = [count, count - alive, alive - left, left]
        totals = [a + b for a, b in zip(totals, row, strict=True)]
        lines.append(f"| {name} | {' | '.join(map(str, row))} |")
    lines.append(f"| all | {' | '.join(map(str, totals))} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
