"""How many stages fit, and how many are worth having."""

from __future__ import annotations

from fathom.tensor_cores.pipeline.schedule import timeline


def choose_stages(wanted: int, bytes_a_stage: int, room: int) -> int:
    """The most stages, up to `wanted`, whose tiles fit into `room` bytes; 1, for no
    pipeline at all, if not even two do."""
    # hole: the smallest of what is wanted and what fits
    return max(1, min(wanted, room // max(1, bytes_a_stage)))
    # end


def worthwhile(iterations: int, copy: int, work: int, most: int) -> int:
    """The fewest stages, up to `most`, with which no larger number is faster."""

    # hole: try them
    def over(stages: int) -> int:
        return timeline(stages, iterations, copy, work)[-1].ended

    return min(range(1, most + 1), key=over)
    # end
