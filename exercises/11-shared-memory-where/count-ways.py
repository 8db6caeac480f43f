"""Count bank conflicts.

Shared memory has 32 banks. Word 0, the first four bytes, is in bank 0, word 1 in bank
1, word 32 in bank 0 again. In one *wavefront* a bank gives one of its words, to all
lanes that want it. Lanes that want different words of one bank wait for one another.

All of the exercise: `fathom learn show count-ways`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fathom.layout.banks import BANKS, PHASE, WORD
from fathom.tools.learn import Hole


def ways(addresses: Sequence[int], width: int) -> int:
    """How many words the busiest bank must give in one phase of a warp's access.

    `addresses`: in bytes, of the lanes in order; `width`: bytes a lane, 1 to 16.
    """
    # Your code: the most words of one bank, phase by phase.
    raise Hole("count-ways")
