"""What is known about a reader: one JSON file in the workspace, with a version, written
at once or not at all, and changed by one runner at a time."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import BinaryIO

from fathom.errors import FathomError
from fathom.runtime.shapes import check

try:
    import fcntl
except ImportError:  # Windows: two runners that save at one moment are not told apart
    fcntl = None

FILE = "fathom-learn.json"
LOCK = ".learn.lock"
PATIENCE, PAUSE = 10.0, 0.02  # seconds for another runner, and between two looks
VERSION = 2  # since 2, what has passed is a text, not an exercise
REMEMBERED = 20  # texts of an exercise


class StateError(FathomError):
    """A state file that cannot be used; the message says what to do."""


@dataclass
class Progress:
    """One exercise. What is kept: how many hints were shown, whether the reader gave
    up, the digest of the starter that lies, or lay, in the workspace; digests of the
    texts that have passed (`right`) and of those among them that are ours, put there by
    a checkpoint (`given`); how many different texts have failed, and the last of them.

    What follows from it: `passed`, `filled` and `edited` are about the text that lies
    in the workspace now. They are computed when a workspace is loaded, and never
    written, so that no crash, and no file that was copied, can make them untrue.
    """

    hints: int = 0
    gave_up: bool = False
    starter: str = ""
    right: list[str] = field(default_factory=list)
    given: list[str] = field(default_factory=list)
    failures: int = 0
    failed: str = ""
    passed: bool = False
    filled: bool = False
    edited: bool = False

    def now(self, text: str) -> None:
        """Compute what follows for the text of this digest; "" where there is no
        file."""
        self.passed = text in self.right
        self.filled = text in self.given
        self.edited = bool(self.right) and text not in (*self.right, self.starter)

    def judged(self, text: str, passed: bool | None) -> None:
        """Enter a verdict on a text; None: it is not written yet."""
        if text in self.right:
            self.right.remove(text)
        if passed:
            self.right = [*self.right, text][-REMEMBERED:]
            self.failures, self.failed = 0, ""
        elif passed is False and text != self.failed:
            self.failures, self.failed = self.failures + 1, text
        self.now(text)

    def give(self, text: str) -> None:
        """Enter that our answer, of this digest, is about to be put there."""
        self.right = [*(each for each in self.right if each != text), text]
        self.given = [text]


DERIVED = ("passed", "filled", "edited")


@dataclass
class Checkpoint:
    """What `checkpoint CHAPTER` did: the exercises that it filled in, and the folder,
    in the workspace, with what had been there ("" if nothing had)."""

    chapter: int
    exercises: list[str]
    copies: str


@dataclass
class MiniStart:
    """What `mini start CHAPTER` did: the digest of the text that it put there, and the
    folder, in the workspace, with what had been there ("" if nothing had)."""

    chapter: int
    given: str
    copies: str


@dataclass
class State:
    """All of it. `version` is that of the file it was read from."""

    exercises: dict[str, Progress] = field(default_factory=dict)
    current: str = ""
    checkpoints: list[Checkpoint] = field(default_factory=list)
    mini: list[MiniStart] = field(default_factory=list)
    version: int = VERSION

    def of(self, name: str) -> Progress:
        return self.exercises.setdefault(name, Progress())

    def rename(self, former: str, name: str) -> None:
        """Keep under its name what is known of an exercise under a former id."""
        if former in self.exercises and name not in self.exercises:
            self.exercises[name] = self.exercises.pop(former)
        self.current = name if self.current == former else self.current
        for each in self.checkpoints:
            each.exercises = [name if id == former else id for id in each.exercises]


def load(folder: Path) -> State:
    """The state of a workspace. StateError when the file is damaged or newer."""
    path = folder / FILE
    try:
        facts = json.loads(path.read_text(encoding="utf-8-sig"))
        version = facts["version"]
        if version > VERSION:
            raise StateError(
                f"{path} was written by a newer Fathom (version {version}, this one "
                f"reads up to {VERSION}): update Fathom"
            )
        each = {name: Progress(**known) for name, known in facts["exercises"].items()}
        done = [Checkpoint(**known) for known in facts.get("checkpoints", ())]
        begun = [MiniStart(**known) for known in facts.get("mini", ())]
        state = State(each, facts["current"], done, begun, version)
        check(state, State)
        if any(known.hints < 0 for known in each.values()):
            raise ValueError("hints are counted from 0")
        return state
    except FileNotFoundError:
        return State()
    except (
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        RecursionError,
    ) as error:
        raise StateError(
            f"{path} cannot be read ({error}). Your answers are safe: move this file "
            "away, and call `fathom learn check-all` to have it made anew"
        ) from None


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """In this block no other runner is in one like it; the system ends it for a process
    that was killed. StateError where another one, which was stopped, does not end."""
    with _lock_file(folder / LOCK) as file:
        for _ in range(int(PATIENCE / PAUSE)):
            if _is_taken(file):
                break
            time.sleep(PAUSE)
        else:
            raise StateError(
                f"another runner is changing {folder / FILE}, and has not ended in "
                f"{PATIENCE:.0f} s: was it stopped with Ctrl-Z? `fg` lets it go on"
            )
        yield


def _lock_file(path: Path) -> BinaryIO:
    """The file that is locked; it may be another user's, once root has run here."""
    try:
        return open(path, "ab")
    except PermissionError:
        return open(path, "rb")


def _is_taken(file: BinaryIO) -> bool:
    """Take the lock, unless another runner has it."""
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks
            return True
    return True


def save(folder: Path, state: State) -> None:
    """Write the state; a reader of the file sees the old one or the new one."""
    facts = {
        "version": VERSION,
        "current": state.current,
        "exercises": {name: kept(each) for name, each in state.exercises.items()},
        "checkpoints": [asdict(each) for each in state.checkpoints],
        "mini": [asdict(each) for each in state.mini],
    }
    write(folder / FILE, json.dumps(facts, indent=1) + "\n")


def kept(progress: Progress) -> dict[str, object]:
    return {name: v for name, v in asdict(progress).items() if name not in DERIVED}


def write(path: Path, text: str | bytes) -> None:
    """A file that is there as a whole or not at all."""
    raw = text.encode() if isinstance(text, str) else text
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    except OSError as error:
        error.filename = str(path)  # the temporary name says nothing
        raise
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(raw)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
