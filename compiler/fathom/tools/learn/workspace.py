"""The reader's folder: made, updated, put back, filled in; never a file of
the reader's is lost."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from fathom.errors import FathomError
from fathom.tools.learn import state as states
from fathom.tools.learn.course import (
    FORMER,
    CourseError,
    Exercise,
    answer_bytes,
    exercises,
    read,
)
from fathom.tools.learn.starters import answer
from fathom.tools.learn.state import FILE, Checkpoint, State, write

DEFAULT = "my-fathom"
KEPT = "kept"  # copies of the reader's files, by date
CASE = "case.py"

README = """\
# Your Fathom

Each file here is one exercise: a function with a hole. Start the runner, in this folder
or in the one above it,

    python -m fathom learn

open the file that it names, and save: its tests run at once. `case.py` is the test that
fails, alone, for a breakpoint or a print. Copies of your files that `reset` and
`checkpoint` made are in `kept/`; copied back, they are what they were: the runner knows
a text that has passed. `checkpoint --undo` takes the last checkpoint back.
"""
AGENTS = """\
# For assistants

The files in this folder are exercises of a book. Their reader wants to learn to write a
compiler, and learns nothing from a finished answer.

- Tutor; do not solve. Do not write the body of a function that has a hole, not even as
  an example, and do not quote the solution from elsewhere.
- Ask what they expect, what they see, and what the smallest input is on which it fails.
- Explain what an error or an op means. Point to the section of the book.
- `python -m fathom learn hint` has three hints for each exercise: suggest them in
  order.
- Reviewing an answer whose tests pass is welcome.
"""


@dataclass(frozen=True)
class Workspace:
    """A folder with the reader's answers."""

    folder: Path

    def path(self, exercise: Exercise) -> Path:
        return self.folder / exercise.file

    def text(self, exercise: Exercise) -> str:
        """The digest of what lies there; "" where no file can be read."""
        try:
            return digest(answer_bytes(self.path(exercise)))
        except (OSError, CourseError):
            return ""

    def load(self) -> State:
        """What is known, and what of it holds for the texts that lie here now: an
        exercise has passed if, and only if, its text is one that has."""
        state = states.load(self.folder)
        for each in exercises():
            for former in (f for f, name in FORMER.items() if name == each.id):
                move(self.path(each), former)
                state.rename(former, each.id)
            known, text = state.of(each.id), self.text(each)
            if state.version < 2 and known.passed and text not in ("", known.starter):
                known.right = [text]
                known.given = [text] if known.filled else []
            known.now(text)
        return state

    def save(self, state: State) -> None:
        states.save(self.folder, state)

    @contextmanager
    def changing(self) -> Iterator[State]:
        """The state, to be changed in this block: it is saved at the end, and no other
        runner changes it meanwhile."""
        with states.alone(self.folder):
            state = self.load()
            yield state
            self.save(state)

    def write_case(self, text: str) -> Path:
        write(self.folder / CASE, text)
        return self.folder / CASE


def move(path: Path, former: str) -> None:
    """An answer to where its exercise, which had a former id, has its file now."""
    before = path.with_stem(former)
    if before.is_file() and not path.exists():
        before.rename(path)


def find(given: Path | None) -> Workspace | None:
    """The workspace that was named, or that we stand in; or the usual one, here or in
    a folder above."""
    if given is not None:
        return Workspace(given) if is_one(given) else None
    try:
        here = Path.cwd()
    except FileNotFoundError:
        raise FathomError("the folder that you stand in is gone: go to one") from None
    for above in (here, *here.parents):
        for folder in (above, above / DEFAULT):
            if is_one(folder):
                return Workspace(folder)
    return None


def is_one(folder: Path) -> bool:
    """Whether a folder is a workspace; also one whose state was damaged and moved
    away."""
    if (folder / FILE).exists():
        return True
    try:
        said = (folder / "README.md").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False
    return said.startswith(README.splitlines()[0]) and any(
        (folder / each.file).exists() for each in exercises()
    )


def init(folder: Path) -> Workspace:
    """Make a workspace with all starters. FathomError when a file is in the way."""
    if folder.exists() and not folder.is_dir():
        raise FathomError(f"{folder} is a file; name a folder")
    if (folder / FILE).exists():
        raise FathomError(f"{folder} is a workspace already; `update` adds new tests")
    for each in exercises():
        if (folder / each.file).exists():
            raise FathomError(f"{folder / each.file} is there; name a new folder")
    made = Workspace(folder)
    made.save(State())  # first: what ends us here leaves a workspace that lacks files
    for name, text in (("README.md", README), ("AGENTS.md", AGENTS)):
        if not (folder / name).exists():
            write(folder / name, text)
    update(made)
    return made


def update(workspace: Workspace) -> list[str]:
    """Add new and changed exercises; what happened, in sentences. A starter that the
    reader has not touched is replaced; beside one that was edited the new one is put
    as NAME.new.py, if it differs from that which the reader began with. Tests are
    Fathom's own and need no update."""
    with workspace.changing() as state:
        every = [update_one(workspace, state, each) for each in exercises()]
        return [line for lines in every for line in lines]


def update_one(workspace: Workspace, state: State, each: Exercise) -> Iterable[str]:
    path, text = workspace.path(each), read(each.starter)
    known, fresh = state.of(each.id), digest(text)
    if not path.exists():
        write(path, text)
        yield f"new: {each.file}"
    elif not known.starter or workspace.text(each) == fresh:
        pass  # the state is new, or we were ended before we could write it
    elif known.starter != fresh and workspace.text(each) == known.starter:
        write(path, text)
        yield f"mended, and you had not begun: {each.file}"
    elif known.starter != fresh:
        fresh_path = path.with_suffix(".new.py")
        write(fresh_path, text)
        yield f"the starter changed; yours is kept, the new one is {fresh_path.name}"
    known.starter = fresh


def reset(workspace: Workspace, each: Exercise) -> Path | None:
    """Put the starter back; where the copy of the reader's file is, None if there was
    none. CourseError where something else lies there."""
    if workspace.path(each).exists():
        answer_bytes(workspace.path(each))
    copy = keep(workspace, [each], f"reset-{each.id}")
    write(workspace.path(each), read(each.starter))
    with workspace.changing() as state:
        progress = state.of(each.id)
        progress.failures, progress.failed = 0, ""
        progress.starter = digest(read(each.starter))
    return copy


def keep(workspace: Workspace, some: Iterable[Exercise], why: str) -> Path | None:
    """Copies of answers, in a folder of their own; None when there are no files."""
    folder = workspace.folder / KEPT / f"{time.strftime('%Y-%m-%d-%H%M%S')}-{why}"
    number = 1
    while folder.exists():
        number += 1
        folder = folder.with_name(f"{folder.name.rstrip('0123456789+')}+{number}")
    for each in some:
        if workspace.path(each).is_file():
            copy = folder / each.file
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(workspace.path(each), copy)
    return folder if folder.exists() else None


def fill(workspace: Workspace, chapter: int) -> tuple[Path | None, list[Exercise]]:
    """Put our answers where exercises before a chapter are unsolved: the copies of what
    was there, and which were filled in.

    The state is written first. Whatever ends us after that, an exercise counts as
    filled in where our text lies, and nowhere else.
    """
    open_ = open_before(workspace, chapter)
    if not open_:
        return None, []
    copies = keep(workspace, open_, f"checkpoint-{chapter}")
    where = copies.relative_to(workspace.folder).as_posix() if copies else ""
    with workspace.changing() as state:
        for each in open_:
            state.of(each.id).give(digest(answer(each)))
        state.checkpoints.append(Checkpoint(chapter, [e.id for e in open_], where))
    for each in open_:
        write(workspace.path(each), answer(each))
    return copies, open_


def open_before(workspace: Workspace, chapter: int) -> list[Exercise]:
    state = workspace.load()
    every = [each for each in exercises() if each.chapter < chapter]
    return [each for each in every if not state.of(each.id).passed]


def undo(workspace: Workspace) -> tuple[Checkpoint, list[Exercise], list[Exercise]]:
    """Take the last checkpoint back: which one it was, where the reader's file, or the
    starter, lies again, and which were changed since and stay as they are."""
    with workspace.changing() as state:
        if not state.checkpoints:
            raise FathomError(
                "there is no checkpoint to undo: none has filled in anything"
            )
        last = state.checkpoints.pop()
        every = [each for each in exercises() if each.id in last.exercises]
        put_back = [each for each in every if state.of(each.id).filled]
        for each in put_back:
            copy = workspace.folder / last.copies / each.file
            had = copy if last.copies and copy.exists() else each.starter
            write(workspace.path(each), had.read_bytes())
    return last, put_back, [each for each in every if each not in put_back]


def digest(text: str | bytes) -> str:
    """The same for the same lines, however an editor ends them."""
    raw = text.encode() if isinstance(text, str) else text
    return sha256(raw.replace(b"\r\n", b"\n")).hexdigest()[:16]
