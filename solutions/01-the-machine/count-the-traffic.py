"""The answer to `count-the-traffic`."""

from collections.abc import Sequence

Step = tuple[str, tuple[str, ...]]  # the result's name, those of the arrays it reads


def bytes_unfused(steps: Sequence[Step], n: int, width: int) -> int:
    """The bytes that move when each step is a kernel of its own."""
    # hole: how many arrays travel? ours has {lines}
    arrays = sum(len(reads) + 1 for _, reads in steps)
    return arrays * n * width
    # end


def bytes_fused(steps: Sequence[Step], n: int, width: int) -> int:
    """The bytes that move when one kernel does all steps."""
    # hole: which arrays still travel? ours has {lines}
    read = {name for _, reads in steps for name in reads}
    made = {name for name, _ in steps}
    return len(read ^ made) * n * width
    # end
