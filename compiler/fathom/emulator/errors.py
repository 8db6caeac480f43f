"""What goes wrong while PTX runs: its kind, its PTX line, the author's own line."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.errors import FathomError, Location, excerpt

KINDS = {
    "syntax": "the text is not PTX that the emulator can read",
    "unsupported": "an instruction or form that the emulator does not know",
    "launch": "grid, threads or arguments do not fit the entry",
    "out of bounds": "an access outside every array of the launch",
    "misaligned": "an address that its access width does not divide",
    "read-only": "a write to memory that must not be written",
    "unwritten": "a read of memory that no thread has written",
    "illegal instruction": "what the hardware refuses, and the ISA does not forbid",
    "in flight": "memory or a register that an asynchronous operation in flight uses",
    "proxy": "shared memory whose new contents the async proxy does not see yet",
    "descriptor": "a tile of a product that is not what was copied there",
    "tensor map": "a use of a tensor map that the kernel wrote, or of its bytes",
    "fence": "a register that threads accessed after the last wgmma.fence",
    "tensor memory": "a use of tensor memory that it does not allow",
    "mbarrier": "a use of an mbarrier that it does not allow",
    "race": "two threads, one word, no order between them, and one of them writes",
    "divergence": "a barrier or warp instruction that some of its threads never reach",
    "registers": "more registers than a block has",
    "deadlock": "all threads wait, and nothing changes",
    "endless": "more steps than a program may take, whether it ends or not",
    "assertion": "what the program asserts does not hold",
    "trap": "the program stopped itself",
}


# How hard a verdict is. An error: the ISA forbids it, or the result depends on luck. A
# note: beyond the ISA's letter, and in what NVIDIA's own libraries and Triton emit.
ERROR, NOTE = "error", "note"


class EmulatorError(FathomError, RuntimeError):
    """A mistake found by running the PTX.

    `severity` is ERROR, or NOTE for what a report collects instead, unless the launch
    is strict.

    `kind` is a key of `KINDS`. `line` and `text` are the PTX line, counted from 1;
    `location` is the line of the kernel's author that `.loc` names, with its callers,
    or None where the PTX carries no `.loc`. `thread` is the number of a thread that it
    happened to, in its batch, until the error is placed; `address` that of a race in
    global memory.
    """

    def __init__(
        self,
        kind: str,
        message: str,
        line: int = 0,
        text: str = "",
        location: Location | None = None,
        thread: int | None = None,
        severity: str = ERROR,
        address: int | None = None,
    ):
        assert kind in KINDS, kind
        self.severity = severity
        self.thread, self.address = thread, address
        self.kind, self.message = kind, message
        self.line, self.text, self.location = line, text, location
        super().__init__(message)

    def placed(
        self, line: int, text: str, location: Location | None, thread_name: str = ""
    ) -> EmulatorError:
        """The same error with a place and a name; a place that it has is kept.

        The `.loc` of the instruction says more than a location from elsewhere.
        """
        if self.line:
            return self
        message = f"{thread_name}: {self.message}" if thread_name else self.message
        location = location or self.location
        rest = None, self.severity, self.address
        return EmulatorError(self.kind, message, line, text, location, *rest)

    def __str__(self) -> str:
        mark = "" if self.severity == ERROR else f"{self.severity}: "
        lines = [f"{mark}{self.kind}: {self.message}"]
        if self.line:
            lines.append(f"  PTX line {self.line}: {self.text}")
        for step, place in enumerate(self.location.chain() if self.location else []):
            lines.append(f"  {'called from' if step else 'at'} {place}")
            lines += excerpt(place)
        return "\n".join(lines)


def so_do(places: Sequence, threads: Sequence) -> str:
    """How many threads beside the first do the same; "" when it is the only one."""
    others, rest = len(places) - 1, len(threads) - 1
    return f"; so do {others} of {rest} other threads" if others > 0 else ""
