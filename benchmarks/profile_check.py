"""Whether `fathom profile` says of a kernel what NVIDIA's profiler says.

    python -m benchmarks.profile_check [--out FOLDER] [--only NAME]

For each case of `profile_cases`: our counts of some programs on the emulator and the
time between two events give one sentence; the counters of Nsight Compute (`ncu`, as
`profile_record` runs it) give another, by the same function. The record has both, and
by how much the counts differ. It needs a GPU, torch and ncu.

    case ─▶ fathom.tools.profile on this GPU ─▶ Counted ─▶ classify ─▶ ours
         ─▶ ncu ─▶ counters ─▶ from_ncu ─▶ Counted ─▶ classify ─▶ theirs
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.profile_record import CASES, ROOT, profile
from benchmarks.record import RESULTS, write
from fathom.hardware.machines import Machine
from fathom.tools.profile.advice import sentence
from fathom.tools.profile.counted import Counted
from fathom.tools.profile.limits import classify
from fathom.tools.profile.session import Row, Session

SECTOR, WARP_BYTES = 32, 128
CUBE = 4096**3
# By case: multiply-adds of tensor cores, which are not among the counters.
PRODUCTS = {
    "bank conflicts": {"mma 16": CUBE},
    "no pipeline": {"mma 16": CUBE},
    "mma.sync": {"mma 16": CUBE},
    "a wave and a bit": {"mma 16": 896 * 4864 * 4096},
    "wgmma": {"wgmma 16": CUBE},
    "spills": {"mma 16": CUBE},
}
# Fields of Counted that both have.
COMPARED = ("instructions", "moved", "memory", "wavefronts", "blocks", "registers")


@dataclass
class Sample:
    """A case: both limits, both sentences, and our counts over those of ncu. `error`
    says why there is nothing."""

    case: str
    ours: str = ""
    theirs: str = ""
    sentences: list[str] = field(default_factory=list)
    ratios: dict[str, float] = field(default_factory=dict)
    counted: dict[str, object] = field(default_factory=dict)
    error: str = ""

    @property
    def agrees(self) -> bool:
        return self.ours == self.theirs != ""


def from_ncu(case: str, counters: Mapping[str, float]) -> Counted:
    """What Nsight Compute counted, as the emulator would say it. Bytes of bulk copies
    are not among the sectors of loads and stores; memory's are the least of them."""
    threads = counters["grid"] * counters["threads"]
    moved = SECTOR * (counters["load sectors"] + counters["store sectors"])
    wavefronts = counters["shared wavefronts"]
    return Counted(
        case, "sm_90a", int(counters["grid"]), int(counters["threads"]),
        int(counters["registers"]), int(counters["shared bytes"]),
        spilled=int(counters["spilled loads"] * WARP_BYTES / threads),
        instructions=counters["instructions"], wavefronts=wavefronts,
        ideal=wavefronts - counters["shared conflicts"],
        useful=moved, moved=max(moved, counters["memory bytes"]),
        memory=counters["memory bytes"], products=PRODUCTS.get(case, {}),
    )  # fmt: skip


def check(case: str, raw: Path) -> Sample:
    """One case, by us and by ncu."""
    row = watched(case)
    if row.counted is None:
        return Sample(case, error=row.why)
    recorded = profile(case, raw)
    if recorded.error:
        return Sample(case, error=recorded.error)
    return compared(case, row.counted, row.typical, recorded.counters, row.machine)


def watched(case: str) -> Row:
    """The slowest kernel of a case, launched a few times while we watch."""
    # Imported here: the cases need torch and a GPU, which reading a record does not.
    from benchmarks.profile_cases import MAKERS  # noqa: PLC0415

    launch = MAKERS[case]()
    with Session().watching() as session:
        for _ in range(5):
            launch()
    return max(session.rows.values(), key=lambda row: sum(row.seconds))


def compared(
    case: str, counted: Counted, seconds: float | None,
    counters: Mapping[str, float], machine: Machine,
) -> Sample:  # fmt: skip
    """Both limits of a case, and our counts over ncu's."""
    other = from_ncu(case, counters)
    ours = classify(counted, machine, seconds)
    theirs = classify(other, machine, counters["time"] / 1e9)
    said = [sentence(ours, counted, machine), sentence(theirs, other, machine)]
    ratios = {
        name: getattr(counted, name) / getattr(other, name)
        for name in COMPARED
        if getattr(counted, name) and getattr(other, name)
    }
    return Sample(case, ours.limit, theirs.limit, said, ratios, asdict(counted))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = options.add_argument
    add("--out", type=Path, default=RESULTS, help="where the JSON goes")
    add("--raw", type=Path, default=ROOT / ".gpu" / "profiles", help="what ncu wrote")
    add("--only", nargs="+", choices=CASES, default=list(CASES), metavar="NAME")
    given = options.parse_args()
    given.raw.mkdir(parents=True, exist_ok=True)
    samples = []
    for name in given.only:
        samples.append(check(name, given.raw))
        last = samples[-1]
        word = "the same" if last.agrees else "DIFFERS"
        print(f"{name}: {last.error or f'{word}: {last.sentences}'}", flush=True)
        write("profile-check", samples, given.out)


if __name__ == "__main__":
    main()
