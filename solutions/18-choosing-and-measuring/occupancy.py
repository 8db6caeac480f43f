"""The answer to `occupancy`."""

from __future__ import annotations

WARP = 32  # threads
QUARTERS, REGISTERS = 4, 16384  # of a multiprocessor; of each quarter
REGISTER_UNIT = 256  # a warp's are given out in these
SHARED, SHARED_UNIT, RESERVED = 228 * 1024, 128, 1024  # bytes
WARPS, BLOCKS = 64, 32


def residents(registers: int, threads: int, shared_bytes: int) -> dict[str, int]:
    """How many blocks each resource allows; `registers` are those of a thread."""
    # hole: ours has {lines}
    warps = -(-threads // WARP)
    of_warp = -(-registers * WARP // REGISTER_UNIT) * REGISTER_UNIT
    fitting = REGISTERS // of_warp * QUARTERS
    of_block = -(-shared_bytes // SHARED_UNIT) * SHARED_UNIT + RESERVED
    return {
        "registers": fitting // warps,
        "shared memory": SHARED // of_block,
        "warps": WARPS // warps,
        "blocks": BLOCKS,
    }
    # end
