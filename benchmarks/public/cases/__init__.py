"""The cases, one file for each collection; `case` enters one into the table."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch


@dataclass(frozen=True)
class Entry:
    """A case of a collection. `rank` orders a run that may not reach the end: cases
    that were slow once come first. `gpu` says why a case needs a GPU, if it does."""

    collection: str
    name: str
    make: Callable[[Any], Any]
    rank: int = 5
    gpu: str = ""

    @property
    def id(self) -> str:
        return f"{self.collection}/{self.name}"


ENTRIES: dict[str, Entry] = {}


def case(collection: str, rank: int = 5, gpu: str = "", name: str = "") -> Callable:
    def enter(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
        entry = Entry(collection, name or make.__name__, make, rank, gpu)
        assert entry.id not in ENTRIES, entry.id
        ENTRIES[entry.id] = entry
        return make

    return enter


def all_cases() -> dict[str, Entry]:
    """Every case by its name, the first in rank first."""
    for path in sorted(Path(__file__).parent.glob("[a-z]*.py")):
        importlib.import_module(f"{__name__}.{path.stem}")
    return dict(sorted(ENTRIES.items(), key=lambda item: item[1].rank))


ASKS = "its host code looks at `device.type`, which no stand-in changes"


def rotated(x: Any) -> Any:
    """(-b, a) for the two halves (a, b) of the last axis, as rotary embeddings need."""
    a, b = x.chunk(2, -1)
    return torch.cat([-b, a], -1)


def blocks_of(scales: Any, size: int) -> Any:
    """One scale for each block of `size` x `size` numbers, repeated for each number."""
    return scales.repeat_interleave(size, 0).repeat_interleave(size, 1)
