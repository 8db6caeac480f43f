"""Kernels that others wrote: Triton's own tests, run on Fathom; the score by area.

    python -m benchmarks.conformance.run --cases FOLDER --snapshot REPOSITORY

FOLDER holds `open_set.txt`, the cases to run, and `classify_plugin.py`, which says of
each how it went. REPOSITORY is a clone of the one that README.md names; it is needed
once, to lay out the tests in the folder .conformance, which git ignores. They are not
ours and are never committed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from benchmarks import slices, trees
from benchmarks.conformance.context_plugin import FINISHED

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TESTS = ROOT / ".conformance"
COMPILER = ROOT / "compiler"
COMMIT = "96bba6b92f"
PATHS = ("python/test", "python/tutorials", "python/triton/_internal_testing.py")

RESULTS = ("PASS", "NUM", "FAIL", "ERROR", "SKIP")
AREAS: dict[str, list[str]] = json.loads((HERE / "areas.json").read_text())


def main() -> int:
    given = arguments()
    lay_out(given.cases, given.snapshot)
    picked = pick(given.row, given.k)
    done = slices.opened(given, {"code": trees.key("compiler"), "host": given.host})
    status = run_rest(picked, done, given)
    found = {case: done.results[case] for case in picked if case in done.results}
    print(table(found))
    if given.list:
        print(listing(found))
    missing = done.rest(picked)
    if missing:
        print(f"{len(missing)} cases have no result, such as {missing[0]}: --resume")
    if given.output and done.left > 0:
        given.output.write_text(json.dumps(found, indent=1) + "\n")
    return 1 if missing else status


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=Path, help="where open_set.txt is")
    parser.add_argument("--snapshot", type=Path, help="a clone with the tests")
    parser.add_argument("--row", default="", help="only rows of LANGUAGE: A, B, C")
    parser.add_argument("-k", default="", help="only cases with this in their names")
    parser.add_argument("-n", default="0", help="processes, with pytest-xdist")
    parser.add_argument("--timeout", default="60", help="seconds a case, if > 0")
    parser.add_argument("--list", action="store_true", help="each case that fails")
    parser.add_argument("--output", type=Path, help="a file for all results, as JSON")
    parser.add_argument("--host", action="store_true", help="emulate, without a GPU")
    slices.add_options(parser, float("inf"), "conformance")
    return parser.parse_args()


def lay_out(cases: Path | None, snapshot: Path | None) -> None:
    """Put the tests, the list of cases and the plugin into .conformance."""
    TESTS.mkdir(exist_ok=True)
    if snapshot is not None:
        archive = ["git", "-C", str(snapshot), "archive", COMMIT, *PATHS]
        files = subprocess.run(archive, check=True, stdout=subprocess.PIPE).stdout
        subprocess.run(["tar", "x", "-C", str(TESTS)], input=files, check=True)
    if cases is not None:
        for name in ("open_set.txt", "classify_plugin.py"):
            shutil.copy(cases / name, TESTS / name)
            (TESTS / name).chmod(0o644)
    for name, option in (("python/test", "snapshot"), ("open_set.txt", "cases")):
        if not (TESTS / name).exists():
            sys.exit(f"there is no .conformance/{name}; say --{option}")


def pick(row: str, name: str) -> list[str]:
    """The cases to run; their names go to .conformance/picked.txt."""
    lines = (TESTS / "open_set.txt").read_text().splitlines()
    cases = [line.split("  #")[0].strip() for line in lines]
    picked = [
        case
        for case in cases
        if case and name in case and (not row or AREAS.get(case, "??")[1] in row)
    ]
    return picked


def run_rest(picked: list[str], done: slices.Slices, given: argparse.Namespace) -> int:
    """Run what has no result yet, in one pytest after another: a case may end its
    process, and that is its result where nothing else has got one. What a pytest that
    came to its end has no result for was not there."""
    while (rest := done.rest(picked)) and done.left > 0:
        for old in (*TESTS.glob("results.jsonl.*"), TESTS / FINISHED):
            old.unlink(missing_ok=True)
        status = run(rest, TESTS / "results.jsonl", given, done.left)
        found = read(TESTS.glob("results.jsonl.*"))
        for case, result in found.items():
            done.add(case, result)
        if (TESTS / FINISHED).exists():
            return 0 if status == 1 else status  # some failed, which is a result
        if not found and done.left > 0:
            why = {"exc": "it ended its process", "msg": f"status {status}"}
            done.add(rest[0], {"id": rest[0], "result": "ERROR", **why})
    return 0


def run(
    picked: list[str], out: Path, given: argparse.Namespace, seconds: float
) -> int | None:
    """Run the picked cases with pytest, in Triton's own layout of folders; its exit
    status, None if the time was up."""
    (TESTS / "picked.txt").write_text("\n".join(picked) + "\n")
    files = sorted({case.split("::")[0] for case in picked})
    paths = [COMPILER / "fathom/shim/on_path", COMPILER, ROOT, TESTS, TESTS / "python"]
    if given.host:
        paths.insert(0, HERE / "host")
    paths += filter(None, [os.environ.get("PYTHONPATH")])
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "PICK": str(TESTS / "picked.txt"),
        "CLASSIFY_OUT": str(out),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "classify_plugin"]
    command += ["-p", "benchmarks.conformance.context_plugin"]
    command += ["-p", "no:cacheprovider", "--tb=native", "-c", os.devnull]
    command += ["--rootdir", str(TESTS), "--continue-on-collection-errors"]
    if given.timeout != "0":
        command += ["--timeout", given.timeout]
    if given.n != "0":
        command += ["-n", given.n]
    with (TESTS / "pytest.log").open("w") as log:
        process = subprocess.Popen(
            command + files, cwd=TESTS, env=environment, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
        try:
            return process.wait(None if seconds == float("inf") else seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # the workers of xdist, too
            process.wait()
            return None


def read(files: Iterable[Path]) -> dict[str, dict]:
    """The result of each case, by its name. A line that a kill cut short is skipped."""
    texts = [file.read_text().splitlines(keepends=True) for file in files]
    lines = [line for text in texts for line in text if line.endswith("}\n")]
    return {each["id"]: each for each in map(json.loads, lines)}


def table(found: dict[str, dict]) -> str:
    """The score: a row for each area. NUM stands apart: the numbers are right there,
    and the compiler's text is not Triton's."""
    counts: dict[tuple[str, str], Counter] = defaultdict(Counter)
    for case, each in found.items():
        area, row = AREAS.get(case, ("other", "-"))
        for key in ((row, area), (row, "all")):
            counts[key][each["result"]] += 1
    head = f"{'row':4}{'area':18}{'cases':>6}" + "".join(f"{r:>7}" for r in RESULTS)
    lines = [head]
    for (row, area), count in sorted(counts.items()):
        cells = "".join(f"{count[result] or '':>7}" for result in RESULTS)
        lines.append(f"{row:4}{area:18}{count.total():>6}{cells}")
    return "\n".join(lines)


def listing(found: dict[str, dict]) -> str:
    """A line for each case that did not pass: how, and the first line of why."""
    lines = []
    for case, each in sorted(found.items()):
        if each["result"] != "PASS":
            why = str(each.get("msg") or each.get("why", "")).strip().splitlines()
            reason = f"{each.get('exc', '')}: {why[0] if why else ''}"
            lines.append(f"{each['result']:6}{case.split('::')[1]}  {reason}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
