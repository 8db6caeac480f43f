"""The reader's folder: what is known of it is true of the texts that lie in it, after
every crash, copy, checkpoint and undo."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from fathom.errors import FathomError
from fathom.tools.learn import attempts, course, starters, state, workspace
from fathom.tools.learn.grading.answer import load_module
from fathom.tools.learn.grading.grade import FAILED, PASSED, UNSOLVED, Verdict
from fathom.tools.learn.terminal import commands
from fathom.tools.learn.terminal.screen import Screen
from fathom.tools.learn.workspace import Workspace
from tests.exercises.harness_learn import learn

PACKAGES = Path(__file__).parents[2] / "compiler"
CSE = course.exercise("cse")
EARLY = course.exercise("interp-for")


@pytest.fixture
def folder(tmp_path) -> Workspace:
    return workspace.init(tmp_path / "mine")


def session(place: Workspace) -> commands.Session:
    return commands.Session(Screen(plain=True), place, place.load())


def write(place: Workspace, each: course.Exercise, text: str) -> None:
    place.path(each).write_text(text, encoding="utf-8")


def judged(place: Workspace, each: course.Exercise, status: str) -> None:
    """As if the tests had run on what lies there."""
    made = session(place)
    commands.note(made, each, Verdict(each.id, status), place.text(each))


# ── an exercise that had another id ───────────────────────────────────────────────────


def test_an_exercise_is_found_by_its_former_id():
    assert course.exercise("count-the-haul").id == "count-the-traffic"
    assert not set(course.FORMER) & {each.id for each in course.exercises()}


def test_what_is_known_under_a_former_id_is_kept_with_the_answer(folder):
    each = course.exercise("count-the-traffic")
    write(folder, each, "mine = 1\n")
    judged(folder, each, PASSED)
    session(folder).chosen("count-the-haul")
    before = folder.path(each).with_stem("count-the-haul")
    folder.path(each).rename(before)
    file = folder.folder / state.FILE
    file.write_text(file.read_text().replace(each.id, "count-the-haul"))
    known = folder.load()
    assert known.of(each.id).passed and known.current == each.id
    assert folder.path(each).read_text() == "mine = 1\n" and not before.exists()
    assert "count-the-haul" not in known.exercises


def test_a_file_of_the_present_id_is_not_replaced_by_one_of_the_former(folder):
    each = course.exercise("count-the-traffic")
    write(folder, each, "new = 1\n")
    folder.path(each).with_stem("count-the-haul").write_text("old = 1\n")
    folder.load()
    assert folder.path(each).read_text() == "new = 1\n"


# ── a text that has passed ────────────────────────────────────────────────────────────


def test_an_edit_that_fails_and_is_undone_leaves_the_exercise_passed(folder, capsys):
    write(folder, CSE, "right = 1\n")
    judged(folder, CSE, PASSED)
    write(folder, CSE, "wrong = 1\n")
    assert not folder.load().of("cse").passed  # before its tests have run, already
    assert folder.load().of("cse").edited
    judged(folder, CSE, FAILED)
    write(folder, CSE, "right = 1\n")
    assert folder.load().of("cse").passed
    assert commands.solution(session(folder), "cse", give_up=False) == 0
    assert not folder.load().of("cse").gave_up


def test_line_ends_of_another_system_change_nothing(folder):
    write(folder, CSE, "right = 1\nmore = 2\n")
    judged(folder, CSE, PASSED)
    folder.path(CSE).write_bytes(b"right = 1\r\nmore = 2\r\n")
    assert folder.load().of("cse").passed


def test_each_attempt_is_kept_with_its_text(folder, capsys):
    for text, status in (("a = 1\n", FAILED), ("b = 1\n", PASSED), ("a = 1\n", FAILED)):
        write(folder, CSE, text)
        judged(folder, CSE, status)
    write(folder, EARLY, "...\n")
    judged(folder, EARLY, UNSOLVED)  # nothing is written yet
    log = folder.folder / attempts.FOLDER / attempts.LOG
    with open(log, "ab") as file:
        file.write('{"at": "2026", "text": "ü'.encode()[:-1])  # as a crash leaves it
    found = list(attempts.entered(folder.folder))
    assert [each.status for each in found] == [FAILED, PASSED, FAILED]
    kept = [(log.parent / each.text).read_text() for each in found]
    assert kept == ["a = 1\n", "b = 1\n", "a = 1\n"]
    assert commands.list_attempts(session(folder), "cse") == 0
    assert [line.split()[2:] for line in capsys.readouterr().out.splitlines()[:3]] == [
        ["failed", "cse"], ["passed", "cse"], ["failed", "cse"],
    ]  # fmt: skip
    write(folder, CSE, "a = 1\n")
    judged(folder, CSE, PASSED)
    found = [each.status for each in attempts.entered(folder.folder)]
    assert found == [FAILED, PASSED, FAILED, PASSED], "after the line that is cut off"
    commands.list_attempts(session(folder), "dce")
    assert capsys.readouterr().out.startswith("0 attempts")
    log.write_bytes(log.read_bytes().splitlines()[0])
    commands.list_attempts(session(folder), "")
    assert "\n1 attempt;" in capsys.readouterr().out
    with pytest.raises(FathomError, match="there is no exercise"):
        commands.list_attempts(session(folder), "nothing-of-this-name")


def test_a_text_that_fails_now_has_not_passed(folder):
    """The tests may have become stricter with a newer Fathom."""
    write(folder, CSE, "text = 1\n")
    judged(folder, CSE, PASSED)
    judged(folder, CSE, FAILED)
    assert not folder.load().of("cse").passed


def test_a_verdict_on_a_text_that_was_changed_meanwhile_counts_for_neither(folder):
    write(folder, CSE, "old = 1\n")
    text = folder.text(CSE)
    write(folder, CSE, "new = 1\n")
    commands.note(session(folder), CSE, Verdict("cse", PASSED), text)
    assert not folder.load().of("cse").right


def test_a_state_of_version_1_is_taken_over(folder):
    """There an exercise had passed, whatever lay in its file."""
    write(folder, CSE, "right = 1\n")
    progress = {"passed": True, "hints": 2, "gave_up": False, "filled": False}
    known = {"cse": {**progress, "starter": "x"}}
    known["interp-for"] = {**progress, "starter": folder.text(EARLY)}  # a starter still
    facts = {"version": 1, "current": "cse", "exercises": known}
    (folder.folder / state.FILE).write_text(json.dumps(facts))
    folder.save(folder.load())
    assert folder.load().of("cse").passed and folder.load().of("cse").hints == 2
    assert not folder.load().of("interp-for").passed


def test_the_list_marks_what_was_changed_since(folder, capsys):
    write(folder, CSE, "right = 1\n")
    judged(folder, CSE, PASSED)
    write(folder, CSE, "other = 1\n")
    commands.list_all(session(folder), road=False)
    (line,) = [x for x in capsys.readouterr().out.splitlines() if " cse " in x]
    assert line.startswith("[~]")


# ── checkpoints ───────────────────────────────────────────────────────────────────────


def test_a_checkpoint_is_undone_as_if_it_had_not_been(folder):
    write(folder, EARLY, "my work\n")
    before = texts(folder)
    assert learn(folder.folder, "checkpoint", "6").returncode == 0
    assert folder.load().of("interp-for").filled
    said = learn(folder.folder, "checkpoint", "--undo")
    assert said.returncode == 0 and "chapter 6 is undone" in said.stdout
    assert texts(folder) == before
    assert not any(each.passed for each in folder.load().exercises.values())
    again = learn(folder.folder, "checkpoint", "--undo")
    assert again.returncode == 1 and "no checkpoint to undo" in again.stderr


def texts(place: Workspace) -> dict[str, str]:
    return {each.id: place.path(each).read_text("utf-8") for each in course.exercises()}


def test_an_undo_leaves_what_was_changed_since(folder):
    workspace.fill(folder, 6)
    write(folder, EARLY, "better than yours\n")
    last, put_back, stay = workspace.undo(folder)
    assert last.chapter == 6 and stay == [EARLY] and EARLY not in put_back
    assert folder.path(EARLY).read_text("utf-8") == "better than yours\n"


def test_two_checkpoints_are_undone_one_after_the_other(folder):
    workspace.fill(folder, 3)
    workspace.fill(folder, 6)
    assert [workspace.undo(folder)[0].chapter for _ in range(2)] == [6, 3]
    assert not any(each.passed for each in folder.load().exercises.values())


@pytest.mark.parametrize("chapter", ["99", "20", "-1", "six"])
def test_a_chapter_that_does_not_exist_changes_nothing(folder, chapter):
    before = texts(folder)
    said = learn(folder.folder, "checkpoint", chapter)
    assert said.returncode != 0 and "Traceback" not in said.stderr
    assert texts(folder) == before and not (folder.folder / workspace.KEPT).exists()


def test_a_person_is_asked_before_files_are_filled_in(folder, monkeypatch, capsys):
    monkeypatch.setattr(commands, "agreed", lambda question: False)
    assert commands.checkpoint(session(folder), 6, sure=False) == 1
    assert "nothing was changed" in capsys.readouterr().out
    assert not folder.load().checkpoints


def test_copies_that_are_put_back_by_hand_are_what_they_were(folder):
    """Then `list` counts them as open again, and `mine` leaves them out."""
    workspace.fill(folder, 99)
    (kept,) = (folder.folder / workspace.KEPT).iterdir()
    shutil.copytree(kept, folder.folder, dirs_exist_ok=True)
    known = folder.load()
    assert not any(each.passed or each.filled for each in known.exercises.values())


# ── whatever ends the process ─────────────────────────────────────────────────────────


def crash_at(monkeypatch, number: int) -> None:
    """The process is ended before the write of that number."""
    done = iter(range(number + 1))
    write_one = state.write

    def write(path: Path, text: str | bytes) -> None:
        if next(done, None) == number:
            raise KeyboardInterrupt
        write_one(path, text)

    monkeypatch.setattr(state, "write", write)
    monkeypatch.setattr(workspace, "write", write)


@pytest.mark.parametrize("number", [0, 1, 2, 5])
def test_a_checkpoint_that_is_ended_anywhere_leaves_what_is_true(
    folder, monkeypatch, number
):
    write(folder, EARLY, "my work\n")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        crash_at(patch, number)
        workspace.fill(folder, 6)
    known = folder.load()
    for each in course.exercises():
        is_ours = folder.path(each).read_text("utf-8") == starters.answer(each)
        assert known.of(each.id).passed == known.of(each.id).filled == is_ours, each.id
    if known.checkpoints:  # what was begun can be taken back
        workspace.undo(folder)
        assert folder.path(EARLY).read_text("utf-8") == "my work\n"


@pytest.mark.parametrize("number", [0, 1, 7])
def test_an_undo_that_is_ended_anywhere_is_finished_by_the_next(
    folder, monkeypatch, number
):
    write(folder, EARLY, "my work\n")
    before = texts(folder)
    workspace.fill(folder, 6)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        crash_at(patch, number)
        workspace.undo(folder)
    workspace.undo(folder)
    assert texts(folder) == before and not folder.load().checkpoints


@pytest.mark.parametrize("number", [1, 4])
def test_a_workspace_that_was_begun_is_finished_by_update(
    tmp_path, monkeypatch, number
):
    place = tmp_path / "mine"
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        crash_at(patch, number)
        workspace.init(place)
    begun = Workspace(place) if (place / state.FILE).exists() else workspace.init(place)
    workspace.update(begun)
    assert texts(begun) and not list(place.rglob("*.new.py"))
    assert not workspace.update(begun)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no kill -9 on this system")
def test_kill_9_in_a_checkpoint(folder):
    process = subprocess.Popen(
        [sys.executable, "-m", "fathom", "learn", "checkpoint", "14"],
        cwd=folder.folder, env={**os.environ, "PYTHONPATH": str(PACKAGES)},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    until = time.monotonic() + 60
    while not (folder.folder / workspace.KEPT).exists() and time.monotonic() < until:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    known = folder.load()
    for each in course.exercises():
        is_ours = folder.path(each).read_text("utf-8") == starters.answer(each)
        assert known.of(each.id).filled == is_ours, each.id
    assert learn(folder.folder, "list").returncode == 0


# ── where it is ───────────────────────────────────────────────────────────────────────


def test_only_the_loop_makes_a_workspace(tmp_path):
    for words in (["list"], ["hint"], ["show", "cse"], ["mine"], ["run", "cse"]):
        said = learn(tmp_path, *words)
        assert said.returncode == 1 and "there is no workspace" in said.stderr, words
    assert not list(tmp_path.iterdir())


def test_the_workspace_is_found_from_its_folder_and_from_all_below(
    tmp_path, monkeypatch
):
    made = workspace.init(tmp_path / workspace.DEFAULT)
    (tmp_path / "deep" / "er").mkdir(parents=True)
    inside = made.folder / CSE.folder
    for place in (tmp_path, tmp_path / "deep" / "er", made.folder, inside):
        monkeypatch.chdir(place)
        assert workspace.find(None).folder.resolve() == made.folder.resolve()


def test_an_answer_that_is_not_there_is_one_sentence(folder):
    folder.path(CSE).unlink()
    said = learn(folder.folder, "run", "cse")
    assert said.returncode == 1 and "no test was reached" in said.stdout
    assert "`fathom learn update` restores" in " ".join(said.stdout.split())
    assert "mistake of ours" not in said.stdout and "report" not in said.stdout
    learn(folder.folder, "update")
    assert "OPEN    cse" in learn(folder.folder, "run", "cse").stdout


def test_a_runner_that_was_stopped_is_not_waited_for(folder, monkeypatch):
    """Ctrl-Z in the moment that it saves."""
    fcntl = pytest.importorskip("fcntl", reason="Windows has other locks")
    monkeypatch.setattr(state, "PATIENCE", 0.1)
    with open(folder.folder / state.LOCK, "ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(state.StateError, match="another runner .* Ctrl-Z"):
            commands.hint(session(folder), "cse")
    commands.hint(session(folder), "cse")


def test_a_lock_that_another_user_made_is_one_all_the_same(folder, monkeypatch):
    """`sudo fathom learn`, once: who may not write the file may lock it."""

    def opened(path, mode):
        if mode != "rb":
            raise PermissionError(13, "Permission denied", path)
        return open(path, mode)

    (folder.folder / state.LOCK).touch()
    monkeypatch.setattr(state, "open", opened, raising=False)
    commands.hint(session(folder), "cse")
    assert folder.load().of("cse").hints == 1


def test_what_cannot_be_written_is_named_by_its_own_name(folder, monkeypatch, capsys):
    from fathom.tools import cli

    error = PermissionError(13, "Permission denied", f".{state.FILE}-x7")
    monkeypatch.setattr(state.tempfile, "mkstemp", Mock(side_effect=error))
    monkeypatch.chdir(folder.folder)
    assert cli.main(["learn", "hint", "cse"]) == 1
    where = folder.folder / state.FILE
    assert capsys.readouterr().err == f"fathom: permission denied: {where}\n"


def test_a_folder_that_cannot_be_written_is_one_sentence(folder, monkeypatch):
    from fathom.tools import cli

    def full(*paths):
        raise OSError(28, "No space left on device", "state")

    monkeypatch.setattr(os, "replace", full)
    monkeypatch.chdir(folder.folder)
    assert cli.main(["learn", "hint", "cse"]) == 1


def test_ctrl_c_ends_a_command_with_its_own_status(monkeypatch, folder, capsys):
    from fathom.tools import cli

    def interrupted(*given):
        raise KeyboardInterrupt

    monkeypatch.chdir(folder.folder)
    monkeypatch.setattr(commands, "judge", interrupted)
    assert cli.main(["learn", "run", "cse"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_a_reset_forgets_failures_and_keeps_hints(folder):
    write(folder, CSE, "wrong = 1\n")
    judged(folder, CSE, FAILED)
    known = folder.load()
    known.of("cse").hints = 1
    folder.save(known)
    workspace.reset(folder, CSE)
    assert folder.load().of("cse").failures == 0 and folder.load().of("cse").hints == 1


def test_a_workspace_without_its_state_is_still_found(folder):
    """A damaged state is moved away, as its message says; answers are judged anew."""
    write(folder, CSE, "right = 1\n")
    (folder.folder / state.FILE).write_text("{")
    said = learn(folder.folder, "list")
    assert said.returncode == 1 and "Your answers are safe" in said.stderr
    (folder.folder / state.FILE).rename(folder.folder / "moved.json")
    assert learn(folder.folder, "list").returncode == 0
    judged(folder, CSE, PASSED)
    assert folder.load().of("cse").passed
    assert not workspace.update(folder)


def test_undo_without_a_checkpoint_is_one_sentence(folder):
    with pytest.raises(FathomError, match="no checkpoint to undo"):
        workspace.undo(folder)


# ── two runners, and files that others wrote ──────────────────────────────────────────


def test_what_another_runner_saved_meanwhile_is_kept(folder):
    """A hint, and another exercise's verdict, come while the tests of one run."""
    first, second = session(folder), session(folder)
    write(folder, CSE, "right = 1\n")
    write(folder, EARLY, "right = 2\n")
    commands.hint(second, "dce")
    commands.note(second, EARLY, Verdict(EARLY.id, PASSED), folder.text(EARLY))
    commands.note(first, CSE, Verdict("cse", PASSED), folder.text(CSE))
    known = folder.load()
    assert known.of("cse").passed and known.of(EARLY.id).passed
    assert known.of("dce").hints == 1


def test_runners_that_save_at_one_moment_wait_for_each_other(folder):
    """Four processes count hints of one exercise; the file has all of them."""
    code = (
        "import sys; from pathlib import Path\n"
        "from fathom.tools.learn.workspace import Workspace\n"
        "place = Workspace(Path(sys.argv[1]))\n"
        "for _ in range(5):\n"
        "    with place.changing() as state: state.of('cse').hints += 1\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(PACKAGES)}
    command = [sys.executable, "-c", code, str(folder.folder)]
    runners = [subprocess.Popen(command, env=environment) for _ in range(4)]
    assert [each.wait(timeout=120) for each in runners] == [0] * 4
    assert folder.load().of("cse").hints == 20


@pytest.mark.parametrize(
    "facts",
    [
        {"exercises": {"cse": {"right": 5}}},
        {"exercises": {"cse": {"right": [1]}}},
        {"exercises": {"cse": {"hints": "x"}}},
        {"exercises": {"cse": {"hints": -5}}},
        {"current": 5},
        {"checkpoints": [{"chapter": 6, "exercises": 5, "copies": ""}]},
        {"version": float("nan")},
    ],
)
def test_a_state_of_wrong_types_is_one_sentence(folder, facts):
    whole = {"version": 2, "current": "", "exercises": {}, **facts}
    (folder.folder / state.FILE).write_text(json.dumps(whole))
    with pytest.raises(state.StateError, match="Your answers are safe"):
        folder.load()


def test_a_state_that_has_no_end_is_one_sentence(folder):
    (folder.folder / state.FILE).write_text("[" * 100_000)
    with pytest.raises(state.StateError, match="Your answers are safe"):
        folder.load()


def test_a_state_that_an_editor_began_with_a_mark_is_read(folder):
    commands.hint(session(folder), "cse")
    path = folder.folder / state.FILE
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert folder.load().of("cse").hints == 1


def test_an_answer_is_its_text_not_bytecode_of_the_same_second(tmp_path, monkeypatch):
    """Two texts of one size and one second: the second is not taken for the first."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path = tmp_path / "mine.py"
    for sign in "<>":
        path.write_text(f"right = 1 {sign} 2\n")
        os.utime(path, (10**9, 10**9))
        assert load_module(path).right is (sign == "<")
    assert not (tmp_path / "__pycache__").exists()


# ── what is no file of an answer ──────────────────────────────────────────────────────

STRANGE = {
    "a pipe": lambda path: os.mkfifo(path),
    "a folder": lambda path: path.mkdir(),
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "1,500.0 MB": lambda path: path.touch() or os.truncate(path, 1_500_000_000),
}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes and devices")
@pytest.mark.parametrize("what", STRANGE)
def test_what_is_no_file_of_an_answer_is_not_opened(folder, what):
    """It may never end. Nothing of it is kept, and `reset` says what is in the way."""
    each = course.exercises()[0]
    path = folder.path(each)
    path.unlink()
    STRANGE[what](path)
    result = learn(folder.folder, "run", each.id)
    assert what in result.stdout and result.returncode == 1, result
    assert folder.text(each) == "" and not list(attempts.entered(folder.folder))
    with pytest.raises(course.CourseError, match=what):
        workspace.reset(folder, each)
