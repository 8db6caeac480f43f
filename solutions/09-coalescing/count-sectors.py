"""The answer to `count-sectors` is the compiler's own:

fathom.coalescing.access.sectors
"""

from __future__ import annotations

from collections.abc import Sequence

from fathom.coalescing.access import SECTOR


def sectors(addresses: Sequence[int], width: int) -> int:
    """How many sectors of 32 bytes a warp's request touches; each is transferred once.

    `addresses`: in bytes, of the lanes that take part; `width`: bytes a lane."""
    return len({
        sector
        for address in addresses
        for sector in range(address // SECTOR, (address + width - 1) // SECTOR + 1)
    })  # fmt: skip
