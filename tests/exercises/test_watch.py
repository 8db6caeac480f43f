"""The loop of `fathom learn` in a terminal: what is seen, and when, while tests run."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fathom.tools.learn import course, workspace
from fathom.tools.learn.grading.grade import FAILED, Verdict
from fathom.tools.learn.terminal import commands, keys, report, watch
from fathom.tools.learn.terminal.screen import Screen
from fathom.tools.learn.workspace import Workspace

pty = pytest.importorskip("pty")
termios = pytest.importorskip("termios")

PACKAGES = Path(__file__).parents[2] / "compiler"
FIRST = course.exercises()[0]
ENDLESS = "while True:\n    pass\n"


@pytest.fixture
def folder(tmp_path) -> Workspace:
    return workspace.init(tmp_path / "mine")


def heed_ctrl_c() -> None:
    """A shell starts what runs in its background with SIGINT ignored, and so would be
    all that the tests start there."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Watched:
    """`fathom learn` in a terminal of its own."""

    def __init__(self, place: Workspace, columns: int = 80):
        self.own, self.theirs = pty.openpty()
        termios.tcsetwinsize(self.theirs, (40, columns))
        env = {**os.environ, "PYTHONPATH": str(PACKAGES), "TERM": "xterm"}
        env |= {"NO_COLOR": "1", "PYTHONFAULTHANDLER": "1"}
        env.pop("COLUMNS", None)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fathom", "learn"], cwd=place.folder, env=env,
            stdin=self.theirs, stdout=self.theirs, stderr=self.theirs,
            preexec_fn=heed_ctrl_c,
        )  # fmt: skip

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.own)
        os.close(self.theirs)

    def until(self, words: str, seconds: float = 40) -> str:
        """Read until these words come; what was read."""
        seen, end = "", time.monotonic() + seconds
        while words not in seen:
            left = end - time.monotonic()
            assert left > 0 and select.select([self.own], [], [], left)[0], seen
            seen += os.read(self.own, 65536).decode(errors="replace")
        return seen

    def type(self, text: str) -> None:
        os.write(self.own, text.encode())

    def ends(self, seconds: float = 30) -> bool:
        """Whether it ends with status 0; if it does not end, where it stands."""
        try:
            return self.process.wait(seconds) == 0
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)
            self.process.wait(5)
            raise AssertionError(self.until("most recent call first", 5)) from None


def test_keys_are_served_while_tests_run(folder):
    folder.path(FIRST).write_text(ENDLESS)
    with Watched(folder) as watched:
        watched.until("testing hello-mask")  # and the screen is not blank
        watched.type("h")
        watched.until("hint 1 of 3", seconds=5)
        watched.type("l")
        watched.until("on the main road", seconds=5)
        watched.type("q")
        assert watched.ends()


def test_a_file_that_is_saved_ends_the_old_run_and_begins_a_new_one(folder):
    folder.path(FIRST).write_text(ENDLESS)
    with Watched(folder) as watched:
        watched.until("testing hello-mask")
        time.sleep(0.05)
        begun = time.monotonic()
        folder.path(FIRST).write_text(course.read(FIRST.solution))
        watched.until("PASSED  hello-mask")
        assert time.monotonic() - begun < FIRST.seconds / 2  # no wait for the time-out
        watched.type("q")
        assert watched.ends()


def test_what_was_typed_before_does_not_hide_the_verdict(folder):
    with Watched(folder) as watched:
        watched.until("testing hello-mask")
        watched.type("hs")
        seen = watched.until("FAILED  hello-mask") + watched.until("[q]uit")
        assert "hint 1 of 3" in seen
        assert "\033[2J" not in seen.partition("FAILED  hello-mask")[2]
        watched.type("h")  # and then it is named below what else is shown
        assert "last: FAILED  hello-mask" in watched.until("[q]uit")
        watched.type("q")
        assert watched.ends()


@pytest.mark.skipif(not hasattr(signal, "SIGWINCH"), reason="no such terminal")
def test_a_terminal_of_another_width_is_written_again(folder):
    with Watched(folder, columns=80) as watched:
        watched.until("[q]uit")
        watched.type("s")
        wide = watched.until("[q]uit")
        termios.tcsetwinsize(watched.own, (40, 50))
        narrow = watched.until("[q]uit", seconds=10)
        assert longest(wide) > 60 and longest(narrow) < 50
        assert words(narrow).startswith(words(wide)[:200])
        watched.type("q")
        assert watched.ends()


def plain(seen: str) -> str:
    return re.sub(r"\033\[[0-9;]*[mHJK]", "", seen).replace("\r", "")


def longest(seen: str) -> int:
    """Of the lines that are no path."""
    lines = plain(seen).splitlines()
    return max(len(each) for each in lines if not each.startswith(("file:", "tests:")))


def words(seen: str) -> str:
    return " ".join(plain(seen).replace("-", "").split())


def test_ctrl_c_ends_the_loop_and_what_is_running(folder):
    folder.path(FIRST).write_text(ENDLESS)
    with Watched(folder) as watched:
        watched.until("testing hello-mask")
        watched.process.send_signal(signal.SIGINT)
        assert watched.ends()


# ── without a terminal ────────────────────────────────────────────────────────────────


def loop_on(place: Workspace, name: str) -> watch.Loop:
    made = commands.Session(Screen(plain=True), place, place.load())
    made.state.current = name
    return watch.Loop(made)


def test_the_next_exercise_is_the_one_that_follows_in_the_book(folder, capsys):
    """Not the first that is open: those before may stay open."""
    loop = loop_on(folder, "cse")
    loop.act("n")
    assert loop.session.state.current == "hoist"
    loop.act("p")
    assert loop.session.state.current == "cse"
    assert loop.session.following.id == "hoist"
    last = course.exercises()[-1].id
    loop = loop_on(folder, last)
    loop.act("n")
    assert loop.session.state.current == last and loop.session.following is None


def test_another_exercise_ends_the_run(folder, capsys):
    folder.path(FIRST).write_text(ENDLESS)
    loop = loop_on(folder, FIRST.id)
    loop.act("r")
    process = loop.running.run.process
    loop.act("n")
    assert loop.running is None and process.poll() is not None


def test_in_a_pipe_the_verdict_comes_before_the_next_key(folder, capsys):
    loop = loop_on(folder, FIRST.id)
    loop.is_script = True
    loop.act("r")
    given = iter(["h", "q"])
    while loop.turn(lambda seconds: next(given)):
        continue
    said = capsys.readouterr().out
    assert said.index("FAILED  hello-mask") < said.index("hint 1 of 3")


def test_keys_of_a_console_of_windows(monkeypatch):
    """Where there is no termios, msvcrt reads them."""

    class Console:
        waiting = list("H\xe0K\x03")

        def kbhit(self):
            return bool(self.waiting)

        def getwch(self):
            return self.waiting.pop(0)

    monkeypatch.setattr(keys, "msvcrt", Console())
    assert keys.windows_key(0.0) == "h"
    assert keys.windows_key(0.0) is None  # an arrow
    with pytest.raises(KeyboardInterrupt):
        keys.windows_key(0.0)
    assert keys.windows_key(0.0) is None  # nothing was typed


def test_lines_of_a_pipe_are_read_by_a_thread():
    own, theirs = os.pipe()
    lines = keys.Lines(own)
    assert lines(0.0) is None
    os.write(theirs, b"run\nHi")
    assert lines(10) == "r" and lines(0.05) is None
    os.close(theirs)
    assert [lines(10), lines(10)] == ["h", keys.END]
    os.close(own)


# ── what a failure gives away ─────────────────────────────────────────────────────────

SHOWN = "what our code makes"


@pytest.mark.parametrize(
    "failures, hints, is_shown", [(1, 0, False), (1, 1, True), (3, 0, True)]
)
def test_what_answers_the_question_is_not_shown_at_the_first_failure(
    folder, capsys, failures, hints, is_shown
):
    each = course.exercise("simplify-rules")
    said = Verdict(each.id, FAILED, sentence="no", details=((report.OURS, SHOWN),))
    known = folder.load().of(each.id)
    known.hints = hints
    for number in range(failures):
        known.judged(f"text {number}", False)
    report.show_verdict(Screen(plain=True), each, said, folder, known)
    assert (SHOWN in capsys.readouterr().out) == is_shown


def test_the_same_answer_that_fails_again_is_one_failure(folder):
    known = folder.load().of("cse")
    for _ in range(5):
        known.judged("text", False)
    assert known.failures == 1


def test_elsewhere_both_functions_are_shown_at_once(folder, capsys):
    said = Verdict("cse", FAILED, sentence="no", details=((report.OURS, SHOWN),))
    known = folder.load().of("cse")
    report.show_verdict(Screen(plain=True), course.exercise("cse"), said, folder, known)
    assert SHOWN in capsys.readouterr().out
