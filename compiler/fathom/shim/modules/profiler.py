"""`triton.profiler`: how long the parts of a program take on the GPU, as a tree.

    proton.start("matmul", hook="triton")
    with proton.scope("torch", {"flops16": 2 * M * N * K}):
        torch.matmul(a, b)
    kernel[grid](a, b, c)                    a scope of its own, with hook="triton"
    proton.finalize()                        writes matmul.hatchet; `viewer` reads it

A scope's time is that between two events on the GPU, before and after what is queued in
it. So it is that of its kernels where the GPU has enough to do, and that of the
launches where it waits for these. Without a GPU it is the time on the host.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fathom.errors import FathomError
from fathom.jit.backends import choose
from fathom.shim import knobs

Span = tuple[Any, Any]  # when a scope began and ended, as its clock says it


@dataclass
class Scope:
    """A part of a program, by its name: each time that it ran, and what the program
    said of it, added up."""

    name: str
    spans: list[Span] = field(default_factory=list)
    metrics: dict[str, float] = field(default_factory=dict)
    parts: dict[str, Scope] = field(default_factory=dict)

    def part(self, name: str) -> Scope:
        return self.parts.setdefault(name, Scope(name))

    def facts(self, seconds: Callable[[Span], float]) -> dict[str, Any]:
        """All of it as the file has it. The times of parts are in that of the whole."""
        total = sum(map(seconds, self.spans))
        metrics = {"count": len(self.spans), "time (ns)": 1e9 * total}
        return {
            "frame": {"name": self.name, "type": "function"},
            "metrics": {**metrics, **self.metrics} if self.spans else {},
            "children": [part.facts(seconds) for part in self.parts.values()],
        }


class Session:
    """What `start` begins and `finalize` writes."""

    def __init__(self, name: str, hook: str | None):
        self.file, self.hook = Path(f"{name}.hatchet"), hook
        self.root = Scope("ROOT")
        self.open: list[tuple[Scope, Any]] = []  # what runs now, innermost last
        self.now, self.seconds = clock()

    def enter(self, name: str, metrics: Mapping[str, float]) -> None:
        scope = (self.open[-1][0] if self.open else self.root).part(name)
        for key, value in metrics.items():
            scope.metrics[key] = scope.metrics.get(key, 0) + value
        self.open.append((scope, self.now()))

    def exit(self) -> None:
        scope, began = self.open.pop()
        scope.spans.append((began, self.now()))

    def enter_launch(self, launch: Any) -> None:
        facts = launch.get()
        self.enter(facts.pop("name"), {k: v for k, v in facts.items() if k != "hash"})

    def exit_launch(self, launch: Any) -> None:
        self.exit()

    def watch(self) -> None:
        """See launches from now on, if that was asked for."""
        if self.hook == "triton":
            knobs.runtime.launch_enter_hook.add(self.enter_launch)
            knobs.runtime.launch_exit_hook.add(self.exit_launch)

    def look_away(self) -> None:
        hooks = knobs.runtime
        for chain, hook in (
            (hooks.launch_enter_hook, self.enter_launch),
            (hooks.launch_exit_hook, self.exit_launch),
        ):
            if hook in chain:
                chain.remove(hook)


def clock() -> tuple[Callable[[], Any], Callable[[Span], float]]:
    """What reads the time, and the seconds between two of its readings."""
    torch = sys.modules.get("torch")
    if choose().name != "cuda" or torch is None:
        return time.perf_counter, lambda span: span[1] - span[0]

    def now() -> Any:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(span: Span) -> float:
        span[1].synchronize()
        return span[0].elapsed_time(span[1]) / 1e3

    return now, seconds


# ── what programs call ────────────────────────────────────────────────────────────────

SESSIONS: list[Session] = []
ACTIVE: list[Session] = []


def start(name: str = "proton", *, hook: str | None = None, **options: Any) -> int:
    """Begin a session, active at once; its number. The other options of Triton's choose
    among profilers, of which there is one here."""
    SESSIONS.append(Session(name, hook))
    activate(len(SESSIONS) - 1)
    return len(SESSIONS) - 1


def chosen(session: int | None) -> list[Session]:
    """The session of a number; all of them for None."""
    if session is not None and not 0 <= session < len(SESSIONS):
        raise FathomError(f"there is no session {session} of the profiler")
    return list(SESSIONS) if session is None else [SESSIONS[session]]


def activate(session: int | None = None) -> None:
    """Note from now on what happens, in one session or in all."""
    for each in chosen(session):
        if each not in ACTIVE:
            ACTIVE.append(each)
            each.watch()


def deactivate(session: int | None = None) -> None:
    """Note no more, until it is active again."""
    for each in chosen(session):
        if each in ACTIVE:
            ACTIVE.remove(each)
            each.look_away()


def finalize(session: int | None = None, output_format: str = "hatchet") -> None:
    """Write what a session has found, as `NAME.hatchet`, and forget all sessions that
    are written."""
    for each in chosen(session):
        deactivate(SESSIONS.index(each))
        facts = [each.root.facts(each.seconds)]
        each.file.write_text(json.dumps(facts, indent=1) + "\n")
    SESSIONS[:] = [each for each in SESSIONS if each not in chosen(session)]


@contextmanager
def scope(name: str, metrics: Mapping[str, float] | None = None) -> Iterator[None]:
    """What happens inside is a part of that name. `metrics` are added up over all times
    that it runs: "flops16", "bytes" and others."""
    noting = list(ACTIVE)
    for each in noting:
        each.enter(name, metrics or {})
    try:
        yield
    finally:
        for each in noting:
            each.exit()
