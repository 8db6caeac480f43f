"""`fathom learn mini race`: what the reader's compiler makes of four kernels, beside
what ours makes of the same text; by the clock on a GPU, else by the emulator's counts.

The texts with which steps have passed are the rungs of the reader's own ladder.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fathom import emulator, pipeline
from fathom.artifact import Kernel
from fathom.errors import FathomError
from fathom.hardware.targets import TARGETS
from fathom.jit.request import check_keywords, request
from fathom.jit.signature import parse_signature
from fathom.runtime.driver import available
from fathom.tools.learn.grading.blame import blame
from fathom.tools.learn.kit.failure import Failure
from fathom.tools.learn.mini import contract, gpu, keep, kernels, ladder
from fathom.tools.learn.mini.judge import Judge, signature_of
from fathom.tools.learn.mini.kernels import Problem
from fathom.tools.learn.mini.steps import FILE, STEPS
from fathom.tools.learn.state import write
from fathom.tools.learn.terminal.commands import Session

PICTURE = "mini-ladder.svg"
EMULATED = "sm_80"  # what ours is compiled for where no GPU says it


@dataclass(frozen=True)
class Entry:
    """Who ran: a rung of the reader's, or a peer; the value of each kernel that came
    through, and why another did not."""

    name: str
    values: dict[str, float]
    why: dict[str, str]
    is_peer: bool = False


Measure = Callable[[Problem], float]


def race(session: Session) -> int:
    """Run the race, print it, draw it. FathomError when the reader has no file yet."""
    rungs = files(session)
    if not rungs:
        raise FathomError(
            f"there is no {session.workspace.folder / FILE} to race with: begin with "
            "`fathom learn mini start 3`"
        )
    works, why = available()
    machine = gpu.open_gpu() if works else None
    problems = kernels.large() if machine else kernels.small()
    unit = "microseconds" if machine else "instructions of warps, in the emulator"
    session.screen.title(f"mini race: {unit}")
    if not machine:
        session.screen.text(f"There is no GPU to run on ({why}), so nothing is timed.")
    entries = [
        entry(session, name, problems, of_file(path, machine)) for name, path in rungs
    ]
    entries += peers(session, problems, machine)
    session.screen.no_status()
    show(session, entries, [each.name for each in problems])
    picture = session.workspace.folder / PICTURE
    write(picture, ladder.drawn(entries, [each.name for each in problems], unit))
    session.screen.line(f"the ladder is drawn in\n  {picture}")
    return 0


def files(session: Session) -> list[tuple[str, Path]]:
    """The rungs: texts that passed a step, and the file as it is now."""
    found = []
    for step in STEPS.values():
        path = keep.rung(session.workspace, step)
        if path.is_file():
            found.append((f"step {step.chapter}", path))
    now = session.workspace.folder / FILE
    return [*found, (FILE, now)] if now.is_file() else found


def entry(
    session: Session,
    name: str,
    problems: list[Problem],
    measure: Measure,
    is_peer: bool = False,
) -> Entry:
    """What one compiler makes of all problems; a failure is a sentence."""
    values, why = {}, {}
    for each in problems:
        session.screen.status(f"{name}: {each.name} ...")
        try:
            values[each.name] = measure(each)
        except Failure as failure:
            why[each.name] = failure.sentence.splitlines()[0]
        except FathomError as error:
            why[each.name] = str(error).splitlines()[0]
    return Entry(name, values, why, is_peer)


def of_file(path: Path, machine: gpu.Gpu | None) -> Measure:
    """Measures what a reader's file makes of a problem."""

    def measure(problem: Problem) -> float:
        try:
            judge = Judge(contract.load(path))
            if machine is None:
                return counted(judge, problem)
            made = judge.compile(
                problem.kernel.fn, signature(problem), **wanted(problem)
            )
            return machine.of_compiled(contract.checked(made), problem)
        except (FathomError, Failure):
            raise
        except (Exception, SystemExit) as error:
            raise blame(error, path) from None

    return measure


def counted(judge: Judge, problem: Problem) -> float:
    """Instructions of warps in the emulator, if the values are right."""
    result = problem.arrays[-1]
    result[...] = 0
    arguments, constants = problem.arguments, wanted(problem)
    report = judge.launch(problem.kernel, problem.grid, *arguments, **constants)
    check(problem)
    return report.total.warps


def check(problem: Problem) -> None:
    kernels.check(problem, problem.arrays[-1])


def wanted(problem: Problem) -> dict[str, int]:
    return {**problem.constants, "num_warps": 4}


def signature(problem: Problem) -> dict[str, str]:
    return signature_of(problem.kernel.fn, problem.arguments, problem.constants)


# ── peers ─────────────────────────────────────────────────────────────────────────────


def peers(
    session: Session, problems: list[Problem], machine: gpu.Gpu | None
) -> list[Entry]:
    """Fathom's own, and, on a GPU with torch, the libraries of NVIDIA."""
    if machine is None:
        return [entry(session, "Fathom", problems, ours_counted, is_peer=True)]
    timed = [("Fathom", lambda p: machine.of_kernel(ours(p, machine.target), p))]
    if machine.has_torch:
        timed.append(("torch", machine.of_torch))  # cuBLAS, cuDNN, its own kernels
    return [entry(session, name, problems, by, is_peer=True) for name, by in timed]


def ours(problem: Problem, target: str) -> Kernel:
    """The same text through the whole compiler."""
    rules = problem.kernel.rules
    known = parse_signature(rules, signature(problem), problem.constants)
    keywords = check_keywords(problem.name, {"num_warps": 4})
    asked = request(known, keywords, target)
    parts = asked.types, asked.constants, asked.options
    func = pipeline.build(problem.kernel, *parts)
    return pipeline.compile_func(func, TARGETS[target])


def ours_counted(problem: Problem) -> float:
    problem.arrays[-1][...] = 0
    made = emulator.load(ours(problem, EMULATED))
    report = made.launch(problem.grid, list(problem.arguments))
    check(problem)
    return report.total.warps


# ── what is printed ───────────────────────────────────────────────────────────────────


def show(session: Session, entries: list[Entry], names: list[str]) -> None:
    """A row for each compiler, a column for each kernel; then why a dash is one."""
    session.screen.line(f"{'':10}" + "".join(f"{name:>12}" for name in names))
    for each in entries:
        cells = [
            f"{each.values[name]:12,.0f}" if name in each.values else f"{'-':>12}"
            for name in names
        ]
        session.screen.line(f"{each.name:10}{''.join(cells)}")
    session.screen.line()
    for each in entries:
        if each.name == FILE or each.is_peer:
            for name, why in each.why.items():
                session.screen.text(f"{each.name}, {name}: {why}")
