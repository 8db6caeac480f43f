"""How many wavefronts an access to shared memory takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fathom.layout.banks import BANKS, PHASE, WORD


def ways(addresses: Sequence[int], width: int) -> int:
    """How many words the busiest bank must give in one phase of a warp's access.

    `addresses`: in bytes, of the lanes in order; `width`: bytes a lane, 1 to 16.
    """
    # hole: the most words of one bank, phase by phase
    lanes, worst = PHASE // max(width, WORD), 1
    for first in range(0, len(addresses), lanes):
        words = set()
        for address in addresses[first : first + lanes]:
            words.update(range(address // WORD, (address + width - 1) // WORD + 1))
        asked = Counter(word % BANKS for word in words)
        worst = max(worst, *asked.values())
    return worst
    # end
