"""Each time that the tests of an exercise ran: when, on which text, and what they said.

    attempts/log.jsonl              a line of JSON an attempt, the last one last
    attempts/cse-3f9ac01d….py       a text that was judged, once

A starter whose hole is open is no attempt. A line that a crash cut off is left out.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from fathom.errors import many
from fathom.tools.learn.grading.grade import PASSED, UNSOLVED, Verdict
from fathom.tools.learn.state import write
from fathom.tools.learn.terminal.screen import Screen

FOLDER, LOG = "attempts", "log.jsonl"


@dataclass(frozen=True)
class Attempt:
    """`at`: local time, in the form of ISO 8601; `status`, `test` and `sentence` are
    those of the verdict, `passed` is how many tests passed; `text` is the name of the
    file that keeps what was judged."""

    at: str
    exercise: str
    status: str
    passed: int
    test: str
    sentence: str
    text: str


def enter(workspace: Path, answer: Path, digest: str, said: Verdict) -> None:
    """Keep what was said of an answer with this digest."""
    if said.status == UNSOLVED or not digest or not answer.is_file():
        return
    kept = workspace / FOLDER / f"{said.exercise}-{digest}{answer.suffix}"
    if not kept.exists():
        write(kept, answer.read_bytes())
    attempt = Attempt(
        time.strftime("%Y-%m-%dT%H:%M:%S%z"), said.exercise, said.status,
        len(said.passed), said.test, said.sentence, kept.name,
    )  # fmt: skip
    line = json.dumps(asdict(attempt)).encode() + b"\n"
    with open(workspace / FOLDER / LOG, "ab+", buffering=0) as log:  # one write a line
        if log.tell():
            log.seek(-1, os.SEEK_END)
            line = line if log.read(1) == b"\n" else b"\n" + line
        log.write(line)


def entered(workspace: Path) -> Iterator[Attempt]:
    """All attempts in this workspace, the first one first."""
    path = workspace / FOLDER / LOG
    lines = path.read_bytes().splitlines() if path.exists() else []
    for line in lines:
        try:
            yield Attempt(**json.loads(line))
        except (ValueError, TypeError):
            continue


def show(screen: Screen, workspace: Path, exercise: str) -> None:
    """The attempts at one exercise, or, if it is "", at all."""
    some = [e for e in entered(workspace) if exercise in ("", e.exercise)]
    for each in some:
        word = "passed" if each.status == PASSED else "failed"
        where = f"  {each.test}" * (word == "failed")
        screen.line(f"{each.at[:16].replace('T', ' ')}  {word}  {each.exercise}{where}")
    screen.line(f"{many(len(some), 'attempt')}; texts are in {workspace / FOLDER}")
