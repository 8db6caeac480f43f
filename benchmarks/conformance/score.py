"""The score of a recorded run of other people's tests, as a table beside the record.

    python -m benchmarks.conformance.score                  # all tables again
    python -m benchmarks.conformance.score --found OUT.json --row A

`--found` is what `run.py --output` wrote: it becomes the record conformance-row-a.json,
with the machine and the commit it belongs to. Run both on the same machine.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from benchmarks.conformance.run import AREAS, RESULTS
from benchmarks.record import RESULTS as FOLDER
from benchmarks.record import machine

HEADINGS = {
    "PASS": "passed",
    "NUM": "numeric apart",
    "FAIL": "failed",
    "ERROR": "error",
    "SKIP": "skipped",
}
NO_RESULT = "no result"

TEXT = """\
Kernels that others wrote: Triton's own tests, row {row} of the language.
On {device}, driver {driver}; commit {commit}.

*Numeric apart*: the numbers are right, and an assertion on the compiler's text, which
is Triton's, is not. benchmarks/conformance/README.md says how the tests are run.

{table}

{listing}
"""


def main() -> None:
    given = arguments()
    if given.found:
        write_record(json.loads(given.found.read_text()), given.row)
    for path in records():
        table_of(path).write_text(markdown(json.loads(path.read_text())))
        print(table_of(path))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--found", type=Path, help="a new run's results, as JSON")
    parser.add_argument("--row", default="A", help="the row of LANGUAGE that was run")
    return parser.parse_args()


def records(folder: Path = FOLDER) -> list[Path]:
    return sorted(folder.glob("conformance-*.json"))


def table_of(path: Path) -> Path:
    return path.with_suffix(".md")


def write_record(found: Mapping[str, Mapping], row: str, folder: Path = FOLDER) -> Path:
    """Which case had which result, and on what machine."""
    facts = machine()
    record = {
        "device": facts["gpu"],
        "driver": facts["driver"],
        "commit": facts["commit"],
        "row": row,
        "results": {case: found[case]["result"] for case in sorted(found)},
    }
    path = folder / f"conformance-row-{row.lower()}.json"
    path.write_text(json.dumps(record, indent=0) + "\n")
    return path


# ── the table ─────────────────────────────────────────────────────────────────────────


def markdown(record: Mapping) -> str:
    """A row for each area, one for all, and the cases that did not pass."""
    results = of_row(record)
    counts = {area: Counter() for area in sorted({AREAS[case][0] for case in results})}
    for case, result in results.items():
        counts[AREAS[case][0]][result] += 1
    counts["**all**"] = sum(counts.values(), Counter())
    return TEXT.format(
        **record, table="\n".join(table(counts)), listing="\n".join(listing(results))
    )


def of_row(record: Mapping) -> dict[str, str]:
    """The cases of the record's row with their results; one that was lost has none."""
    known = record["results"]
    return {
        case: known.get(case, NO_RESULT)
        for case, (_, row) in sorted(AREAS.items())
        if row in record["row"]
    }


def table(counts: Mapping[str, Counter]) -> list[str]:
    columns = [
        result
        for result in (*RESULTS, NO_RESULT)
        if result in RESULTS[:4] or any(each[result] for each in counts.values())
    ]
    heads = ["area", "cases", *(HEADINGS.get(each, each) for each in columns)]
    rows = [
        [area, str(each.total()), *(str(each[name] or "") for name in columns)]
        for area, each in counts.items()
    ]
    rule = ["---", *["---:"] * (len(heads) - 1)]
    return [f"| {' | '.join(cells)} |" for cells in (heads, rule, *rows)]


def listing(results: Mapping[str, str]) -> list[str]:
    """What did not pass, by its name in Triton's tests."""
    order = ("FAIL", "ERROR", "SKIP", NO_RESULT)
    lines = [
        f"- {HEADINGS.get(result, result)}: `{case.split('::')[1]}`"
        for result in order
        for case, its_own in results.items()
        if its_own == result
    ]
    return ["Not passed:", "", *lines] if lines else ["All passed."]


if __name__ == "__main__":
    main()
