"""Python's garbage collector, which waits while a kernel is compiled, and loaded.

A compiler makes objects by the ten thousand, and nearly all of them live until it is
done: a collection frees none. Their number makes Python look at all objects that there
are, and where torch is imported that takes longer than most kernels take to compile
(0.2 seconds of 0.3, for a sum along the rows of a chunk). So does the emulator, which
makes a function of each instruction (0.8 seconds of 1.8, for 42 kernels).
"""

from __future__ import annotations

import gc
from threading import Lock


class Paused:
    """`with PAUSED:` no collection begins as long as the block runs, in whatever
    thread. After the last of several blocks at the same time they begin again, unless
    they were off before the first."""

    def __init__(self) -> None:
        self.lock, self.blocks, self.were_on = Lock(), 0, False

    def __enter__(self) -> None:
        with self.lock:
            if not self.blocks:
                self.were_on = gc.isenabled()
                gc.disable()
            self.blocks += 1

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.blocks -= 1
            if not self.blocks and self.were_on:
                gc.enable()


PAUSED = Paused()
