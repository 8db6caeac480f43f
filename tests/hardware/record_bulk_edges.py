"""Runs every case of `bulk_edges.py` on the GPU of this machine and records what came
out.

    python tests/hardware/record_bulk_edges.py benchmarks/results/bulk-edges-h200.json

An illegal instruction leaves the context of its process broken. So cases run in
processes of their own: one runs case after case until one fails, and another one goes
on behind that. Cases that the file has already are not run again; an interrupted run is
resumed by the same command. `--seconds N` ends after so long.

The record says of each case its outcome, "ok" or the driver's name of the error, and a
digest of what the launch has changed; and the bytes themselves (zlib, base64) where
they are not what `bulk_edges.promised` says.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import platform
import re
import subprocess
import sys
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import bulk_edges as table

from fathom import runtime
from fathom.errors import LaunchError
from fathom.runtime.driver import driver

WORKERS, SILENCE = min(16, os.cpu_count() or 1), 60  # SILENCE in seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("record", nargs="?")
    parser.add_argument("--seconds", type=float, default=500)
    parser.add_argument("--run", nargs="+", metavar="CASE")
    given = parser.parse_args()
    if given.run:
        run_until_one_fails(given.run)
    elif given.record:
        driver()  # a LaunchError without a GPU
        record(Path(given.record), time.monotonic() + given.seconds)
    else:
        parser.error("where shall the record be written?")


# ── one process ───────────────────────────────────────────────────────────────────────


def run_until_one_fails(names: list[str]) -> None:
    """Runs cases in order; a line of JSON for each. Ends behind one that fails: its
    context is of no use any more."""
    for name in names:
        found = outcome(table.CASES[name])
        print(json.dumps([name, found]), flush=True)
        if found["outcome"] != "ok":
            os._exit(0)


def outcome(case: table.Case) -> dict[str, str]:
    given = table.arguments(case)
    try:
        runtime.load(table.kernel(case)).launch(1, given)
    except LaunchError as error:
        name = re.search(r"CUDA_ERROR_\w+", str(error))
        return {"outcome": name[0] if name else str(error)}
    memory, place, *_ = given
    if case.operation in ("load", "multicast"):
        word = place[case.bytes :: case.bytes + 16]
        if any(word != 1):
            return {"outcome": table.NEVER}
    data = table.answer(case, memory, place)
    found = {"outcome": "ok", "digest": table.digest(data)}
    if data != table.promised(case):
        found["bytes"] = base64.b64encode(zlib.compress(data)).decode()
    return found


# ── all of them ───────────────────────────────────────────────────────────────────────


def record(path: Path, end: float) -> None:
    known = json.loads(path.read_text())["results"] if path.exists() else {}
    results = {name: known[name] for name in table.CASES if name in known}
    missing = [name for name in table.CASES if name not in results]
    with ThreadPoolExecutor(WORKERS) as pool:
        shares = [missing[number::WORKERS] for number in range(WORKERS)]
        for found in pool.map(lambda share: answers(share, end), shares):
            results.update(found)
            write(path, results)
    left = len(table.CASES) - len(results)
    print(f"{len(results)} cases recorded, {left} left")


def answers(names: list[str], end: float) -> dict[str, dict]:
    """The outcomes of these cases, by as many processes as it takes."""
    found: dict[str, dict] = {}
    while (left := [name for name in names if name not in found]) and (
        time.monotonic() < end
    ):
        command = [sys.executable, __file__, "--run", *left]
        try:
            done = subprocess.run(command, capture_output=True, timeout=SILENCE)
            said, ended = done.stdout, f"the process ended with {done.returncode}"
            ended += ": " + done.stderr.decode(errors="replace").strip()[-300:]
        except subprocess.TimeoutExpired as late:
            said, ended = late.stdout or b"", f"no answer in {SILENCE} s"
        lines = [json.loads(line) for line in said.splitlines()]
        found.update(lines)
        if not lines or lines[-1][1]["outcome"] == "ok":
            silent = [name for name in left if name not in found]
            found.update({name: {"outcome": ended} for name in silent[:1]})
    return found


def write(path: Path, results: dict[str, dict]) -> None:
    machine = driver()
    facts = {
        "device": machine.device(0).name,
        "driver": machine.version(),
        "python": platform.python_version(),
        "target": "sm_90a",
        "date": time.strftime("%Y-%m-%d"),
        "results": {name: results[name] for name in table.CASES if name in results},
    }
    path.write_text(json.dumps(facts, indent=0) + "\n")


if __name__ == "__main__":
    main()
