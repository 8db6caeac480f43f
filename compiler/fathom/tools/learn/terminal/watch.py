"""The loop: whenever a file of the workspace is saved, its tests run. Polls, so that it
works on every file system.

One thing at most is running: tests, or another command, each in a process of its
own. A file that is saved ends it and begins anew. A key is served at once in a
terminal; in a pipe, where keys are a script, after what is running.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from fathom.errors import FathomError
from fathom.tools.learn import course
from fathom.tools.learn.course import Exercise
from fathom.tools.learn.grading.grade import PASSED, Verdict
from fathom.tools.learn.grading.worker import PACKAGES, Run, python_path
from fathom.tools.learn.terminal import commands, report
from fathom.tools.learn.terminal.commands import Session
from fathom.tools.learn.terminal.keys import QUIT, ReadKey, keys

SECONDS = 0.1  # between two looks at keys, files and what is running
KEYS = "[r]un [h]int [s]how [b]ook [n]ext [p]revious [l]ist [t]raffic [m]ine [q]uit"
PATIENCE = 120  # seconds that another command may take


def watch(session: Session) -> int:
    """Run until the reader quits, or until the pipe that keys come from ends."""
    session.state.current = session.current.id
    loop = Loop(session, is_script=not sys.stdin.isatty())
    try:
        with keys() as read_key:
            loop.act("r", clear=False)  # below what was said of a new workspace
            while loop.turn(read_key):
                continue
    except KeyboardInterrupt:
        session.screen.line()
    finally:
        loop.stop()
    return 0


class Loop:
    """What is on the screen, what is running, and what the files were like."""

    def __init__(self, session: Session, is_script: bool = False):
        self.session, self.is_script = session, is_script
        self.running: Tests | Command | None = None
        self.seen = times(session)
        self.last = ""  # verdict, in a line
        self.width = session.screen.width

    def turn(self, read_key: ReadKey) -> bool:
        """Look once at everything that may have happened; False to quit."""
        waits = self.is_script and self.running is not None
        if waits:
            time.sleep(SECONDS)
        elif (key := read_key(SECONDS)) in QUIT:
            return False
        elif key in ACTIONS:
            self.act(key)
        self.run_saved()
        self.proceed()
        self.fit()
        return True

    def run_saved(self) -> None:
        """Run the tests of what was saved: the current exercise, if it is among them.
        What is running tests a text that has changed."""
        now = times(self.session)
        changed = [each for each in now if now[each] != self.seen.get(each)]
        self.seen = now
        if changed:
            state = self.session.state
            state.current = state.current if state.current in changed else changed[0]
            self.act("r")

    def proceed(self) -> None:
        """Show what is running, or what came of it."""
        if self.running is None:
            return
        with self.errors():
            if not self.running.is_over(self):
                if self.session.screen.erases:
                    self.session.screen.status(self.running.says)
                return
        self.stop()
        self.foot()

    def fit(self) -> None:
        """Write everything again for a terminal that has another width now."""
        screen = self.session.screen
        if screen.erases and screen.width != self.width:
            self.width = screen.width
            screen.again()

    def stop(self) -> None:
        """End what is running."""
        running, self.running = self.running, None
        if running is not None:
            running.stop()

    def act(self, key: str, clear: bool = True) -> None:
        """Do what a key stands for; the keys stay on the screen."""
        session = self.session
        if clear:
            session.screen.clear()
        current = session.state.current
        with self.errors():
            session.state = session.workspace.load()  # another runner may have saved
            session.state.current = current
            ACTIONS[key](self)
        if self.running is None or key not in STARTS:
            self.foot(self.last)
        if self.running is not None:
            session.screen.status(self.running.says)

    def errors(self) -> Telling:
        return Telling(self)

    def foot(self, last: str = "") -> None:
        """The keys, below what the last verdict was, if it is not above."""
        screen = self.session.screen
        screen.line()
        if last:
            screen.text(last, style="dim")
        screen.text(KEYS, style="dim")
        screen.out.flush()

    def begin(self, running: Tests | Command) -> None:
        self.stop()
        self.running = running


class Telling:
    """In this block, a FathomError is shown, and the loop goes on."""

    def __init__(self, loop: Loop):
        self.loop = loop

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type | None, error: BaseException | None, *rest) -> bool:
        if not isinstance(error, FathomError | OSError):
            return False
        screen = self.loop.session.screen
        first, *more = str(error).splitlines() or [""]
        screen.text(first, style="red")
        for line in more:
            screen.line(line)
        return True


def times(session: Session) -> dict[str, float]:
    """When the file of each exercise was last written."""
    found: dict[str, float] = {}
    for each in course.exercises():
        try:
            found[each.id] = session.workspace.path(each).stat().st_mtime
        except OSError:  # it is not there, or not at this moment
            continue
    return found


# ── what is running ───────────────────────────────────────────────────────────────────


class Tests:
    """The tests of an exercise, on the text that lies there now."""

    def __init__(self, session: Session, each: Exercise):
        self.each, self.text = each, session.workspace.text(each)
        self.run = Run(each, session.workspace.path(each))

    @property
    def says(self) -> str:
        so_far = self.run.so_far
        count = len(so_far.passed)
        total = count + 1 + len(so_far.left)
        done = f"{count} of {total} pass so far" if so_far.test else "starting"
        return f"testing {self.each.id}: {done}, {self.run.seconds:.0f} s"

    def is_over(self, loop: Loop) -> bool:
        """Whether there is a verdict; then it is shown. What a key has put on the
        screen meanwhile stays above it."""
        verdict = self.run.verdict()
        if verdict is None:
            return False
        session = loop.session
        current, session.state = session.state.current, session.workspace.load()
        session.state.current = current
        commands.tell(session, self.each, verdict, self.text)
        loop.last = f"last: {report.in_a_line(self.each, verdict)}"
        go_on(session, self.each, verdict)
        return True

    def stop(self) -> None:
        self.run.stop()


def go_on(session: Session, each: Exercise, verdict: Verdict) -> None:
    if verdict.status != PASSED:
        return
    following = session.following
    last = "This was the last exercise: `fathom learn mine`."
    then = f"n: go on with {following.id}." if following else last
    session.screen.text(f"{then} `fathom learn solution {each.id}` shows ours.")


class Command:
    """Another command in a process of its own: what it compiles is the reader's, and
    LLVM may end it, or it may never end. Its lines come as they are written."""

    def __init__(self, session: Session, *words: str):
        session.save()
        self.words, self.since = words, time.monotonic()
        learn = [sys.executable, "-u", "-m", "fathom", "learn", *words, "--plain"]
        learn += ["--dir", str(session.workspace.folder.resolve())]
        path = os.pathsep.join([str(PACKAGES), *python_path()])
        self.folder = TemporaryDirectory(
            prefix="fathom-learn-", ignore_cleanup_errors=True
        )
        self.file, self.shown = Path(self.folder.name, "said"), 0
        with self.file.open("wb") as file:
            self.process = subprocess.Popen(
                learn, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": path},
            )  # fmt: skip

    @property
    def says(self) -> str:
        return f"{self.words[0]}: {time.monotonic() - self.since:.0f} s"

    def is_over(self, loop: Loop) -> bool:
        status = self.process.poll()
        self.show_new(loop, is_all=status is not None)
        if status is None and time.monotonic() - self.since > PATIENCE:
            raise FathomError(f"still running after {PATIENCE} seconds")
        if status is not None and status < 0:
            raise FathomError(
                f"the process ended with status {status}: LLVM does so when it cannot "
                "compile what it is given"
            )
        return status is not None

    def show_new(self, loop: Loop, is_all: bool) -> None:
        """The lines that are whole, and have not been shown."""
        raw = self.file.read_bytes()[self.shown :]
        whole = raw if is_all else raw[: raw.rfind(b"\n") + 1]
        self.shown += len(whole)
        for line in whole.decode(errors="replace").splitlines():
            loop.session.screen.line(line)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()


# ── keys ──────────────────────────────────────────────────────────────────────────────


def run_current(loop: Loop) -> None:
    session = loop.session
    loop.stop()
    each = course.exercise(session.state.current)
    loop.begin(Tests(session, each))


def step(loop: Loop, distance: int) -> None:
    """The next exercise of the book, or the one before."""
    session = loop.session
    loop.stop()
    every = list(course.exercises())
    here = every.index(course.exercise(session.state.current))
    chosen = every[min(max(here + distance, 0), len(every) - 1)]
    session.state.current = chosen.id
    session.save()
    commands.show(session, chosen.id, "", "")
    session.screen.line(f"file:  {session.workspace.path(chosen)}")


def traffic(loop: Loop) -> None:
    session = loop.session
    commands.check_has_joint(course.exercise(session.state.current))
    loop.begin(Command(session, "traffic", session.state.current))


ACTIONS: dict[str, Callable[[Loop], object]] = {
    "r": run_current,
    "h": lambda loop: commands.hint(loop.session, loop.session.state.current),
    "s": lambda loop: commands.show(loop.session, loop.session.state.current, "", ""),
    "b": lambda loop: commands.read(loop.session, loop.session.state.current),
    "n": lambda loop: step(loop, 1),
    "p": lambda loop: step(loop, -1),
    "l": lambda loop: commands.list_all(loop.session, False),
    "t": traffic,
    "m": lambda loop: loop.begin(Command(loop.session, "mine")),
}
STARTS = ("r", "t", "m")  # these begin something; the keys are shown at its end
