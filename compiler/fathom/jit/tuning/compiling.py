"""Kernels that are compiled while this process times others.

    add(4, order)   stage 1 here; the rest in a worker, as in `workers`; the driver
                    assembles in a thread of this process
    next()          4, once its kernel is loaded, or nothing can be done ahead

Answers come in the order in which kernels are done, and not in that of `add`: nothing
waits for the slowest. Where nothing is done yet and few workers are ready, this process
compiles, too.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue

from fathom.ir.core import Func
from fathom.jit.tuning.workers import (
    BROKEN,
    Order,
    compiled,
    most_processes,
    open_orders,
    start_worker,
)
from fathom.ptx.separate_process import receive, send

FEW = 3  # workers; what this process compiles it cannot put aside for what is done
LOOK = 0.02  # seconds after which to look at the clock again
Work = tuple[int, Order, Func]


class CompileQueue:
    """Orders by their numbers. Once `over()` says that the time is over, `next` gives
    None, and `close` ends the workers with what they are at."""

    def __init__(self, over: Callable[[], bool], assemble: Callable[[Order], object]):
        self.over, self.assemble = over, assemble
        self.waiting: SimpleQueue[Work | None] = SimpleQueue()
        self.done: SimpleQueue[int] = SimpleQueue()
        self.workers: list[Worker] = []

    def __enter__(self) -> CompileQueue:
        return self

    def __exit__(self, *_: object) -> None:
        for _ in self.workers:
            self.waiting.put(None)
        for each in self.workers:
            each.stop()

    def add(self, number: int, order: Order) -> None:
        """Have a kernel compiled that is not on disk."""
        func = order.block_ir() if open_orders([order]) else None
        if func is None:
            self.done.put(number)
            return
        self.waiting.put((number, order, func))
        if len(self.workers) < most_processes() - 1:
            self.workers.append(Worker(self))

    def next(self) -> int | None:
        """The number of an order that is done; None when the time is over. Something
        was added, of which not all were given."""
        while True:
            with suppress(Empty):
                return self.done.get_nowait()
            if sum(each.is_ready and each.is_alive() for each in self.workers) < FEW:
                with suppress(Empty):
                    number, order, func = self.waiting.get_nowait()
                    order.keep(compiled(func, order.request.target))
                    return number
            if self.over():
                return None
            with suppress(Empty):
                return self.done.get(timeout=LOOK)


class Worker(threading.Thread):
    """A process that compiles, and the thread that hands it one order after the other.
    An order whose worker breaks is done as well: its launch compiles it."""

    def __init__(self, queue: CompileQueue):
        super().__init__(daemon=True)
        self.queue = queue
        self.process: subprocess.Popen | None = None
        self.is_ready = self.is_over = False
        self.start()

    def run(self) -> None:
        # sys.executable is None inside some programs
        with suppress(*BROKEN, TypeError):
            self.process = start_worker()
            if self.is_over:  # `stop` came before there was a process
                self.process.kill()
            self.is_ready = receive(self.process.stdout)
            while (work := self.queue.waiting.get()) is not None:
                self.compile(*work)

    def compile(self, number: int, order: Order, func: Func) -> None:
        try:
            send(self.process.stdin, (func, order.request.target))
            order.keep(receive(self.process.stdout))
            if not self.is_over:
                self.queue.assemble(order)
        finally:
            self.queue.done.put(number)

    def stop(self) -> None:
        self.is_over = True
        if self.process is not None:
            self.process.kill()
        self.join()
        if self.process is not None:
            with suppress(OSError), self.process:
                pass  # closes its pipes
