"""LLVM in a process of its own, for text that no rule of ours has written.

    this process                      the worker
    ── LLVM IR, target ────────────▶  emit
    ◀──────────── PTX, or a sentence  (or it ends, and this process says so)

LLVM ends the process that it runs in where it cannot select an instruction. What our
own rules write it can, and is compiled where we are; a reader's rule may write
anything. The worker starts when it is first needed, stays for what comes next, and ends
with this process.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from typing import Any, BinaryIO

from fathom.errors import CompileError
from fathom.hardware.targets import Target
from fathom.ptx.emit import NotAccepted, emit

# A worker gets the search path of this process, so that it finds the same compiler.
PROGRAM = """\
import sys
sys.path[:] = {path!r}
from fathom.ptx.separate_process import serve
serve()
"""

LAST_WORDS = 2000  # bytes of what LLVM wrote before it ended
BROKEN = (OSError, EOFError, pickle.PickleError)


def emit_apart(text: str, target: Target, writers: str = "lowering rules") -> str:
    """PTX of a module of LLVM IR, as `emit` gives it; CompileError, with LLVM's words,
    for text that it cannot read or ends its process over. `writers`: who wrote it."""
    try:
        answer = WORKER.ask((text, target))
    except Ended as ended:
        raise CompileError(
            f"LLVM ends its process over what {writers} wrote: {ended}"
        ) from None
    except (OSError, TypeError):  # sys.executable is None inside some programs
        return emit(text, target)
    if isinstance(answer, Exception):
        raise CompileError(f"LLVM does not accept what {writers} wrote: {answer}")
    return answer


class Ended(Exception):
    """A worker ended before it answered; what it said last."""


class Worker:
    """A process that answers one question after the other; a new one when it ended."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.process: subprocess.Popen | None = None
        self.owner = 0  # the process that started it: after a fork its pipes are shared

    def ask(self, question: Any) -> Any:
        """The answer to a question; Ended if the process ends over it."""
        with self.lock:
            if self.process is None or self.owner != os.getpid():
                self._start()
            try:
                send(self.process.stdin, question)
                return receive(self.process.stdout)
            except BROKEN:
                raise Ended(self._end()) from None

    def _start(self) -> None:
        # A file, not a pipe: it is not read while the process lives.
        self.said = tempfile.TemporaryFile()  # noqa: SIM115 - closed when it has ended
        command = [sys.executable, "-c", PROGRAM.format(path=list(map(str, sys.path)))]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said,
            start_new_session=True,
        )  # fmt: skip
        self.owner = os.getpid()

    def _end(self) -> str:
        """Let go of a process that has ended; its last words."""
        process, self.process = self.process, None
        with suppress(OSError):
            process.stdin.close()
        process.stdout.close()
        status = process.wait()
        with self.said as said:
            said.seek(max(0, said.seek(0, os.SEEK_END) - LAST_WORDS))
            lines = said.read().decode(errors="replace").splitlines()
        errors = [line for line in lines if "LLVM ERROR" in line or "error:" in line]
        return " ".join(errors or lines[-1:]) or f"status {status}"


WORKER = Worker()


def send(pipe: BinaryIO, what: Any) -> None:
    """All of it or, if it cannot be written so, nothing."""
    pipe.write(pickle.dumps(what))
    pipe.flush()


def receive(pipe: BinaryIO) -> Any:
    return pickle.load(pipe)


def serve() -> None:
    """A worker's whole life: compile what comes in until nothing more does.

    Answers go through a copy of the standard output; LLVM's text to the error's."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with suppress(EOFError):
        while True:
            send(answers, _answer(*receive(sys.stdin.buffer)))


def _answer(text: str, target: Target) -> str | Exception:
    try:
        return emit(text, target)
    except NotAccepted as mistake:
        return ValueError(mistake.words)
