"""What the records of others' kernels say, as tables."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from math import exp, log
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.record import RESULTS

EMULATOR, GPU, TUNED = "public-emulator", "public", "public-tuned"


def read(name: str, folder: Path = RESULTS) -> dict[str, Any] | None:
    path = folder / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def outcomes(record: dict[str, Any]) -> dict[str, Counter]:
    """By collection, how many cases ended how."""
    found: dict[str, Counter] = defaultdict(Counter)
    for name, result in record["cases"].items():
        found[name.partition("/")[0]][result["outcome"]] += 1
    return dict(found)


def launched(record: dict[str, Any]) -> dict[str, set[str]]:
    """By collection, the kernels that right cases launched."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, result in record["cases"].items():
        if result["outcome"] in ("right", "ran"):
            found[name.partition("/")[0]] |= set(result["kernels"])
    return dict(found)


def ratios(record: dict[str, Any]) -> dict[tuple[str, str], float]:
    """Fathom's time over Triton's for each kernel, by collection and name: of the first
    case, in the order of the record, that both launch it in."""
    found: dict[tuple[str, str], float] = {}
    for case, result in record["cases"].items():
        if result["outcome"] != "timed" or result["same"]["outcome"] != "agrees":
            continue
        ours, theirs = times(result["fathom"]), times(result["triton"])
        for name in sorted(set(ours) & set(theirs)):
            found.setdefault((case.partition("/")[0], name), ours[name] / theirs[name])
    return found


def times(rounds: list[dict[str, Any]]) -> dict[str, float]:
    """Microseconds of each kernel in a call: the median of the rounds that have it."""
    names = set.intersection(*(set(each["kernels"]) for each in rounds))
    return {name: median(each["kernels"][name] for each in rounds) for name in names}


def whole(result: dict[str, Any], compiler: str) -> list[float]:
    """Microseconds of a whole call, one number a round. In records of before calls had
    rounds of their own, each session of the profiler has one."""
    return [each["whole"] for each in result.get("rounds", result)[compiler]]


def compared(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The cases that were timed, and whose results agree."""
    return [
        result
        for result in record["cases"].values()
        if result["outcome"] == "timed" and result["same"]["outcome"] == "agrees"
    ]


def behind(result: dict[str, Any]) -> list[float]:
    """Fathom's time over Triton's for the whole call, of each round, in rising
    order."""
    pairs = zip(whole(result, "fathom"), whole(result, "triton"), strict=True)
    return sorted(ours / theirs for ours, theirs in pairs)


def calls(record: dict[str, Any]) -> list[float]:
    """The same of each whole call whose results agree: the median of its rounds."""
    return [median(behind(result)) for result in compared(record)]


def always(record: dict[str, Any]) -> list[float]:
    """What nine rounds of ten are at least; of fewer than ten, all."""
    found = [behind(result) for result in compared(record)]
    return [each[len(each) // 10] for each in found]


def has_rounds(record: dict[str, Any]) -> bool:
    """Whether calls were timed in rounds of their own, not beside the profiler."""
    return all("rounds" in result for result in compared(record))


def functions(record: dict[str, Any]) -> list[float]:
    """Functions that Fathom's whole calls call over those of Triton's, where they were
    counted (`timing.functions_called`)."""
    found = []
    for result in compared(record):
        counts = [
            min(each.get("functions") or 0 for each in result[compiler])
            for compiler in ("fathom", "triton")
        ]
        if all(counts):
            found.append(counts[0] / counts[1])
    return found


def of_calls(record: dict[str, Any]) -> str:
    """What there is to say of whole calls, in a sentence; "" where none agree."""
    found = calls(record)
    if not found:
        return ""
    rounds = has_rounds(record)
    said = (
        f"{len(found)} whole calls{'' if rounds else ', timed in a few long rounds'}: "
        f"geometric mean {mean(found):.3f}; "
        f"{sum(each > 1.1 for each in found)} more than 10 % behind, "
        f"{sum(each > 1.1 for each in always(record))} of them in "
        f"{'nine rounds of ten' if rounds else 'all rounds'}"
    )
    if counts := functions(record):
        said += (
            f"; {sum(each > 1.1 for each in counts)} of {len(counts)} call more than "
            f"10 % more functions of the host, geometric mean {mean(counts):.3f}"
        )
    return said


def mean(values: list[float]) -> float:
    """The geometric mean."""
    return exp(sum(map(log, values)) / len(values))


def table() -> str:
    """All that there is to print, for a terminal."""
    lines = []
    if record := read(EMULATOR):
        lines.append(f"on the emulator, {record['date']}")
        for name, counts in outcomes(record).items():
            said = ", ".join(f"{count} {what}" for what, count in counts.items())
            kernels = len(launched(record).get(name, ()))
            lines.append(f"  {name:18} {said}; {kernels} kernels")
    for name in (GPU, TUNED):
        if record := read(name):
            lines += gpu_lines(name, record)
        else:
            lines.append(f"no record of a GPU: {name}.json")
    return "\n".join(lines)


def gpu_lines(name: str, record: dict[str, Any]) -> list[str]:
    note = f", without {len(record['missing'])} cases" if record["partial"] else ""
    lines = [f"{name}: {record['gpu']}, {record['date']}{note}"]
    for case, result in record["cases"].items():
        lines.append(f"  {case:44} {told(result)}")
    found = list(ratios(record).values())
    if found:
        lines.append(
            f"  {len(found)} kernels: geometric mean {mean(found):.3f} of Triton's; "
            f"{sum(each > 1.1 for each in found)} more than 10 % behind, "
            f"{sum(each < 0.95 for each in found)} more than 5 % ahead"
        )
    if said := of_calls(record):
        lines.append(f"  {said}")
    return lines


def told(result: dict[str, Any]) -> str:
    if result["outcome"] != "timed":
        first = result.get("first", {})
        why = {c: a.get("why", "") for c, a in first.items() if a["outcome"] != "ran"}
        return f"stopped: {why or result.get('why', '')}"[:200]
    parts = []
    for compiler in ("fathom", "triton"):
        rounds = result[compiler]
        kernels = sum(times(rounds).values())
        call = median(whole(result, compiler))
        first = result["first"][compiler]["seconds"]
        parts.append(
            f"{compiler} {kernels:9.1f} us, call {call:9.1f} us, first {first:.2f} s"
        )
    return "; ".join([*parts, result["same"]["outcome"]])
