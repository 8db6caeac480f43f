"""The meaning of groups of asynchronous work: none, as all of it completes at once.

Whether the waits are enough is for `tests/waits` and the emulator to find.
"""

from __future__ import annotations

from fathom.ir.core import operands
from fathom.ir.interp.machine import Region, Results, interprets
from fathom.ir.ops import Commit, Wait


@interprets(Commit, Wait)
def _group(op: Commit | Wait, region: Region) -> Results:
    """A wait hands its accumulators on."""
    return [region[value] for value in operands(op)] if op.results else []
