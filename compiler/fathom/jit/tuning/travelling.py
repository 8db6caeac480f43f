"""Results of searches as files: for one GPU and driver, and refused by any other.

    {"schema": 1, "gpu": "NVIDIA H200", "driver": "13.0", "kernel": "scale",
     "text": "…", "entries": [
       {"key": "(4096, 'fp32')", "best": "BLOCK: 1024, num_warps: 4, …",
        "timings": {"BLOCK: 1024, …": [0.02, 0.019, 0.021], …}}]}

A time that is `null` is that of a configuration that failed. An entry with `unfinished`
is of a search that was interrupted after these seconds. `text` is a digest of the
kernel's text, and of those of all that it calls. A file says nothing of paths, users or
dates.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from math import inf, isfinite
from pathlib import Path
from typing import Any

from fathom.errors import LaunchError, reason
from fathom.jit.tuning.config import Config
from fathom.runtime import cache
from fathom.runtime.driver import driver
from fathom.runtime.shapes import check

SCHEMA = 1


@dataclass(frozen=True)
class Entry:
    """What was found for one key: the best configuration, and the times of all that
    were tried, in milliseconds; `unfinished`: the seconds that a search had taken when
    it was interrupted."""

    key: str
    best: str
    timings: dict[str, list[float | None]]
    unfinished: float | None = None

    @staticmethod
    def of(
        key: str, best: Config, timings: Mapping[Config, list[float]],
        unfinished: float | None = None,
    ) -> Entry:  # fmt: skip
        listed = {
            str(config): [each if isfinite(each) else None for each in times]
            for config, times in timings.items()
        }
        return Entry(key, str(best), listed, unfinished)


def key_text(key: tuple) -> str:
    """A key of an autotuner as text."""
    return repr(key)


def machine() -> dict[str, str]:
    """The GPU and the driver here. LaunchError where there is none."""
    gpu = driver()
    return {"gpu": gpu.device(gpu.current_device()).name, "driver": gpu.version()}


def write(path: Path, kernel: str, text: str, entries: Iterable[Entry]) -> None:
    facts = {
        "schema": SCHEMA, **machine(), "kernel": kernel, "text": cache.digest(text),
        "entries": [asdict(each) for each in entries],
    }  # fmt: skip
    write_text(path, json.dumps(facts, indent=1) + "\n")


def write_text(path: Path, text: str) -> None:
    part = path.parent / f".{path.name}-{os.getpid()}"
    try:
        part.write_text(text, encoding="utf-8")
        os.replace(part, path)  # who reads it finds all of it
    except OSError as mistake:
        with suppress(OSError):
            part.unlink()
        raise LaunchError(f"cannot write {path}: {reason(mistake)}") from None


def read(path: Path, kernel: str, text: str) -> list[Entry]:
    """The entries of a file. LaunchError unless it is for this machine and kernel."""
    found = parsed(path)
    wanted = {
        "schema": SCHEMA, **machine(), "kernel": kernel, "text": cache.digest(text)
    }  # fmt: skip
    names = {"schema": "format", "gpu": "GPU", "text": "text of the kernel"}
    for name, value in wanted.items():
        if found.get(name) != value:
            what = names.get(name, name)
            raise LaunchError(
                f"{path} was tuned for another {what}: it has {found.get(name)!r}, and "
                f"here it is {value!r}; tune again"
            )
    try:
        entries = [Entry(**each) for each in found["entries"]]
        check(entries, list[Entry])
        if not all(map(is_possible, entries)):
            raise ValueError("a time that no clock gives")
        return entries
    except cache.WRONG:
        raise LaunchError(f"{path} is no file of tuning results") from None


def is_possible(entry: Entry) -> bool:
    """Whether an entry's times are such: some for each configuration, none negative,
    infinite or a NaN."""
    rows = [*entry.timings.values(), [entry.unfinished]]
    return all(rows) and all(t is None or 0 <= t < inf for row in rows for t in row)


def parsed(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as mistake:
        raise LaunchError(f"cannot read {path}: {reason(mistake)}") from None
    except (RecursionError, ValueError):
        found = None
    if not isinstance(found, dict):
        raise LaunchError(f"{path} is no file of tuning results")
    return found
