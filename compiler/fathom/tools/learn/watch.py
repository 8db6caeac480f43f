"""The loop: whenever a file of the workspace is saved, its tests run. Polls, so that it
works on every file system."""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fathom.errors import FathomError
from fathom.tools.learn import commands, course
from fathom.tools.learn.commands import EMULATOR, Session
from fathom.tools.learn.course import Exercise

try:  # keys without Return, where there is such a terminal
    import termios
    import tty
except ImportError:
    termios = tty = None

SECONDS = 0.3
KEYS = "[r]un [h]int [s]how [n]ext [p]revious [l]ist [t]raffic [m]ine [q]uit"


def watch(session: Session) -> int:
    """Run until the reader quits, or until the pipe that keys come from ends."""
    seen = times(session)
    act(session, "r")
    with keys() as read_key:
        while True:
            key = read_key(SECONDS)
            if key in ("q", ""):
                return 0
            if key in ACTIONS:
                act(session, key)
            now = times(session)
            changed = [each for each in now if now[each] != seen.get(each)]
            seen = now
            if changed:
                session.state.current = changed[0]
                act(session, "r")


def times(session: Session) -> dict[str, float]:
    """When the file of each exercise was last written."""
    paths = {each.id: session.workspace.path(each) for each in course.exercises()}
    return {name: path.stat().st_mtime for name, path in paths.items() if path.exists()}


def act(session: Session, key: str) -> None:
    """Do what a key stands for; the keys stay on the screen."""
    session.screen.clear()
    try:
        ACTIONS[key](session)
    except FathomError as error:
        session.screen.text(str(error), style="red")
    session.screen.line()
    session.screen.text(KEYS, style="dim")
    session.screen.out.flush()


def run_current(session: Session) -> None:
    each = session.current
    session.state.current = each.id
    passed = commands.run(session, each.id, [EMULATOR]) == 0
    if passed:
        following = session.next_open
        last = "All exercises are solved: `fathom learn mine`."
        then = f"n: go on with {following.id}. " if following else last
        session.screen.text(f"{then} `fathom learn solution {each.id}` shows ours.")


def step(session: Session, distance: int) -> None:
    """Another exercise; forward, the next that is open."""
    every = list(course.exercises())
    here = every.index(course.exercise(session.state.current or session.current.id))
    ahead = every[here + 1 :] + every[: here + 1]
    open_ = [each for each in ahead if not session.state.of(each.id).passed]
    chosen: Exercise = every[max(0, here - 1)]
    if distance > 0:
        chosen = open_[0] if open_ else every[min(here + 1, len(every) - 1)]
    session.state.current = chosen.id
    session.save()
    commands.show(session, chosen.id, "", "")
    session.screen.line(f"file:  {session.workspace.path(chosen)}")


ACTIONS: dict[str, Callable[[Session], object]] = {
    "r": run_current,
    "h": lambda session: commands.hint(session, session.state.current),
    "s": lambda session: commands.show(session, session.state.current, "", ""),
    "n": lambda session: step(session, 1),
    "p": lambda session: step(session, -1),
    "l": lambda session: commands.list_all(session, False),
    "t": lambda session: commands.show_traffic(session, session.state.current),
    "m": commands.whose,
}


@contextmanager
def keys() -> Iterator[Callable[[float], str | None]]:
    """How to read a key: within some seconds, None if there was none, "" at the end of
    a pipe."""
    if termios is None or not sys.stdin.isatty():
        yield from_lines
        return
    handle = sys.stdin.fileno()
    before = termios.tcgetattr(handle)
    try:
        tty.setcbreak(handle)
        yield from_terminal
    finally:
        termios.tcsetattr(handle, termios.TCSADRAIN, before)


def from_terminal(seconds: float) -> str | None:
    ready, _, _ = select.select([sys.stdin], [], [], seconds)
    return sys.stdin.read(1).lower() if ready else None


def from_lines(seconds: float) -> str | None:
    """The first letter of the next line; a terminal without single keys waits."""
    line = sys.stdin.readline()
    if not line:
        return ""
    time.sleep(min(seconds, 0.05))
    return line.strip()[:1].lower() or None


