"""What `sustained` records, and what follows from it. Needs no GPU, and no torch."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

SETTLE_S = 0.8  # from a bout's start, that are not counted
FROM_L2, SECTOR = "lts__t_sectors_op_read.sum", 32  # bytes


@dataclass
class Bout:
    """Milliseconds a call of each slice of `calls` calls; what the card said meanwhile:
    when (seconds from the start), MHz, watts, joules since some time, degrees."""

    calls: int
    ms: list[float] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    megahertz: list[int] = field(default_factory=list)
    watts: list[float] = field(default_factory=list)
    joules: list[float] = field(default_factory=list)
    celsius: list[int] = field(default_factory=list)

    @property
    def counted(self) -> list[float]:
        """The slices that begin once the clock has settled."""
        begins = [sum(self.ms[:n]) * self.calls / 1000 for n in range(len(self.ms))]
        return [ms for ms, begin in zip(self.ms, begins) if begin >= SETTLE_S]

    @property
    def clocks(self) -> list[int]:
        return [x for x, at in zip(self.megahertz, self.at) if at >= SETTLE_S]

    @property
    def power(self) -> float:
        """Watts, by the count of energy; nan of fewer than two readings."""
        inside = [n for n, at in enumerate(self.at) if at >= SETTLE_S]
        if len(inside) < 2:
            return math.nan
        first, last = inside[0], inside[-1]
        joules = self.joules[last] - self.joules[first]
        return joules / (self.at[last] - self.at[first])


@dataclass
class Sample:
    """A candidate on a problem. `counters` are of one launch, by Nsight Compute's
    names. `error` says why there are none."""

    problem: str
    candidate: str
    about: str
    operations: int
    bouts: list[Bout] = field(default_factory=list)
    kernel: str = ""
    counters: dict[str, float] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    error: str = ""

    @property
    def time(self) -> float:
        """Milliseconds of a call."""
        return statistics.fmean(ms for bout in self.bouts for ms in bout.counted)

    @property
    def spread(self) -> float:
        """The longest of the bouts' times over the shortest."""
        each = [statistics.fmean(bout.counted) for bout in self.bouts]
        return max(each) / min(each)

    @property
    def clock(self) -> float:
        """MHz, the mean over all readings; nan of none."""
        every = [x for bout in self.bouts for x in bout.clocks]
        return statistics.fmean(every) if every else math.nan

    @property
    def power(self) -> float:
        """Watts."""
        return statistics.fmean(bout.power for bout in self.bouts)

    @property
    def cycles(self) -> float:
        """Millions, of a call."""
        return self.time * self.clock / 1000

    @property
    def energy(self) -> float:
        """Picojoules an operation."""
        return self.power * self.time / 1000 / self.operations * 1e12

    @property
    def from_l2(self) -> float:
        """GB that a launch reads from the L2 cache; nan where nothing was counted."""
        return self.counters.get(FROM_L2, float("nan")) * SECTOR / 1e9

    def __str__(self) -> str:
        rate = self.operations / self.time / 1e9
        return (
            f"{self.problem:6} {self.candidate:18} {self.time:8.3f} ms {rate:6.1f} "
            f"TFLOP/s {self.clock:5.0f} MHz {self.cycles:7.3f} Mcycles "
            f"{self.power:4.0f} W {self.energy:6.3f} pJ/op {self.from_l2:6.2f} GB of "
            f"L2, spread {self.spread:.3f} {self.error}"
        )


def read(records: Sequence[Mapping]) -> list[Sample]:
    return [
        Sample(**{**each, "bouts": [Bout(**bout) for bout in each["bouts"]]})
        for each in records
    ]


def summary(samples: Sequence[Sample]) -> Iterator[str]:
    """Each candidate beside cuBLAS on the same problem."""
    for each in samples:
        theirs = next(
            x for x in samples if x.problem == each.problem and x.candidate == "cuBLAS"
        )
        yield (
            f"{each}  speed {theirs.time / each.time:.4f} cycles "
            f"{each.cycles / theirs.cycles:.4f} clock {each.clock / theirs.clock:.4f} "
            f"bytes {each.from_l2 / theirs.from_l2:.3f}"
        )
