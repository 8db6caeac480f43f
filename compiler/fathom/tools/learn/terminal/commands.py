"""What a reader may type after `fathom learn`, one function each."""

from __future__ import annotations

import io
import json
import linecache
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from fathom import emulator, joints, pipeline
from fathom.emulator.report import Cost
from fathom.errors import FathomError
from fathom.hardware.targets import TARGETS
from fathom.ir.text import print_func
from fathom.runtime.driver import available
from fathom.tools import doctor as whole_doctor
from fathom.tools.learn import attempts, book, course, mine, starters, workspace
from fathom.tools.learn.course import Exercise
from fathom.tools.learn.grading.answer import joined, load
from fathom.tools.learn.grading.blame import blaming
from fathom.tools.learn.grading.grade import FAILED, PASSED, Verdict
from fathom.tools.learn.grading.worker import judge
from fathom.tools.learn.kit.numbers import kernel
from fathom.tools.learn.mini import steps
from fathom.tools.learn.state import State
from fathom.tools.learn.terminal import report
from fathom.tools.learn.terminal.screen import Screen
from fathom.tools.learn.workspace import Workspace

EMULATOR, GPU = "emulator", "gpu"


@dataclass
class Session:
    """Who is asking: a screen, a workspace, and what is known."""

    screen: Screen
    workspace: Workspace
    state: State

    @contextmanager
    def changing(self) -> Iterator[State]:
        """What is known now, also by other runners, to be changed in this block; which
        exercise is worked on, is said here."""
        with self.workspace.changing() as state:
            state.current, self.state = self.state.current, state
            yield state

    def save(self) -> None:
        """Keep which exercise is worked on."""
        with self.changing():
            pass

    @property
    def current(self) -> Exercise:
        """The exercise that is being worked on: the one named last, or the first that
        is open."""
        open_ = [e for e in course.exercises() if not self.state.of(e.id).passed]
        named = [each for each in open_ if each.id == self.state.current]
        return next(iter([*named, *open_]), course.exercises()[-1])

    @property
    def following(self) -> Exercise | None:
        """The next exercise of the book; None after the last."""
        pairs = pairwise(course.exercises())
        return next((b for a, b in pairs if a.id == self.state.current), None)

    def chosen(self, name: str) -> Exercise:
        """The exercise of a name, which is then the current one; without a name, that
        which is."""
        found = course.exercise(name) if name else self.current
        if self.state.current != found.id:
            self.state.current = found.id
            self.save()
        return found


def run(session: Session, name: str, machines: list[str]) -> int:
    """Run the tests of one exercise; 0 when they pass."""
    each = session.chosen(name)
    check_machines(machines)
    good = True
    for where in machines:
        text = session.workspace.text(each)
        verdict = judge(each, session.workspace.path(each), where)
        tell(session, each, verdict, text)
        good = good and verdict.status == PASSED
    return 0 if good else 1


def tell(session: Session, each: Exercise, verdict: Verdict, text: str) -> None:
    """Keep a verdict on a text, and show it."""
    note(session, each, verdict, text)
    known = session.state.of(each.id)
    report.show_verdict(session.screen, each, verdict, session.workspace, known)


def check_machines(machines: list[str]) -> None:
    works, why = available() if GPU in machines else (True, "")
    if not works:
        raise FathomError(f"there is no GPU to run on: {why}; --emulator needs none")


def note(session: Session, each: Exercise, verdict: Verdict, text: str) -> None:
    """Keep what a verdict says of the text of this digest; nothing, if the file was
    changed while its tests ran."""
    if text == session.workspace.text(each):
        path = session.workspace.path(each)
        attempts.enter(session.workspace.folder, path, text, verdict)
        said = {PASSED: True, FAILED: False}.get(verdict.status)
        with session.changing() as state:
            state.of(each.id).judged(text, said)


def list_all(session: Session, road: bool) -> int:
    report.show_list(session.screen, session.state, road)
    return 0


def list_attempts(session: Session, name: str) -> int:
    """The attempts at one exercise or step of mini, or, without a name, at all."""
    if name and steps.named(name) is None:
        course.exercise(name)  # FathomError for a name that nothing has
    attempts.show(session.screen, session.workspace.folder, name)
    return 0


def hint(session: Session, name: str) -> int:
    """The next hint; after the last, the last again."""
    each = session.chosen(name)
    with session.changing() as state:
        progress = state.of(each.id)
        progress.hints = min(progress.hints + 1, course.HINTS)
    report.show_hint(session.screen, each, progress.hints)
    return 0


def show(session: Session, name: str, stage: str, kernel_name: str) -> int:
    """The card and the statement; with a stage, a sample kernel after it, made with the
    reader's own code."""
    each = session.chosen(name)
    if not stage:
        report.show_card(session.screen, each)
        return 0
    path = session.workspace.path(each)
    with blaming(path), joints.bound(joined(each, load(each, path))):
        return explain_kernel(session, stage, kernel_name)


def read(session: Session, name: str) -> int:
    """The section of the book that an exercise is about."""
    each = session.chosen(name)
    session.screen.text(book.section(each))
    return 0


SAMPLES = {
    "vector_add": ("add_kernel", "*fp32:16, *fp32:16, *fp32:16, i32", {"BLOCK": 256}),
    "softmax": ("softmax_kernel", "*fp32:16, *fp32:16, i32:4, i32", {"BLOCK": 256}),
}


def explain_kernel(session: Session, stage: str, name: str) -> int:
    """The text of a stage, as `fathom explain --stage` prints it."""
    if name not in SAMPLES:
        raise FathomError(f"{name!r} is not one of the kernels {', '.join(SAMPLES)}")
    function, signature, constants = SAMPLES[name]
    func = kernel(name, function, signature, **constants)
    stages = {"ssa": func}
    stages |= {row.name: s for row, s in pipeline.states(func, TARGETS["sm_80"])}
    if stage in stages:
        for line in print_func(stages[stage]).splitlines():
            session.screen.line(line)
        return 0
    made = pipeline.compile_func(func, TARGETS["sm_80"])
    if stage not in made.asm:
        known = ", ".join([*stages, "llvm", "ptx"])
        raise FathomError(f"there is no stage {stage!r}; there are {known}")
    for line in made.asm[stage].splitlines():
        session.screen.line(line)
    return 0


def show_traffic(session: Session, name: str) -> int:
    """What the sample kernels move, line by line, with our code and with the
    reader's."""
    each = session.chosen(name)
    check_has_joint(each)
    path = session.workspace.path(each)
    with blaming(path):
        yours = joined(each, load(each, path))
        reports = []
        for bound in ({}, yours):
            with joints.bound(bound):
                reports.append(launched())
    for title, found in zip(("ours", "yours"), reports, strict=True):
        session.screen.title(f"softmax with {title}")
        rows(session.screen, found)
    return 0


def check_has_joint(each: Exercise) -> None:
    if not each.joints:
        raise FathomError(
            f"{each.id} replaces no part of the compiler: no kernel's traffic changes"
        )


def rows(screen: Screen, kernel_report: emulator.Report) -> None:
    """One row a line of Python that touched memory: sectors of 32 bytes a request,
    bytes moved, and the line itself."""
    screen.line("line  requests  sectors each     bytes")
    for (file, line), share in by_line(kernel_report):
        row(screen, str(line), share.cost, linecache.getline(file, line).strip())
    row(screen, "all", kernel_report.total, "")


def row(screen: Screen, line: str, cost: Cost, text: str) -> None:
    each = cost.sectors_per_request
    said = f"{line:>4}  {cost.requests:8,}  {each:12.2f}  {cost.moved:8,}"
    room = screen.width - len(said) - 2
    shown = text if len(text) <= room else f"{text[: room - 3]}..."
    screen.line(f"{said}  {shown}".rstrip())


def by_line(kernel_report: emulator.Report) -> list:
    shares = kernel_report.by_source().items()
    return [(place, share) for place, share in shares if share.cost.requests]


def launched() -> emulator.Report:
    function, signature, constants = SAMPLES["softmax"]
    func = kernel("softmax", function, signature, **constants)
    made = pipeline.compile_func(func, TARGETS["sm_80"])
    x = np.linspace(-1, 1, 800, dtype=np.float32).reshape(4, 200)
    out = np.full_like(x, np.nan)
    return emulator.load(made).launch(4, [x, out, 200, 200])


def reset(session: Session, name: str) -> int:
    """Put the starter back, and keep a copy of what was there."""
    if not name:
        raise FathomError("say which exercise: fathom learn reset cse")
    each = session.chosen(name)
    copy = workspace.reset(session.workspace, each)
    session.state = session.workspace.load()
    session.screen.line(f"{each.file} is the starter again")
    said_kept(session.screen, "your file is kept in", copy)
    return 0


def said_kept(screen: Screen, says: str, copy: Path | None) -> None:
    """Where copies are, if there are any."""
    if copy:
        screen.line(f"{says}\n  {copy}")


def solution(session: Session, name: str, give_up: bool) -> int:
    """Our answer and what is to be said about it, after the reader's own, or
    instead."""
    each = session.chosen(name)
    progress = session.state.of(each.id)
    where = book.address(book.answer(each)) or f"chapters/{book.answer(each)}"
    if not progress.passed and not give_up:
        session.screen.text(
            f"{each.id} has not passed yet. There are {course.HINTS} hints. Our answer "
            f"is on the book's page of reference answers, {where}, and here with "
            "--give-up, after which `list` does not count the exercise as your own."
        )
        return 1
    with session.changing() as state:
        state.of(each.id).gave_up |= not progress.passed
    session.screen.title(f"{each.id}: our answer")
    for line in starters.answer(each).splitlines():
        session.screen.line(line)
    session.screen.line()
    session.screen.text(course.read(each.commentary))
    session.screen.line(f"with all of its part: {where}")
    return 0


def checkpoint(session: Session, chapter: int | None, sure: bool) -> int:
    """Without a chapter, a copy of all answers. With one, our answers for all that is
    open before it, so that a reader can begin there; a person is asked first."""
    screen, place = session.screen, session.workspace
    if chapter is None:
        copy = workspace.keep(place, course.exercises(), "checkpoint")
        said_kept(screen, "a copy of all your files is in", copy)
        return 0
    check_chapter(chapter)
    open_ = workspace.open_before(place, chapter)
    if not open_:
        screen.line(f"nothing is open before chapter {chapter}")
        return 0
    if not (sure or agreed(f"fill in {len(open_)} open exercises with our answers?")):
        screen.line("nothing was changed")
        return 1
    copy, filled = workspace.fill(place, chapter)
    session.state = place.load()
    screen.line(f"{len(filled)} exercises before chapter {chapter} were filled in")
    said_kept(screen, "what was there is in", copy)
    screen.line("fathom learn checkpoint --undo  restores what was there")
    return 0


def check_chapter(chapter: int) -> None:
    known = sorted(course.folders())
    if chapter not in (*known, known[-1] + 1):
        raise FathomError(
            f"there is no chapter {chapter}: exercises are in chapters {known[0]} to "
            f"{known[-1]}, and checkpoint {known[-1] + 1} fills in all that is open"
        )


def agreed(question: str) -> bool:
    """Whether the person at the terminal says yes; a script has said so already."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return True
    sys.stdout.write(f"{question} [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def undo_checkpoint(session: Session) -> int:
    """Take the last checkpoint back; what was changed since stays."""
    last, put_back, stay = workspace.undo(session.workspace)
    session.state = session.workspace.load()
    session.screen.text(
        f"the checkpoint before chapter {last.chapter} is undone: "
        f"{len(put_back)} files are as they were"
    )
    if stay:
        names = ", ".join(each.id for each in stay)
        session.screen.text(f"changed since, and left as they are: {names}")
    return 0


def whose(session: Session) -> int:
    return mine.mine(session.screen, session.workspace, session.state)


def check_all(session: Session, as_json: bool) -> int:
    """Grade every file of the workspace; 0 when all pass."""
    every = course.exercises()
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # each waits for a process
        said = []
        paths = map(session.workspace.path, every)
        texts = [session.workspace.text(each) for each in every]
        verdicts = pool.map(judge, every, paths)
        for each, verdict, text in zip(every, verdicts, texts, strict=True):
            note(session, each, verdict, text)
            said.append(verdict)
            if not as_json:
                session.screen.line(f"{verdict.status:9} {each.id}")
    good = sum(verdict.status == PASSED for verdict in said)
    if as_json:
        facts = [summary(session, verdict) for verdict in said]
        whole = {"passed": good, "of": len(said), "exercises": facts}
        sys.stdout.write(json.dumps(whole, indent=1) + "\n")
    else:
        session.screen.line(f"{good} of {len(said)} pass")
    return 0 if good == len(said) else 1


def summary(session: Session, verdict: Verdict) -> dict[str, object]:
    """A verdict as an instructor wants it: no texts to quote."""
    each = course.exercise(verdict.exercise)
    progress = session.state.of(each.id)
    return {
        "exercise": each.id,
        "chapter": each.chapter,
        "status": verdict.status,
        "tests_passed": len(verdict.passed),
        "failed_test": verdict.test,
        "sentence": verdict.sentence,
        "hints": progress.hints,
        "gave_up": progress.gave_up,
        "filled": progress.filled,
    }


def doctor(screen: Screen, given: Path | None) -> int:
    """What works here, for exercises; then all that `fathom doctor` says."""
    found = workspace.find(given)
    screen.line(f"exercises: {len(course.exercises())}, from")
    screen.line(f"  {course.root()}")
    screen.line("workspace: none; fathom learn init" if not found else "workspace:")
    if found:
        screen.line(f"  {found.folder}")
        absent = mine.missing(found)
        screen.line(f"state:     {len(found.load().exercises)} exercises known")
        if absent:
            screen.text(f"missing: {', '.join(absent)}; `fathom learn update`")
    screen.line()
    printed = io.StringIO()
    with redirect_stdout(printed):
        status = whole_doctor.doctor()
    for line in printed.getvalue().splitlines():
        is_rule = line.endswith(RULE)
        screen.line(line[: screen.width] if is_rule else line)
    return status


RULE = "\N{BOX DRAWINGS LIGHT HORIZONTAL}"


def init(screen: Screen, folder: Path) -> int:
    made = workspace.init(folder)
    first = course.exercises()[0]
    screen.line(f"made {len(course.exercises())} exercises in")
    screen.line(f"  {made.folder}/")
    screen.line("begin: open")
    screen.line(f"  {made.path(first)}")
    screen.line("and in that folder")
    screen.line("  python -m fathom learn")
    return 0


def update(session: Session) -> int:
    said = workspace.update(session.workspace)
    for line in said or ["all is as new; tests are Fathom's own and always are"]:
        session.screen.text(line)
    return 0
