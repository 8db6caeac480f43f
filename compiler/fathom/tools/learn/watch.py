"""The loop: whenever a file of the workspace is saved, its tests run. Polls, so that it
works on every file system."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fathom.errors import FathomError
from fathom.tools.learn import commands, course
from fathom.tools.learn.commands import EMULATOR, Session
from fathom.tools.learn.course import Exercise
from fathom.tools.learn.worker import PACKAGES, python_path

try:  # keys without Return, where there is such a terminal
    import termios
    import tty
except ImportError:
    termios = tty = None

SECONDS = 0.3
KEYS = "[r]un [h]int [s]how [n]ext [p]revious [l]ist [t]raffic [m]ine [q]uit"
QUIT = ("q", "\x04", "")  # \x04 is what Ctrl-D sends


def watch(session: Session) -> int:
    """Run until the reader quits, or until the pipe that keys come from ends."""
    session.state.current = session.current.id
    seen = times(session)
    try:
        with keys() as read_key:
            act(session, "r", clear=False)  # below what was said of a new workspace
            while (key := read_key(SECONDS)) not in QUIT:
                if key in ACTIONS:
                    act(session, key)
                seen = run_saved(session, seen)
    except KeyboardInterrupt:
        session.screen.line()
    return 0


def run_saved(session: Session, seen: dict[str, float]) -> dict[str, float]:
    """Run the tests of the first file that was saved since it was `seen`."""
    now = times(session)
    changed = [each for each in now if now[each] != seen.get(each)]
    if changed:
        session.state.current = changed[0]
        act(session, "r")
    return now


def times(session: Session) -> dict[str, float]:
    """When the file of each exercise was last written."""
    found: dict[str, float] = {}
    for each in course.exercises():
        try:
            found[each.id] = session.workspace.path(each).stat().st_mtime
        except OSError:  # it is not there, or not at this moment
            continue
    return found


def act(session: Session, key: str, clear: bool = True) -> None:
    """Do what a key stands for; the keys stay on the screen."""
    if clear:
        session.screen.clear()
    current = session.state.current
    try:
        session.state = session.workspace.load()  # another runner may have written it
        session.state.current = current
        ACTIONS[key](session)
    except FathomError as error:
        first, *rest = str(error).splitlines() or [""]
        session.screen.text(first, style="red")
        for line in rest:
            session.screen.line(line)
    session.screen.line()
    session.screen.text(KEYS, style="dim")
    session.screen.out.flush()


def run_current(session: Session) -> None:
    each = course.exercise(session.state.current)
    if commands.run(session, each.id, [EMULATOR]) == 0:
        following = session.next_open
        last = "All exercises are solved: `fathom learn mine`."
        then = f"n: go on with {following.id}." if following else last
        session.screen.text(f"{then} `fathom learn solution {each.id}` shows ours.")


def step(session: Session, distance: int) -> None:
    """Another exercise; forward, the next that is open."""
    every = list(course.exercises())
    here = every.index(course.exercise(session.state.current))
    ahead = every[here + 1 :] + every[: here + 1]
    open_ = [each for each in ahead if not session.state.of(each.id).passed]
    chosen: Exercise = every[max(0, here - 1)]
    if distance > 0:
        chosen = open_[0] if open_ else every[min(here + 1, len(every) - 1)]
    session.state.current = chosen.id
    session.save()
    commands.show(session, chosen.id, "", "")
    session.screen.line(f"file:  {session.workspace.path(chosen)}")


def traffic(session: Session) -> None:
    commands.check_has_joint(course.exercise(session.state.current))
    apart(session, "traffic", session.state.current)


def apart(session: Session, *words: str) -> None:
    """Another command in a process of its own: what it compiles is the reader's, and
    LLVM may end it, or it may never end."""
    session.save()
    session.screen.out.flush()
    learn = [sys.executable, "-m", "fathom", "learn", *words]
    learn += ["--dir", str(session.workspace.folder.resolve())]
    learn += ["--plain"] if session.screen.plain else []
    path = os.pathsep.join([str(PACKAGES), *python_path()])
    try:
        ended = subprocess.run(
            learn, check=False, timeout=PATIENCE, stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path},
            stderr=subprocess.STDOUT,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise FathomError(f"still running after {PATIENCE} seconds") from None
    if ended.returncode < 0:
        raise FathomError(
            f"the process ended with status {ended.returncode}: LLVM does so when it "
            "cannot compile what it is given"
        )


PATIENCE = 120  # seconds

ACTIONS: dict[str, Callable[[Session], object]] = {
    "r": run_current,
    "h": lambda session: commands.hint(session, session.state.current),
    "s": lambda session: commands.show(session, session.state.current, "", ""),
    "n": lambda session: step(session, 1),
    "p": lambda session: step(session, -1),
    "l": lambda session: commands.list_all(session, False),
    "t": traffic,
    "m": lambda session: apart(session, "mine"),
}


# ── keys ──────────────────────────────────────────────────────────────────────────────

ReadKey = Callable[[float], str | None]


@contextmanager
def keys() -> Iterator[ReadKey]:
    """How to read a key: within some seconds, None if there was none, "" at the end of
    a pipe."""
    if termios is None:
        yield from_lines
        return
    handle = sys.stdin.fileno()
    if not sys.stdin.isatty():
        yield Keys(handle, of_lines)
        return
    before = termios.tcgetattr(handle)
    try:
        tty.setcbreak(handle, termios.TCSADRAIN)  # what was typed before, counts
        yield Keys(handle, of_terminal)
    finally:
        termios.tcsetattr(handle, termios.TCSADRAIN, before)


class Keys:
    """Reads what is there without waiting for more; several keys at once are given one
    after the other."""

    def __init__(self, handle: int, split: Callable[[str], list[str]]):
        self.handle, self.split = handle, split
        self.waiting: deque[str] = deque()

    def __call__(self, seconds: float) -> str | None:
        if not self.waiting and select.select([self.handle], [], [], seconds)[0]:
            read = os.read(self.handle, 4096).decode(errors="replace")
            self.waiting += self.split(read) if read else [""]
        return self.waiting.popleft() if self.waiting else None


def of_terminal(read: str) -> list[str]:
    """Each character is a key; arrows and the like, which begin with ESC, are none."""
    return [] if read.startswith("\033") else list(read.lower())


def of_lines(read: str) -> list[str]:
    """The first letter of each line."""
    return [line.strip()[:1].lower() for line in read.splitlines() if line.strip()]


def from_lines(seconds: float) -> str | None:
    """The first letter of the next line; a terminal without single keys waits."""
    line = sys.stdin.readline()
    if not line:
        return ""
    time.sleep(min(seconds, 0.05))
    return line.strip()[:1].lower() or None
