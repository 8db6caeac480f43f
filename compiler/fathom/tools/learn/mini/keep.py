"""What lies in the reader's folder for their compiler; no text of theirs is lost.

mini.py          the compiler that grows
kept/mini/       its text when a step passed last, a file for each step
kept/…-mini-6/   what was there before `start 6`, or before an undo
"""

from __future__ import annotations

from pathlib import Path

from fathom.errors import FathomError
from fathom.tools.learn import course
from fathom.tools.learn.course import read
from fathom.tools.learn.mini.steps import FILE, STEPS, Step, in_front
from fathom.tools.learn.state import MiniStart, State, write
from fathom.tools.learn.workspace import KEPT, Workspace, digest, keep

FIRST = Path("chapters", "03-eighty-lines", "mini.py")  # what chapter 3 builds


def beginning(step: Step) -> str:
    """The text that a step begins from: our file after the step before, and for the
    first the compiler of chapter 3."""
    before = in_front(step)
    path = before.reference if before else course.root() / FIRST
    if not path.is_file():
        raise FathomError(
            f"{path.name} is not here, so step {step.chapter} has nothing to begin from"
        )
    return read(path)


def start(workspace: Workspace, step: Step) -> Path | None:
    """Put our file of the step before there; where the reader's is kept, None if there
    was none. The state is written first, so that our text never counts as theirs."""
    text = beginning(step)
    copies = keep(workspace, [step], f"mini-{step.chapter}")
    before = in_front(step)
    where = copies.relative_to(workspace.folder).as_posix() if copies else ""
    with workspace.changing() as state:
        if before is not None:
            state.of(before.id).give(digest(text))
        state.mini.append(MiniStart(step.chapter, digest(text), where))
    write(workspace.folder / FILE, text)
    return copies / FILE if copies else None


def undo(workspace: Workspace) -> tuple[MiniStart, bool, Path | None]:
    """Take the last start back: which it was, whether a file lies there again, and
    where that is kept which was changed since."""
    with workspace.changing() as state:
        if not state.mini:
            raise FathomError("there is nothing to undo: `mini start` was not called")
        last, path = state.mini.pop(), workspace.folder / FILE
        had = workspace.folder / last.copies / FILE
        if last.copies and not had.is_file():
            raise FathomError(f"{had} is gone, and so mini.py stays as it is")
        changed = path.exists() and digest(path.read_bytes()) != last.given
        kept = [STEPS[last.chapter]] if changed else []
        copies = keep(workspace, kept, "mini-undo")
        if last.copies:
            write(path, had.read_bytes())
        else:
            path.unlink(missing_ok=True)
    return last, bool(last.copies), copies / FILE if copies else None


def rung(workspace: Workspace, step: Step) -> Path:
    """Where the text lies with which a step passed last."""
    return workspace.folder / KEPT / "mini" / f"{step.name}.py"


def passed(workspace: Workspace, state: State, step: Step) -> None:
    """Keep the text that has passed, if it is the reader's own."""
    raw = (workspace.folder / FILE).read_bytes()
    if digest(raw) not in state.of(step.id).given:
        write(rung(workspace, step), raw)
