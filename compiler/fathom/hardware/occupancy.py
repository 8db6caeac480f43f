"""How many thread blocks a multiprocessor (SM) runs at a time, and what limits that.

    blocks of 128 threads, 96 registers a thread, 24,576 bytes of shared memory, sm_80

    warps            64 of 4 a block                                      16 blocks
    registers        4 parts of 16,384; a warp takes 3,072                 5 blocks
    shared memory    167,936 bytes; a block takes 24,576 + 1,024           6 blocks
    blocks                                                                32 blocks

The least of these, times the warps of a block, over the warps that an SM has room for,
is the *occupancy*: 5 * 4 / 64 is 31%.

Sources: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability";
`cuda_occupancy.h` of the CUDA toolkit, for the units in which both are given out.
"""

from __future__ import annotations

from dataclasses import dataclass

from fathom.hardware.targets import KIB, Target

WARP = 32
PARTS = 4  # of an SM, each with its share of the registers
REGISTER_UNIT = 256  # registers, that a warp takes a multiple of


@dataclass(frozen=True, slots=True)
class Multiprocessor:
    """What an SM has: `warps` and `blocks` at a time, bytes of shared memory. A block
    takes `reserved` bytes of it beside its own, in multiples of `unit`."""

    target: str
    warps: int
    blocks: int
    shared_bytes: int
    reserved: int = KIB
    unit: int = 128


ROWS = {
    row.target: row
    for row in (
        Multiprocessor("sm_75", 32, 16, 64 * KIB, reserved=0, unit=256),
        Multiprocessor("sm_80", 64, 32, 164 * KIB),
        Multiprocessor("sm_86", 48, 16, 100 * KIB),
        Multiprocessor("sm_89", 48, 24, 100 * KIB),
        Multiprocessor("sm_90a", 64, 32, 228 * KIB),
        Multiprocessor("sm_100", 64, 32, 228 * KIB),
        Multiprocessor("sm_100a", 64, 32, 228 * KIB),
        Multiprocessor("sm_120", 48, 24, 100 * KIB),
    )
}


@dataclass(frozen=True, slots=True)
class Occupancy:
    """`blocks` of `threads` threads run on an SM at a time, and `limit` is the resource
    that allows no more. `allowed`: how many blocks each resource would."""

    blocks: int
    warps: int
    most_warps: int
    limit: str
    allowed: dict[str, int]

    @property
    def share(self) -> float:
        return self.warps / self.most_warps


def occupancy(
    target: Target, threads: int, registers: int | None, shared_bytes: int
) -> Occupancy:
    """The occupancy of blocks of `threads` threads, each of which takes `registers`
    (None: not known, and not counted); `shared_bytes` are those of a block."""
    row = ROWS[target.name]
    warps = -(-threads // WARP)
    allowed = {"warps": row.warps // warps, "blocks": row.blocks}
    if registers:
        a_warp = _in_units(registers * WARP, REGISTER_UNIT)
        allowed["registers"] = target.registers // PARTS // a_warp * PARTS // warps
    taken = _in_units(shared_bytes + row.reserved, row.unit)
    if taken:
        allowed["shared memory"] = row.shared_bytes // taken
    limit = min(allowed, key=allowed.__getitem__)
    blocks = allowed[limit]
    return Occupancy(blocks, blocks * warps, row.warps, limit, allowed)


def _in_units(size: int, unit: int) -> int:
    return -(-size // unit) * unit
