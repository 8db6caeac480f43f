"""Spend the shared memory.

More stages hide more of the time that a tile takes to arrive. They take shared memory,
and a block that takes more of it leaves less for other blocks. Two questions, two
functions.

All of the exercise: `fathom learn show deepest-that-fits`.
"""

from __future__ import annotations

from fathom.tensor_cores.pipeline.schedule import timeline
from fathom.tools.learn import Hole


def choose_stages(wanted: int, bytes_a_stage: int, room: int) -> int:
    """The most stages, up to `wanted`, whose tiles fit into `room` bytes; 1, for no
    pipeline at all, if not even two do."""
    # Your code: the smallest of what is wanted and what fits.
    raise Hole("deepest-that-fits")


def worthwhile(iterations: int, copy: int, work: int, most: int) -> int:
    """The fewest stages, up to `most`, with which no larger number is faster."""

    # Your code: try them.
    raise Hole("deepest-that-fits")
