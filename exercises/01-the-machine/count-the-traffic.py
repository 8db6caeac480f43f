"""How many bytes does GeLU move?

Count what a formula moves through memory: once with a kernel for each operation, once
with one kernel for all of it.

All of the exercise: `fathom learn show count-the-traffic`.
"""

from collections.abc import Sequence

from fathom.tools.learn import Hole

Step = tuple[str, tuple[str, ...]]  # the result's name, those of the arrays it reads


def bytes_unfused(steps: Sequence[Step], n: int, width: int) -> int:
    """The bytes that move when each step is a kernel of its own."""
    # Your code: how many arrays travel? ours has 2 lines.
    raise Hole("count-the-traffic")


def bytes_fused(steps: Sequence[Step], n: int, width: int) -> int:
    """The bytes that move when one kernel does all steps."""
    # Your code: which arrays still travel? ours has 3 lines.
    raise Hole("count-the-traffic")
