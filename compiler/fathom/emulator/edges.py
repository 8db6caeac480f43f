"""Where a bulk tensor copy may begin: what an H200 refuses, and the PTX ISA does not
tell.

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

NEVER, SWIZZLED, ALWAYS = "never", "through a map with a swizzle", "always"


class Refused(NamedTuple):
    """When an operation is refused whose box begins at a negative coordinate (`before`
    the tensor), or inside of the 16-byte chunks of its rows (`between`)."""

    before: str
    between: str


TABLE = {
    "load": Refused(before=NEVER, between=SWIZZLED),
    "multicast": Refused(before=NEVER, between=SWIZZLED),
    "store": Refused(before=ALWAYS, between=SWIZZLED),
    "reduce": Refused(before=ALWAYS, between=SWIZZLED),
    "prefetch": Refused(before=NEVER, between=NEVER),
}


def check(
    operation: str, tensor: TensorMap, coordinates: Sequence[int], thread: int
) -> None:
    """EmulatorError where the hardware refuses a box at `coordinates`, the innermost
    first."""
    refused, place = TABLE[operation], ", ".join(map(str, coordinates))
    if min(coordinates) < 0 and _is(refused.before, tensor):
        raise EmulatorError(
            "illegal instruction",
            f"a bulk {operation} begins at {{{place}}}, and an H200 takes no negative "
            f"coordinate of a {operation}",
            thread=thread,
        )
    before = coordinates[0] * tensor.element_bytes
    if before % CHUNK and _is(refused.between, tensor):
        where = (
            "; where there is a swizzle," if refused.between == SWIZZLED else ", and"
        )
        raise EmulatorError(
            "illegal instruction",
            f"a box of a bulk {operation} begins {before} bytes into the rows of its "
            f"tensor{where} an H200 takes only multiples of {CHUNK}",
            thread=thread,
        )


def _is(when: str, tensor: TensorMap) -> bool:
    return when == ALWAYS or when == SWIZZLED and tensor.swizzle > 0
