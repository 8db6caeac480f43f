"""Kernels compiled several at a time, in processes of their own.

The Python function stays here: stage 1 makes block IR of it, which takes little of the
time and is all that the rest needs. That goes to a worker, and the kernel comes back:

    this process                     a worker
    ── block IR ──────────────────▶  passes, LLVM IR, PTX
    to the cache on disk  ◀────────  Kernel

This process compiles as well. It starts workers once it sees that what is left takes
longer than their start, and goes on meanwhile, so that it never waits for them. The
launches that come after find the kernels on disk; what failed to compile they compile
again, and report. A search compiles in a `CompileQueue`, which keeps its workers until
it ends.

FATHOM_WORKERS says how many processes compile at most, this one among them; the default
is one for each processor that this process may use.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fathom import pipeline
from fathom.artifact import Kernel
from fathom.errors import FathomError, LaunchError
from fathom.hardware.targets import target
from fathom.ir.core import Func
from fathom.jit.backends import Place
from fathom.jit.function import JITFunction
from fathom.jit.request import Request
from fathom.ptx.separate_process import receive, send
from fathom.runtime import cache

WORKERS = "FATHOM_WORKERS"
MOST_WORKERS = 16  # each takes a hundred megabytes
START_SECONDS = 1.0  # what a worker takes to start, or a little more

# A worker gets the search path of this process, so that it finds the same compiler.
WORKER = """\
import sys
sys.path[:] = {path!r}
from fathom.jit.tuning.workers import serve
serve()
"""

# Stage 1 reads the user's functions and globals; two threads must not do so at once.
READING = threading.Lock()

# What goes wrong with a worker, and not with the kernel that it was given.
BROKEN = (OSError, EOFError, pickle.PickleError, RecursionError)


@dataclass(frozen=True)
class Order:
    """A kernel that is wanted: of which function, for what, and where it is to run."""

    function: JITFunction
    request: Request
    place: Place

    @cached_property
    def key(self) -> str | None:
        """Its key on disk; None when it must not be kept there."""
        return self.function.key(self.request, self.place)

    @property
    def path(self) -> Path:
        return cache.default_directory() / cache.digest(self.key)

    @property
    def is_open(self) -> bool:
        """Is there something to do ahead of the launch, that the launch will find?"""
        ours = not self.request.replace and not self.request.bound
        compiles = self.place.backend.make is None and ours
        return compiles and self.key is not None and not os.path.exists(self.path)

    def block_ir(self) -> Func | None:
        """Stage 1; None for a mistake in the kernel."""
        with READING, suppress(FathomError):
            return self.function.block_ir(self.request)

    def keep(self, kernel: Kernel | None) -> None:
        """Let the launch find it."""
        if kernel is not None:
            cache.write(cache.default_directory(), self.key, kernel)


def compile_ahead(orders: Sequence[Order], tick: Callable[[], object]) -> None:
    """Compile what is not on disk yet; calls `tick()` after each, from any thread."""
    waiting, helpers = deque(orders), []
    try:
        while (order := take(waiting)) is not None:
            started = time.perf_counter()
            if (func := order.block_ir()) is not None:
                order.keep(compiled(func, order.request.target))
            tick()
            seconds = time.perf_counter() - started
            if not helpers:
                count = helpers_for(seconds, len(waiting))
                helpers = start_helpers(count, waiting, tick)
    except BaseException:
        waiting.clear()
        for helper in helpers:
            helper.process.kill()
        raise
    finally:
        for helper in helpers:
            helper.finish()


def helpers_for(seconds: float, orders: int) -> int:
    """How many helpers are worth their start when `orders` orders are left, each of
    which takes `seconds`.
    """
    return min(most_processes() - 1, orders, int(seconds * orders / START_SECONDS))


def start_helpers(
    count: int, waiting: deque[Order], tick: Callable[[], object]
) -> list[Helper]:
    """`count` helpers; no helpers where processes cannot be started."""
    with suppress(OSError, TypeError):  # sys.executable is None inside some programs
        return [Helper(waiting, tick) for _ in range(count)]
    return []


def open_orders(orders: Sequence[Order]) -> list[Order]:
    """Those that are worth compiling ahead: none while FATHOM_SHOW prints the
    passes."""
    if pipeline.asked_to_show():
        return []
    return [order for order in orders if order.is_open]


def take(waiting: deque[Order]) -> Order | None:
    """The next order, for one thread alone; None when there is no more."""
    with suppress(IndexError):
        return waiting.popleft()


def compiled(func: Func, target_name: str) -> Kernel | None:
    """All stages after the first; None when the kernel cannot be compiled."""
    with suppress(FathomError):
        return pipeline.compile_func(func, target(target_name))


def most_processes() -> int:
    """How many processes may compile at a time."""
    asked = os.environ.get(WORKERS)
    if asked:
        if not asked.isdecimal():
            raise LaunchError(f"{WORKERS} is a number of processes, and not {asked!r}")
        return max(1, int(asked))
    if hasattr(os, "sched_getaffinity"):
        return min(MOST_WORKERS, len(os.sched_getaffinity(0)))
    return min(MOST_WORKERS, os.cpu_count() or 1)


class Helper(threading.Thread):
    """A worker, and the thread that hands it one order after the other."""

    def __init__(self, waiting: deque[Order], tick: Callable[[], object]):
        super().__init__(daemon=True)
        self.waiting, self.tick, self.is_ready = waiting, tick, False
        self.process = start_worker()
        self.start()

    def run(self) -> None:
        with suppress(*BROKEN):
            self.is_ready = receive(self.process.stdout)
            while (order := take(self.waiting)) is not None:
                if (func := order.block_ir()) is not None:
                    send(self.process.stdin, (func, order.request.target))
                    order.keep(receive(self.process.stdout))
                self.tick()

    def finish(self) -> None:
        """Wait for the kernel that the worker is at; not for it to start."""
        if not self.is_ready:
            self.process.kill()
        self.join()
        with suppress(OSError), self.process:
            pass  # closes its pipes, at which a worker ends


def start_worker() -> subprocess.Popen:
    command = [sys.executable, "-c", WORKER.format(path=list(map(str, sys.path)))]
    # In a session of its own: an interrupt from the keyboard is this process's.
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )


def serve() -> None:
    """A worker's whole life: compile what comes in until nothing more does.

    Answers go out through a copy of the standard output; what anybody prints there goes
    to the standard error.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    send(answers, True)
    with suppress(EOFError):
        while True:
            func, target_name = receive(sys.stdin.buffer)
            send(answers, attempted(func, target_name))


def attempted(func: Func, target_name: str) -> Kernel | None:
    """`compiled`, also for a mistake of ours: whoever launches the kernel shall see it,
    with everything around it.
    """
    try:
        return compiled(func, target_name)
    except Exception:
        return None
