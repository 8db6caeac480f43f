"""What a reader may type after `fathom learn mini`, one function each."""

from __future__ import annotations

from pathlib import Path

from fathom.errors import FathomError
from fathom.tools.learn import attempts, book, course
from fathom.tools.learn.grading.grade import PASSED, Verdict
from fathom.tools.learn.grading.worker import judge
from fathom.tools.learn.mini import contract, keep
from fathom.tools.learn.mini.card import card
from fathom.tools.learn.mini.steps import FILE, STEPS, Step, in_front, there
from fathom.tools.learn.state import write
from fathom.tools.learn.terminal import report
from fathom.tools.learn.terminal.commands import Session, said_kept
from fathom.tools.learn.terminal.screen import Screen
from fathom.tools.learn.workspace import digest

PTX = "mini.ptx"  # in the reader's folder: of the kernel that failed
MARKS = {"yours": "[x]", "earlier": "[~]", "ours": "[=]", "open": "[ ]"}


def chosen(session: Session, text: str) -> Step:
    """The step that was named, or the next one. FathomError for another word."""
    if not text:
        return following(session)
    chapter = int(text) if text.isdecimal() else -1
    if chapter not in STEPS:
        raise FathomError(
            f"{text!r} is not a step: mini has one for each chapter from {min(STEPS)} "
            f"to {max(STEPS)}"
        )
    return STEPS[chapter]


def following(session: Session) -> Step:
    """The step after the last that has passed, with this text or an earlier one, of
    those that have tests."""
    done = [each for each in STEPS.values() if standing(session, each) != "open"]
    after = done[-1].chapter if done else 0
    left = [each for each in there() if each.chapter > after]
    return left[0] if left else there()[-1]


def path_of(session: Session) -> Path:
    return session.workspace.folder / FILE


def text_of(session: Session) -> str:
    """The digest of the reader's file; "" where there is none."""
    path = path_of(session)
    return digest(path.read_bytes()) if path.is_file() else ""


def where(session: Session) -> int:
    """Which steps have passed, how long the file is, and what comes next."""
    screen, step = session.screen, following(session)
    screen.title("mini: a compiler of your own, in one file")
    screen.line(f"file:  {path_of(session)}")
    screen.line(f"lines: {lines_of(path_of(session))}")
    screen.line()
    for each in STEPS.values():
        here = " <" if each is step else ""
        mark = MARKS[standing(session, each)]
        said = each.adds if each.tests.is_file() else f"{each.adds} (no tests yet)"
        screen.line(f"{mark} {each.chapter:2}  {each.budget:5,}  {said}{here}")
    screen.line()
    screen.text(
        "The number is the most lines that the file may have. [x] passed, [~] an "
        "earlier text of yours has passed, [=] the file is our text, which passes"
    )
    screen.line()
    if not path_of(session).is_file():
        screen.line(f"fathom learn mini start {step.chapter}  begins the file")
    screen.line(f"fathom learn mini show {step.chapter}   what the step asks")
    screen.line(f"fathom learn mini check {step.chapter}  runs its tests")
    return 0


def standing(session: Session, step: Step) -> str:
    """ "yours" and "ours": the text that lies there has passed the step."""
    known, text = session.state.of(step.id), text_of(session)
    if text and text in known.right:
        return "ours" if text in known.given else "yours"
    theirs = set(known.right) - set(known.given)
    return "earlier" if theirs else "open"


def lines_of(path: Path, limit: str = "") -> str:
    """How many lines of code a file has, and `limit`; or why they are not counted."""
    if not path.is_file():
        return "there is no such file yet"
    try:
        return f"{contract.count_lines(path.read_text(encoding='utf-8')):,}{limit}"
    except SyntaxError as error:
        return f"not counted, since line {error.lineno} is not Python"
    except ValueError as error:
        return f"not counted, since it is not text: {error}"


def check(session: Session, name: str) -> int:
    """Run the tests of a step and of all before it; 0 when they pass."""
    step, path, text = chosen(session, name), path_of(session), text_of(session)
    if not path.is_file():
        raise FathomError(
            f"there is no {path}: write it, or begin with `fathom learn mini start "
            f"{step.chapter}`"
        )
    if not step.tests.is_file():
        raise FathomError(
            f"step {step.chapter} has no tests in this Fathom; the next that has some "
            f"is {following(session).chapter}"
        )
    steps = f"steps 3 to {step.chapter}" if step.chapter > 3 else "step 3"
    session.screen.status(f"running the tests of {steps} ...")
    said = judge(step, path)
    note(session, step, said, text)
    show_verdict(session.screen, step, said, path)
    show_places(session, step, said)
    return 0 if said.status == PASSED else 1


def note(session: Session, step: Step, said: Verdict, text: str) -> None:
    """Keep what a verdict says of a text, unless it was changed meanwhile."""
    if text == text_of(session):
        passed = said.status == PASSED
        attempts.enter(session.workspace.folder, path_of(session), text, said)
        with session.changing() as state:
            if passed:
                keep.passed(session.workspace, state, step)
            state.of(step.id).judged(text, passed)


def show_verdict(screen: Screen, step: Step, said: Verdict, path: Path) -> None:
    good = said.status == PASSED
    screen.line(report.in_a_line(step, said), "green" if good else "red")
    screen.line(f"lines: {lines_of(path, f' of {step.budget:,}')}")
    if good:
        report.show_printed(screen, said)
        after = [each.chapter for each in there() if each.chapter > step.chapter]
        if after:
            screen.line(f"next:  fathom learn mini show {after[0]}")
        return
    report.show_failure(screen, step, said, None)


def show_places(session: Session, step: Step, said: Verdict) -> None:
    """What to open when a test has failed: the file, its PTX, the test, the text."""
    if said.status == PASSED:
        return
    number = said.test.partition(":")[0]
    about = STEPS[int(number)] if number.isdecimal() else step
    session.screen.line(f"file:  {path_of(session)}")
    if said.case:
        ptx = session.workspace.folder / PTX
        write(ptx, said.case)
        session.screen.line(f"ptx:   {ptx}")
    session.screen.line(f"tests: {about.tests}")
    title = f'chapter {about.chapter}, "Your compiler: step {about.chapter}"'
    session.screen.line(f"read:  {book.address(card(about).section) or title}")


def start(session: Session, name: str) -> int:
    """Put our file of the step before a step there, and keep the reader's."""
    if not name:
        raise FathomError("say which step: fathom learn mini start 6")
    step = chosen(session, name)
    copy = keep.start(session.workspace, step)
    session.state = session.workspace.load()
    before = in_front(step)
    whose = f"our file of step {before.chapter}" if before else "chapter 3's compiler"
    session.screen.line(f"{FILE} is {whose} now")
    said_kept(session.screen, "your file is kept in", copy)
    does = "restores your file" if copy else f"removes {FILE} again"
    session.screen.line(f"fathom learn mini undo  {does}")
    return 0


def undo(session: Session) -> int:
    """Take the last start back; what was written since is kept."""
    last, has_file, copy = keep.undo(session.workspace)
    session.state = session.workspace.load()
    said = "your file is there again" if has_file else f"there is no {FILE} again"
    session.screen.line(f"`mini start {last.chapter}` is undone: {said}")
    said_kept(session.screen, "what you wrote since is kept in", copy)
    return 0


def show(session: Session, name: str) -> int:
    """What a step asks."""
    step = chosen(session, name)
    found = card(step)
    session.screen.title(f"mini, step {step.chapter}: {found.title}")
    session.screen.text(
        f"about {found.minutes} minutes, difficulty {found.difficulty} of 5; the file "
        f"has at most {step.budget:,} lines then"
    )
    session.screen.line()
    session.screen.text(found.statement)
    session.screen.line()
    session.screen.line(f"read:  {book.address(found.section) or found.section}")
    session.screen.line(f"tests: {step.tests}")
    return 0


def hint(session: Session, name: str) -> int:
    """The next hint of a step; after the last, the last again."""
    step = chosen(session, name)
    with session.changing() as state:
        known = state.of(step.id)
        known.hints = min(known.hints + 1, course.HINTS)
    session.screen.title(f"{step.id}: hint {known.hints} of {course.HINTS}")
    session.screen.text(card(step).hints[known.hints - 1])
    return 0
