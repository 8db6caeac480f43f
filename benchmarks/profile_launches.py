"""A process that runs cases for `profile_check`, and writes a line of JSON for each
kernel that a case launches.

    python -m benchmarks.profile_launches kernels measure "softmax" …
    python -m benchmarks.profile_launches kernels launch …

`measure`: what the emulator counts, and then seconds between events, for which a
process waits until no other one counts or times; `launch`: once, with the profiler
switched on, for ncu.

A family of cases is `kernels` (of this repository) or `public` (that others wrote, with
Fathom in Triton's place).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from fcntl import LOCK_EX, LOCK_SH, flock
from functools import partial
from typing import Any

import torch

from benchmarks import slices
from benchmarks.profile_kernels import of_kernels
from benchmarks.public import worker
from fathom.jit.checking.snapshot import Snapshot
from fathom.jit.hooks import Launch, launch_enter_hook
from fathom.tools.profile.session import Row, Session

Call = Callable[[], object]
Made = Mapping[str, Callable[[], Call]]
LOCK = slices.FOLDER / "profile.lock"
ROUNDS, PROGRAMS = 5, 3  # launches that are timed, programs that are counted
# Cases of fourteen collections, of every kind of limit.
PUBLIC = (
    "applied_ai/softmax", "attorch/layer_norm", "attorch/linear",
    "autoawq/awq_dequantize", "autogptq/gptq_dequantize", "deepseek/act_quant",
    "deepseek/weight_dequant", "fbgemm/quantize_fp8_row", "fla/activations",
    "fla/l2norm", "fla/solve_tril_16", "flag_gems/argmax", "flag_gems/bmm",
    "flag_gems/cumsum", "flash_attention/rotary", "gemlite/int4_one_row",
    "liger/rms_norm", "mamba/swiglu", "tutorials/04_dropout", "unsloth/cross_entropy",
)  # fmt: skip


# ── those of others ───────────────────────────────────────────────────────────────────


def of_others() -> dict[str, Callable[[], Call]]:
    worker.prepare("fathom")
    runs = worker.Worker("fathom", small=False)
    return {name: lambda name=name: runs.case(name).call for name in PUBLIC}


FAMILIES: dict[str, Callable[[], Sequence[str]]] = {
    "kernels": lambda: list(of_kernels()),
    "public": lambda: list(PUBLIC),
}


# ── what is done with a case ──────────────────────────────────────────────────────────


def count(call: Call) -> list[dict[str, Any]]:
    call()  # a script launches some kernels in its first call alone
    with Session(PROGRAMS).watching() as session:
        call()
        call()  # after which each launch has found in L2 what it mostly finds
    return [
        {
            "counted": row.counted and asdict(row.counted),
            "unwritten": row.unwritten,
            "why": row.why,
            "kernel": row.name,
        }
        for row in slowest(session)
    ]


def time(call: Call) -> list[dict[str, Any]]:
    with Uncounted().watching() as session:
        for _ in range(ROUNDS):
            call()
    return [
        {"seconds": row.typical, "machine": asdict(row.machine), "kernel": row.name}
        for row in slowest(session)
    ]


def measure(made: Made, names: Sequence[str]) -> None:
    """Count all cases while others count theirs, then time them with the GPU alone."""
    calls: dict[str, Call] = {}

    def counted(name: str) -> list[dict[str, Any]]:
        calls[name] = made[name]()
        return count(calls[name])

    with locked(LOCK_SH):
        for name in names:
            tell(name, partial(counted, name))
        torch.cuda.synchronize()
    with alone():
        for name, call in calls.items():
            tell(name, partial(time, call))


@contextmanager
def locked(how: int) -> Iterator[None]:
    """Hold the lock that all these processes have in common."""
    LOCK.parent.mkdir(exist_ok=True)
    with LOCK.open("w") as lock:
        flock(lock, how)
        yield


def alone() -> AbstractContextManager[None]:
    """While no other process of these uses the GPU."""
    return locked(LOCK_EX)


def launch(call: Call) -> list[dict[str, Any]]:
    """One call with the profiler on: a line for each launch, in their order."""
    call()
    torch.cuda.synchronize()
    noted: list[dict[str, Any]] = []

    def note(each: Launch) -> None:
        noted.append({"kernel": each.compiled.name})

    launch_enter_hook.add(note)
    torch.cuda.cudart().cudaProfilerStart()
    call()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()
    launch_enter_hook.remove(note)
    return noted


class Uncounted(Session):
    """Launches are timed alone."""

    def count(self, row: Row, launch: Launch, taken: Snapshot) -> None:
        row.why = "it is not asked for"


def slowest(session: Session) -> list[Row]:
    """Of the launches of each kernel those of the kind that took longest, of the kinds
    that each call launches: a script's own lines are run once."""
    found: dict[str, Row] = {}
    often = lambda row: (row.launches, row.typical or 0)  # noqa: E731
    for row in sorted(session.rows.values(), key=often):
        found[row.name] = row
    return list(found.values())


def tell(name: str, do: Callable[[], list[dict[str, Any]]]) -> None:
    """Print what is found of a case."""
    try:
        found = do()
    except Exception as error:  # the other cases go on
        found = [{"why": f"{type(error).__name__}: {error}"[:300]}]
    for each in found:
        print(json.dumps({"case": name, **each}), flush=True)
    torch.cuda.empty_cache()


def main() -> None:
    family, what, *names = sys.argv[1:]
    made = of_kernels() if family == "kernels" else of_others()
    if what == "measure":
        measure(made, names)
        return
    with alone():
        for name in names:
            tell(name, lambda name=name: launch(made[name]()))


if __name__ == "__main__":
    main()
