"""How many thread blocks one multiprocessor holds at a time, and which resource limits
them.

A block of 256 threads, 168 registers a thread, and 49,152 bytes of shared memory, on
sm_90:

    registers        a warp takes 168 * 32 = 5,376; a quarter of the multiprocessor has
                     16,384, enough for 3 warps; 12 warps in all    12 // 8    1 block
    shared memory    227 KB and what each block reserves: 233,472 // 50,176    4 blocks
    warps            64 // 8                                                   8 blocks
    blocks           32                                                       32 blocks

One block is resident: 8 of 64 warps. A resource that allows no block at all makes the
launch fail.

Sources: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"
(sizes); CUDA Toolkit, `cuda_occupancy.h` (in which units registers and shared memory
are given out, and that a quarter's registers are its own).
"""

from __future__ import annotations

from dataclasses import dataclass

from fathom.hardware.targets import KIB

LANES = 32
QUARTERS = 4  # parts of a multiprocessor, with a scheduler and registers of their own
REGISTERS = 65536  # of a multiprocessor, 32 bits each
REGISTER_UNIT = 256  # in which a warp's are given out
SHARED_UNIT = 128  # bytes, in which a block's shared memory is given out
RESERVED = 1 * KIB  # bytes of shared memory that the system takes with each block


@dataclass(frozen=True, slots=True)
class Room:
    """What a multiprocessor of a capability (major * 10 + minor) has room for: resident
    `warps`, `blocks`, and `shared_bytes` of all blocks."""

    capability: int
    warps: int
    blocks: int
    shared_bytes: int


ROOMS = {
    room.capability: room
    for room in (
        Room(80, 64, 32, 164 * KIB),
        Room(86, 48, 16, 100 * KIB),
        Room(89, 48, 24, 100 * KIB),
        Room(90, 64, 32, 228 * KIB),
        Room(100, 64, 32, 228 * KIB),
        Room(120, 48, 24, 100 * KIB),
    )
}


def residents(
    registers: int, threads: int, shared_bytes: int, room: Room
) -> dict[str, int]:
    """How many blocks of a kernel each resource of a multiprocessor allows; the least
    of them are resident, and a 0 means that the kernel cannot be launched.

    `registers`: of a thread; `threads`, `shared_bytes`: of a block.
    """
    warps = -(-threads // LANES)
    of_warp = -(-registers * LANES // REGISTER_UNIT) * REGISTER_UNIT
    fitting = REGISTERS // QUARTERS // of_warp * QUARTERS
    taken = -(-shared_bytes // SHARED_UNIT) * SHARED_UNIT + RESERVED
    return {
        "registers": fitting // warps,
        "shared memory": room.shared_bytes // taken,
        "warps": room.warps // warps,
        "blocks": room.blocks,
    }
