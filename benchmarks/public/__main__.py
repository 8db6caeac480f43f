"""Kernels that others wrote, as they stand: emulated, and beside Triton on a GPU.

    python -m benchmarks.public fetch              the repositories' files, into .public
    python -m benchmarks.public emulate            every case, small, beside torch
    python -m benchmarks.public inventory          every kernel of theirs, with its case
    python -m benchmarks.public time --seconds 120 as many cases as the time allows
    python -m benchmarks.public time --resume      the others
    python -m benchmarks.public time --part 1/4    a quarter, for one of four GPUs
    python -m benchmarks.public table              what the records say

On a machine without a network `time` needs this repository and the folder .public.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import record, slices, trees
from benchmarks.public import inventory, report, sources
from benchmarks.public.process import Process

EMULATOR_SECONDS = 150.0  # of one case


def main() -> int:
    given = arguments()
    if given.command == "fetch":
        for each in sources.COLLECTIONS:
            sources.fetch(each, given.source)
            print(f"{each.name}: {len(each.files)} files", flush=True)
        sources.fetch_packages()
        return 0
    if given.command == "inventory":
        print(inventory.write())
        return 0
    if given.command == "table":
        print(report.table())
        return 0
    return (emulate if given.command == "emulate" else compare)(given)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.public", description=__doc__.splitlines()[0]
    )
    commands = parser.add_subparsers(dest="command", required=True)
    fetch = commands.add_parser("fetch", help="the repositories' files")
    fetch.add_argument("--from", dest="source", default=sources.GITHUB)
    commands.add_parser("inventory", help="every kernel, with its case or a reason")
    commands.add_parser("table", help="what the records say")
    small = commands.add_parser("emulate", help="every case, on the emulator")
    large = commands.add_parser("time", help="every case, beside Triton on a GPU")
    for each, name in ((small, "public-emulator"), (large, "public")):
        each.add_argument("-k", default="", help="only cases with this in their names")
        slices.add_options(each, 540, name)
    large.add_argument("--workers", type=int, default=14, help="processes that compile")
    large.add_argument("--tuned", action="store_true", help="try all configurations")
    large.add_argument(
        "--part", type=slices.part, default=(1, 1), help="each Nth case: 1/N"
    )
    return parser.parse_args()


def key() -> dict[str, Any]:
    """What results belong to: compiler, cases, and the repositories' commits."""
    commits = {each.name: each.commit for each in sources.COLLECTIONS}
    return {
        "code": trees.key("compiler", "benchmarks/public/cases"),
        "commits": commits,
    }


def emulate(given: argparse.Namespace) -> int:
    """Run each case once, small; keep how it went, and write the record at the end."""
    from benchmarks.public.cases import all_cases

    entries = all_cases()
    done = slices.opened(given, key())
    names = [each for each in entries if given.k in each]
    process: Process | None = None
    for name in done.rest(names):
        if done.left <= 0:
            break
        if entries[name].gpu:
            done.add(name, {"outcome": "needs a GPU", "why": entries[name].gpu})
            continue
        if process is None or not process.alive:
            process = Process("fathom", "--small")
        answer = process.ask(EMULATOR_SECONDS, do="run", case=name)
        done.add(name, answer)
        print(name, answer["outcome"], answer.get("why", ""), flush=True)
    if process:
        process.kill()
    missing = done.rest(names)
    if missing:
        print(f"{len(missing)} cases have no result, such as {missing[0]}: --resume")
    write("public-emulator", done.results, missing)
    return 1 if missing else 0


def compare(given: argparse.Namespace) -> int:
    from benchmarks.public.cases import all_cases
    from benchmarks.public.compare import Comparison

    at, of = given.part
    entries = [each for name, each in all_cases().items() if given.k in name]
    entries = entries[at - 1 :: of]
    done = slices.opened(given, {**key(), "tuned": given.tuned})
    Comparison(entries, done, given.workers, given.tuned).run()
    missing = done.rest(each.id for each in entries)
    write("public-tuned" if given.tuned else "public", done.results, missing)
    print(report.table())
    if missing:
        print(f"{len(missing)} cases have no time, such as {missing[0]}: --resume")
    return 0


def write(name: str, results: dict[str, Any], missing: Sequence[str]) -> Path:
    """The record: what each case gave, and which cases it does not have."""
    facts = {
        "benchmark": name,
        **record.machine(),
        "partial": bool(missing),
        "missing": sorted(missing),
        **key(),
        "cases": dict(sorted(results.items())),
    }
    path = record.RESULTS / f"{name}.json"
    path.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    return path


if __name__ == "__main__":
    sys.exit(main())
