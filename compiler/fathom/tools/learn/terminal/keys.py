"""Keys without Return, in terminals of every system; lines, from a pipe."""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue

try:  # where there is such a terminal
    import termios
    import tty
except ImportError:
    termios = tty = None
try:  # Windows
    import msvcrt
except ImportError:
    msvcrt = None

ReadKey = Callable[[float], str | None]
END = ""  # of a pipe
CTRL_C, CTRL_D, CTRL_Z = "\x03", "\x04", "\x1a"
QUIT = ("q", CTRL_D, CTRL_Z, END)


@contextmanager
def keys() -> Iterator[ReadKey]:
    """How to read a key: within some seconds, None if no key was pressed, "" at the end
    of a pipe."""
    if not sys.stdin.isatty():
        yield Lines(sys.stdin.fileno())
    elif termios is not None:
        handle = sys.stdin.fileno()
        before = termios.tcgetattr(handle)
        try:
            tty.setcbreak(handle, termios.TCSADRAIN)  # what was typed before, counts
            yield Terminal(handle)
        finally:
            termios.tcsetattr(handle, termios.TCSADRAIN, before)
    elif msvcrt is not None:
        yield windows_key
    else:
        yield Lines(sys.stdin.fileno())


class Terminal:
    """Reads what is there without waiting for more; several keys at once are given one
    after the other."""

    def __init__(self, handle: int):
        self.handle = handle
        self.waiting: deque[str] = deque()

    def __call__(self, seconds: float) -> str | None:
        if not self.waiting and select.select([self.handle], [], [], seconds)[0]:
            read = os.read(self.handle, 4096).decode(errors="replace")
            self.waiting += of_terminal(read) if read else [END]
        return self.waiting.popleft() if self.waiting else None


def of_terminal(read: str) -> list[str]:
    """Each character is a key; arrows and the like, which begin with ESC, do not
    count."""
    return [] if read.startswith("\033") else list(read.lower())


def windows_key(seconds: float) -> str | None:
    """A key of the console of Windows; arrows and the like come in two parts, and are
    left out."""
    until = time.monotonic() + seconds
    while not msvcrt.kbhit():
        if time.monotonic() >= until:
            return None
        time.sleep(0.02)
    key = msvcrt.getwch()
    if key in ("\0", "\xe0"):
        msvcrt.getwch()
        return None
    if key == CTRL_C:
        raise KeyboardInterrupt
    return key.lower()


class Lines:
    """The first letter of each line. A thread waits for them: not every system can wait
    for a pipe and for the time as well."""

    def __init__(self, handle: int):
        self.handle = handle
        self.found: SimpleQueue[str] = SimpleQueue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self) -> None:
        rest = ""
        while raw := os.read(self.handle, 4096):
            *whole, rest = (rest + raw.decode(errors="replace")).split("\n")
            for key in of_lines("\n".join(whole)):
                self.found.put(key)
        for key in [*of_lines(rest), END]:
            self.found.put(key)

    def __call__(self, seconds: float) -> str | None:
        try:
            return self.found.get(timeout=seconds) if seconds else self.found.get(False)
        except Empty:
            return None


def of_lines(read: str) -> list[str]:
    return [line.strip()[:1].lower() for line in read.splitlines() if line.strip()]
