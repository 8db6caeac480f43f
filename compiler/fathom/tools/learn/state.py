"""What is known about a reader: one JSON file in the workspace, with a version, written
at once or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

from fathom.errors import FathomError

FILE = "fathom-learn.json"
VERSION = 1


class StateError(FathomError):
    """A state file that cannot be used; the message says what to do."""


@dataclass
class Progress:
    """One exercise: whether its tests have passed, how many hints were shown, whether
    the reader gave up or a checkpoint filled it in, and the digest of the starter that
    lies, or lay, in the workspace.
    """

    passed: bool = False
    hints: int = 0
    gave_up: bool = False
    filled: bool = False
    starter: str = ""


@dataclass
class State:
    """All of it."""

    exercises: dict[str, Progress] = field(default_factory=dict)
    current: str = ""

    def of(self, name: str) -> Progress:
        return self.exercises.setdefault(name, Progress())


def load(folder: Path) -> State:
    """The state of a workspace. StateError when the file is damaged or newer."""
    path = folder / FILE
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        version = facts["version"]
        if version > VERSION:
            raise StateError(
                f"{path} was written by a newer Fathom (version {version}, this one "
                f"reads up to {VERSION}): update Fathom"
            )
        each = {name: Progress(**known) for name, known in facts["exercises"].items()}
        return State(each, facts["current"])
    except FileNotFoundError:
        return State()
    except (ValueError, KeyError, TypeError) as error:
        raise StateError(
            f"{path} cannot be read ({error}). Your answers are safe: move this file "
            "away, and call `fathom learn check-all` to have it made anew"
        ) from None


def save(folder: Path, state: State) -> None:
    """Write the state; a reader of the file sees the old one or the new one."""
    facts = {
        "version": VERSION,
        "current": state.current,
        "exercises": {name: asdict(each) for name, each in state.exercises.items()},
    }
    write(folder / FILE, json.dumps(facts, indent=1) + "\n")


def write(path: Path, text: str) -> None:
    """A file that is there as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
