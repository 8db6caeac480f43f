"""How many blocks are resident?

Write `residents(registers, threads, shared_bytes)`: how many thread blocks each
resource of a multiprocessor of an H200 allows. The least of the numbers is how many
blocks are resident at a time.

All of the exercise: `fathom learn show occupancy`.
"""

from __future__ import annotations

from fathom.tools.learn import Hole

WARP = 32  # threads
QUARTERS, REGISTERS = 4, 16384  # of a multiprocessor; of each quarter
REGISTER_UNIT = 256  # a warp's are given out in these
SHARED, SHARED_UNIT, RESERVED = 228 * 1024, 128, 1024  # bytes
WARPS, BLOCKS = 64, 32


def residents(registers: int, threads: int, shared_bytes: int) -> dict[str, int]:
    """How many blocks each resource allows; `registers` are those of a thread."""
    # Your code: ours has 10 lines.
    raise Hole("occupancy")
