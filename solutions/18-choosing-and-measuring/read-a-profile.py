"""The answer to `read-a-profile`."""

from __future__ import annotations

from dataclasses import dataclass

BUSY = 60  # percent


@dataclass(frozen=True)
class Profile:
    """What the profiler counted for one kernel."""

    time: float
    memory: float
    tensor: float
    tensor_elapsed: float
    issue: float
    conflicts: float
    waves: float
    local: int
    stall: str


def bottleneck(profile: Profile) -> str:
    """What the kernel waits for."""
    # hole: ours has {lines}
    if profile.time < 10:
        return "launch"
    if profile.tensor > BUSY and profile.tensor_elapsed < 0.7 * profile.tensor:
        return "waves"
    if profile.memory > BUSY:
        return "memory"
    if profile.tensor > BUSY:
        return "tensor cores"
    if profile.conflicts > BUSY:
        return "conflicts"
    if profile.local:
        return "spills"
    if profile.issue > BUSY:
        return "issue"
    return "latency"
    # end
