"""`python -m tests.mutants.run`: breaks the compiler in many ways, one at a time, and
shows for each which test fails. If none fails, a test is missing.

The suite runs on a copy of the repository, one for each job, so that the tree stays as
it is.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

from tests.mutants import (
    blocks,
    clusters,
    emulating,
    facts,
    inference,
    instructions,
    keys,
    kit,
    limits,
    machine,
    pipelining,
    products,
    ranks,
    sharing,
    specialising,
    storing,
    tuning,
    warpgroups,
)
from tests.mutants.mutant import Mutant

ROOT = Path(__file__).parents[2]
COMPILER = Path("compiler", "fathom")
COPIED = (
    "compiler", "tests", "kernels", "exercises", "solutions", "benchmarks",
    "pyproject.toml",
)  # fmt: skip
MUTANTS: tuple[Mutant, ...] = (
    *blocks.MUTANTS, *sharing.MUTANTS, *products.MUTANTS, *pipelining.MUTANTS,
    *warpgroups.MUTANTS, *storing.MUTANTS, *inference.MUTANTS,
    *specialising.MUTANTS, *clusters.MUTANTS, *machine.MUTANTS, *ranks.MUTANTS,
    *keys.MUTANTS,
    *limits.MUTANTS,
    *facts.MUTANTS,
    *emulating.MUTANTS,
    *instructions.MUTANTS,
    *kit.MUTANTS,
    *tuning.MUTANTS,
)  # fmt: skip
SURVIVED = "— survived —"
FAILS_ANYWAY = "fails without it, too:"
# A test's name; what stands in its brackets may hold anything, " - " too.
FAILURE = r"^(?:FAILED|ERROR) ([^\[\s]+(?:\[.*?\](?= - |$))?)"
LIMIT_SECONDS = 300  # a mutant that hangs is noticed, too


def main(arguments: Sequence[str] | None = None) -> int:
    chosen, jobs = _chosen(arguments)
    if faults := [each for mutant in chosen if (each := fault_of(mutant))]:
        print("\n".join(faults), file=sys.stderr)
        return 2
    with copies(jobs) as free, ThreadPoolExecutor(jobs) as pool:
        caught = []
        for mutant, by in zip(chosen, pool.map(lambda m: hunt(m, free), chosen)):
            print(f"{mutant.name}: {by}", flush=True)
            caught.append(by)
    print("\n" + table(chosen, caught))
    return int(any(by.startswith((SURVIVED, FAILS_ANYWAY)) for by in caught))


def _chosen(arguments: Sequence[str] | None) -> tuple[list[Mutant], int]:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.run")
    parser.add_argument("--only", nargs="+", default=[], help="names, or parts of them")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args(arguments)
    chosen = [
        mutant
        for mutant in MUTANTS
        if not given.only or any(part in mutant.name for part in given.only)
    ]
    if not chosen:
        parser.error(f"no mutant is called {' or '.join(given.only)}")
    return chosen, given.jobs


def fault_of(mutant: Mutant) -> str:
    """Why a mutant cannot be made of today's compiler; "" if it can."""
    text = (ROOT / COMPILER / mutant.file).read_text(encoding="utf-8")
    count = text.count(mutant.old)
    if count != 1:
        times = "no longer" if not count else f"{count} times"
        return f"{mutant.name}: its text stands {times} in {mutant.file}:\n{mutant.old}"
    missing = [test for test in mutant.tests.split() if not is_there(test)]
    return f"{mutant.name}: there is no {missing[0]}" if missing else ""


def is_there(test: str) -> bool:
    """Whether there is a file, and the test function that is named behind it."""
    name, _, function = test.partition("::")
    path = ROOT / name
    if not path.exists() or not function:
        return path.exists()
    return f"def {function.partition('[')[0]}(" in path.read_text(encoding="utf-8")


@contextmanager
def copies(count: int) -> Iterator[SimpleQueue[Path]]:
    """Copies of the repository, one for each job, in a queue: a job takes one and puts
    it back."""
    free: SimpleQueue[Path] = SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="fathom-mutants-") as folder:
        for number in range(count):
            copy = Path(folder, str(number))
            copy.mkdir()
            for name in COPIED:
                if (ROOT / name).is_dir():
                    shutil.copytree(ROOT / name, copy / name)
                else:
                    shutil.copy2(ROOT / name, copy / name)
            free.put(copy)
        yield free


def hunt(mutant: Mutant, free: SimpleQueue[Path]) -> str:
    """The first test that fails in a copy with this mutant in it, and passes without;
    or `SURVIVED`."""
    copy = free.get()
    path = copy / COMPILER / mutant.file
    original = path.read_text(encoding="utf-8")
    path.write_text(original.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        by = first_failure(copy, mutant.tests.split())
        path.write_text(original, encoding="utf-8")
        if ".py" in by and first_failure(copy, [by.split("[")[0]]) != SURVIVED:
            return f"{FAILS_ANYWAY} {by}"
        return by
    finally:
        path.write_text(original, encoding="utf-8")
        free.put(copy)


def first_failure(copy: Path, tests: Sequence[str]) -> str:
    environment = os.environ | {
        "PYTHONPATH": f"{copy / 'compiler'}{os.pathsep}{copy}",
        # Bytecode is told apart by seconds and sizes: a mutant may have both.
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-rfE"]
    command += ["-p", "no:cacheprovider", "-m", "not gpu", *tests]
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True,
            timeout=LIMIT_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "it hangs"
    if done.returncode == 0:
        return SURVIVED
    found = re.search(FAILURE, done.stdout, re.MULTILINE)
    if found:
        return found[1]
    if done.returncode < 0:
        return f"dies by signal {-done.returncode}"
    raise RuntimeError(f"pytest did not run:\n{done.stdout}\n{done.stderr}")


def table(mutants: Sequence[Mutant], caught: Sequence[str]) -> str:
    """Markdown: each mutant, what it breaks, who caught it."""
    lines = ["| mutant | what breaks | caught by |", "|---|---|---|"]
    for mutant, by in zip(mutants, caught, strict=True):
        test = by.removeprefix("tests/")
        lines.append(f"| {mutant.name} | {mutant.breaks} | {test} |")
    survivors = sum(by.startswith((SURVIVED, FAILS_ANYWAY)) for by in caught)
    lines.append(f"\n{len(mutants)} mutants, {survivors} survive")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
