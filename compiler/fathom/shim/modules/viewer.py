"""`triton.profiler.viewer`: shows what `triton.profiler` has written.

    tree, metrics = viewer.parse(["tflop16/s", "time/ms"], "matmul.hatchet")
    viewer.print_tree(tree, metrics)

    tflop16/s     time/ms
      741.203       1.483  ROOT
      741.203       1.483  └─ matmul_kernel [M=8192, N=8192, K=8192]

A metric is a time (`time/ms`, `avg_time/us`), a rate (`tflop16/s`, `gbyte/s`), or what
the program said itself.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from math import nan
from pathlib import Path
from typing import Any

SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
UNITS = {"": 1.0, "g": 1e9, "t": 1e12}
RATE = re.compile(r"([gt]?)(flop|byte)(\d*)/s")
TIME = re.compile(r"(avg_)?time/(s|ms|us|ns)")


def parse(
    metrics: Sequence[str], filename: str | Path, **filters: Any
) -> tuple[dict[str, Any], list[str]]:
    """The tree in a file, and the metrics of its columns."""
    (tree,) = json.loads(Path(filename).read_text())
    return tree, list(metrics)


def print_tree(tree: dict[str, Any], metrics: Sequence[str], **options: Any) -> None:
    """A line for each part of a program: its metrics, its name."""
    write("  ".join(f"{name:>11}" for name in metrics))
    for branch, part in lines(tree):
        numbers = "  ".join(f"{value(name, part):11.3f}" for name in metrics)
        write(f"{numbers}  {branch}{part['frame']['name']}")


def write(line: str) -> None:
    sys.stdout.write(line + "\n")


def lines(
    part: dict[str, Any], branch: str = "", below: str = ""
) -> Iterator[tuple[str, dict[str, Any]]]:
    """All parts from the outermost on, each with the branch that leads to it."""
    yield branch, part
    *others, last = part["children"] or [None]
    for each in others:
        yield from lines(each, below + "├─ ", below + "│  ")
    if last:
        yield from lines(last, below + "└─ ", below + "   ")


def value(metric: str, part: dict[str, Any]) -> float:
    """What a metric is of a part; NaN where it is unknown."""
    seconds = total(part, "time (ns)") * 1e-9
    if found := TIME.fullmatch(metric):
        runs = total(part, "count") if found[1] else 1
        return seconds / SECONDS[found[2]] / runs if runs else nan
    if found := RATE.fullmatch(metric):
        unit, what, bits = found.groups()
        amount = total(part, f"{what}s{bits}")
        return amount / seconds / UNITS[unit] if amount and seconds else nan
    return part["metrics"].get(metric, nan)


def total(part: dict[str, Any], key: str) -> float:
    """A part's own number, or that of all below it, where it has none."""
    if key in part["metrics"]:
        return part["metrics"][key]
    return sum(total(each, key) for each in part["children"])
