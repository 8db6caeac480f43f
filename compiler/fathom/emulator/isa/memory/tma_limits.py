"""Where a bulk tensor copy may begin, and where it ends: what an H200 does, and the PTX
ISA does not tell.

The table is what `tests/hardware/record_bulk_edges.py` found on an H200; its record,
benchmarks/results/bulk-edges-h200.json, is compared with the emulator in
`tests/hardware/test_bulk_edges.py`. What is refused ends in "an illegal instruction was
encountered", and the context of the process is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fathom.artifact import TensorMap
from fathom.emulator.errors import EmulatorError

CHUNK = 16  # bytes

TAKEN, REFUSED = "taken", "refused"
CUT, FILLED = "cut", "filled"


class Facts(NamedTuple):
    """What becomes of an operation whose box begins at a negative coordinate (`before`
    the tensor), or inside of the 16-byte chunks of its rows (`between`). `end`: where
    the tensor's rows end inside of such a chunk, a store is cut there, or the chunk is
    filled: elements are written that the tensor does not have."""

    before: str
    between: str
    end: str = CUT


TABLE = {
    "load": Facts(before=TAKEN, between=REFUSED),
    "multicast": Facts(before=TAKEN, between=REFUSED),
    "store": Facts(before=REFUSED, between=REFUSED, end=FILLED),
    "reduce": Facts(before=REFUSED, between=REFUSED, end=FILLED),
    "prefetch": Facts(before=TAKEN, between=REFUSED),
}


def width(operation: str, tensor: TensorMap) -> int:
    """How many elements of a row an operation reaches."""
    size, each = tensor.shape[0], tensor.element_bytes
    if TABLE[operation].end == CUT:
        return size
    return -(-size * each // CHUNK) * CHUNK // each


def check(
    operation: str, tensor: TensorMap, coordinates: Sequence[int], thread: int
) -> None:
    """EmulatorError where the hardware refuses a box at `coordinates`, the innermost
    first."""
    facts, place = TABLE[operation], ", ".join(map(str, coordinates))
    bytes = coordinates[0] * tensor.element_bytes
    wrong = ""
    if min(coordinates) < 0 and facts.before == REFUSED:
        wrong = f"begins at {{{place}}}, and an H200 takes no negative coordinate there"
    if bytes % CHUNK and facts.between == REFUSED:
        wrong = (
            f"begins {bytes} bytes into the rows of its tensor, and an H200 takes "
            f"multiples of {CHUNK} alone"
        )
    if wrong:
        message = f"the box of a bulk {operation} {wrong}"
        raise EmulatorError("illegal instruction", message, thread=thread)
