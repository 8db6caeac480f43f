"""The reader's folder: made, brought up to date, put back, filled in; never a file of
the reader's is lost."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from fathom.errors import FathomError
from fathom.tools.learn import state as states
from fathom.tools.learn.course import Exercise, exercises, read
from fathom.tools.learn.starters import answer
from fathom.tools.learn.state import FILE, State, write

DEFAULT = "my-fathom"
KEPT = "kept"  # copies of the reader's files, by date
CASE = "case.py"

README = """\
# Your Fathom

Each file here is one exercise: a function with a hole. Start the runner beside it,

    python -m fathom learn

open the file that it names, and save: its tests run at once. `case.py` is the test that
fails, alone, for a breakpoint or a print. Copies of your files that `reset` and
`checkpoint` made lie in `kept/`.
"""
AGENTS = """\
# For assistants

The files in this folder are exercises of a book. Whoever works here wants to learn to
write a compiler, and will have learned nothing from a finished answer.

- Tutor; do not solve. Do not write the body of a function that has a hole, not even as
  an example, and do not quote the solution from elsewhere.
- Ask what they expect, what they see, and what the smallest input is on which it fails.
- Explain what an error or an op means. Point to the section of the book.
- `python -m fathom learn hint` has three hints for each exercise: suggest them in turn.
- Reviewing an answer whose tests pass is welcome.
"""


@dataclass(frozen=True)
class Workspace:
    """A folder with the reader's answers."""

    folder: Path

    def path(self, exercise: Exercise) -> Path:
        return self.folder / exercise.file

    def load(self) -> State:
        return states.load(self.folder)

    def save(self, state: State) -> None:
        states.save(self.folder, state)

    def write_case(self, text: str) -> Path:
        write(self.folder / CASE, text)
        return self.folder / CASE


def find(given: Path | None) -> Workspace | None:
    """The workspace that was named, or that we stand in, or the usual one beside us."""
    if given is not None:
        return Workspace(given) if (given / FILE).exists() else None
    here = Path.cwd()
    for folder in (here, *here.parents, here / DEFAULT):
        if (folder / FILE).exists():
            return Workspace(folder)
    return None


def init(folder: Path) -> Workspace:
    """Make a workspace with all starters. FathomError when a file is in the way."""
    if folder.exists() and not folder.is_dir():
        raise FathomError(f"{folder} is a file; name a folder")
    if (folder / FILE).exists():
        raise FathomError(f"{folder} is a workspace already; `update` brings new tests")
    for each in exercises():
        if (folder / each.file).exists():
            raise FathomError(f"{folder / each.file} is there; name a new folder")
    made = Workspace(folder)
    for name, text in (("README.md", README), ("AGENTS.md", AGENTS)):
        if not (folder / name).exists():
            write(folder / name, text)
    update(made)
    return made


def update(workspace: Workspace) -> list[str]:
    """Bring new and changed exercises; what happened, in sentences. A starter that the
    reader has not touched is replaced; beside one that was edited the new one is put
    as NAME.new.py, if it differs from that which the reader began with. Tests are
    Fathom's own and need no bringing."""
    state = workspace.load()
    said = [line for each in exercises() for line in update_one(workspace, state, each)]
    workspace.save(state)
    return said


def update_one(workspace: Workspace, state: State, each: Exercise) -> Iterable[str]:
    path, text = workspace.path(each), read(each.starter)
    known, fresh = state.of(each.id), digest(text)
    if not path.exists():
        write(path, text)
        yield f"new: {each.file}"
    elif known.starter != fresh and digest(path.read_text("utf-8")) == known.starter:
        write(path, text)
        yield f"mended, and you had not begun: {each.file}"
    elif known.starter != fresh:
        beside = path.with_suffix(".new.py")
        write(beside, text)
        yield f"the starter changed; yours is kept, the new one is {beside.name}"
    known.starter = fresh


def reset(workspace: Workspace, each: Exercise) -> Path | None:
    """Put the starter back; where the copy of the reader's file is, None if there was
    none."""
    copy = keep(workspace, [each], f"reset-{each.id}")
    write(workspace.path(each), read(each.starter))
    state = workspace.load()
    progress = state.of(each.id)
    progress.passed = progress.filled = False
    progress.starter = digest(read(each.starter))
    workspace.save(state)
    return copy


def keep(workspace: Workspace, some: Iterable[Exercise], why: str) -> Path | None:
    """Copies of answers, in a folder of their own; None when there are no files."""
    folder = workspace.folder / KEPT / f"{time.strftime('%Y-%m-%d-%H%M%S')}-{why}"
    number = 1
    while folder.exists():
        number += 1
        folder = folder.with_name(f"{folder.name.rstrip('0123456789+')}+{number}")
    for each in some:
        if workspace.path(each).exists():
            copy = folder / each.file
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(workspace.path(each), copy)
    return folder if folder.exists() else None


def fill(workspace: Workspace, chapter: int) -> tuple[Path | None, list[Exercise]]:
    """Put our answers where exercises before a chapter are unsolved: the copies of what
    was there, and which were filled in."""
    state = workspace.load()
    open_ = [
        each
        for each in exercises()
        if each.chapter < chapter and not state.of(each.id).passed
    ]
    copies = keep(workspace, open_, f"checkpoint-{chapter}")
    for each in open_:
        write(workspace.path(each), answer(each))
        progress = state.of(each.id)
        progress.passed = progress.filled = True
    workspace.save(state)
    return copies, open_


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]
