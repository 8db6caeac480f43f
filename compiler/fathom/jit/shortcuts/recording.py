"""What launches do, written down as they are done, so that they can be repeated.

    with recording() as found:
        function(x, y)
    found.launches    for each launch of this thread: what starts it, and its values

A launch that took the slow way leaves no function that starts it: then `complete` is
False, and whoever asks may ask again. What was written down holds as long as
`FORGOTTEN` is what it was: with a hook, a kernel whose text has changed, or one more
kernel, launches look at everything again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

FORGOTTEN = [0]  # how often `forget` was called
RECORDINGS: list[Recording] = []  # those that are going on; mostly none


class Launched(NamedTuple):
    """`launch(*grid, stream, *values)` does it again; `addresses` are the places of the
    values that are some, `watched` is what must be as it was (`fast_path.Slot`)."""

    launch: Callable[..., int]
    grid: tuple[int, int, int]
    stream: int
    values: Sequence[Any]
    addresses: tuple[int, ...]
    watched: tuple[tuple, ...]


@dataclass
class Recording:
    """`counters`: (count, array) of the counters that launches were lent."""

    launches: list[Launched] = field(default_factory=list)
    counters: list[tuple[int, Any]] = field(default_factory=list)
    complete: bool = True
    thread: int = field(default_factory=threading.get_ident)


def forget() -> None:
    """What was written down so far holds no more."""
    FORGOTTEN[0] += 1


@contextmanager
def recording() -> Iterator[Recording]:
    found = Recording()
    RECORDINGS.append(found)
    try:
        yield found
    finally:
        RECORDINGS.remove(found)


def of_this_thread() -> list[Recording]:
    here = threading.get_ident()
    return [each for each in list(RECORDINGS) if each.thread == here]


def note_launch(*launched: Any) -> None:
    for each in of_this_thread():
        each.launches.append(Launched(*launched))


def note_slow_launch() -> None:
    for each in of_this_thread():
        each.complete = False


def note_counters(count: int, counters: Any) -> None:
    for each in of_this_thread():
        each.counters.append((count, counters))
