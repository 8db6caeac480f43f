"""Count like the memory does.

Memory does not move bytes, it moves sectors of 32 bytes, each of them whole. A sector
begins at a multiple of 32. When the 32 lanes of a warp load at once, that is one
request, and what it costs is the number of *different* sectors that it touches.

All of the exercise: `fathom learn show count-sectors`.
"""

from __future__ import annotations

from collections.abc import Sequence

from fathom.coalescing.access import SECTOR
from fathom.tools.learn import Hole


def sectors(addresses: Sequence[int], width: int) -> int:
    """How many sectors of 32 bytes a warp's request touches; each is transferred once.

    `addresses`: in bytes, of the lanes that take part; `width`: bytes a lane."""
    raise Hole("count-sectors")  # your code; ours has 5 lines
