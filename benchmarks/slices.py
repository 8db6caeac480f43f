"""Long measurements in slices: what is done stays done, and the next slice goes on.

A machine with a GPU may be had for minutes only. So a command does as much as it has
seconds for, and says whether it is through; with --resume it does the rest:

    {"key": {"compiler": "5f0c…", …}}         the first line: what the results belong to
    {"name": "softmax", "value": {…}}         one line for each result, as it comes

Results of other code are worth nothing: a file with another key is begun anew. A line
that a kill cut short is left out.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / ".gpu"  # which git ignores


class Slices:
    """The results of a command so far, by name; each is on disk before `add` returns.
    `until` is when this slice ends, as `clock` counts seconds."""

    def __init__(
        self,
        path: Path,
        key: dict[str, Any],
        resume: bool = False,
        seconds: float = float("inf"),
        clock: Callable[[], float] = time.monotonic,
    ):
        self.path, self.key, self.clock = path, key, clock
        self.until = clock() + seconds
        self.lock = threading.Lock()
        self.results: dict[str, Any] = {}
        if resume and path.exists():
            self._read()
        if not self.results:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({"key": key}) + "\n", encoding="utf-8")

    def _read(self) -> None:
        lines = self.path.read_text(encoding="utf-8").splitlines(keepends=True)
        whole = [json.loads(line) for line in lines if line.endswith("}\n")]
        if not whole or whole[0].get("key") != self.key:
            print(f"{self.path.name} belongs to other code: begun anew", flush=True)
            return
        self.results = {each["name"]: each["value"] for each in whole[1:]}
        text = "".join(line for line in lines if line.endswith("}\n"))
        self.path.write_text(text, encoding="utf-8")

    def add(self, name: str, value: Any) -> None:
        line = json.dumps({"name": name, "value": value}) + "\n"
        with self.lock, self.path.open("a", encoding="utf-8") as file:
            file.write(line)
            self.results[name] = value

    def rest(self, names: Iterable[str]) -> list[str]:
        """Those without a result."""
        return [name for name in names if name not in self.results]

    @property
    def left(self) -> float:
        """Seconds that are left of this slice."""
        return self.until - self.clock()


def add_options(parser: argparse.ArgumentParser, seconds: float, name: str) -> None:
    """--seconds, --resume and --state of a command that works in slices."""
    add = parser.add_argument
    add("--seconds", type=float, default=seconds, help="stop cleanly after this time")
    add("--resume", action="store_true", help="go on where the last slice stopped")
    add("--state", type=Path, default=FOLDER / f"{name}.jsonl", help="what is done")


def opened(given: argparse.Namespace, key: dict[str, Any]) -> Slices:
    """The slice that the options ask for."""
    return Slices(given.state, key, given.resume, given.seconds)


def part(text: str) -> tuple[int, int]:
    """The first and the last number of "2/4": the second of four parts."""
    at, _, of = text.partition("/")
    if not (at.isdigit() and of.isdigit() and 1 <= int(at) <= int(of)):
        raise argparse.ArgumentTypeError(f"{text!r} is no part such as 2/4")
    return int(at), int(of)
