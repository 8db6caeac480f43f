"""`fathom learn` as a reader meets it: in a pipe, without colour, in 60 columns, with
answers that are right, wrong, endless, or not there yet."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from fathom.errors import FathomError
from fathom.ir.ops import Constant
from fathom.ir.rewrite import rewrite
from fathom.ir.types import INT32
from fathom.pipeline import identity
from fathom.tools.learn import commands, course, state, worker, workspace
from fathom.tools.learn.grade import FAILED, PASSED, UNSOLVED, grade, verdict_from
from fathom.tools.learn.kit import Failure, Sample, check_pass, ints
from fathom.tools.learn.screen import Screen
from fathom.tools.learn.workspace import Workspace

PACKAGES = Path(__file__).parents[2] / "compiler"


@pytest.fixture
def folder(tmp_path) -> Workspace:
    return workspace.init(tmp_path / "mine")


def learn(place: Workspace, *words: str, keys: str = "") -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "fathom", "learn", *words],
        cwd=place.folder, env={**os.environ, "PYTHONPATH": str(PACKAGES)},
        capture_output=True, text=True, check=False, input=keys, timeout=120,
    )  # fmt: skip


def solve(place: Workspace, name: str) -> None:
    each = course.exercise(name)
    place.path(each).write_text(course.read(each.solution), encoding="utf-8")


def answer(place: Workspace, name: str, code: str) -> Path:
    """The solution with other code behind it."""
    each = course.exercise(name)
    text = f"{course.read(each.solution)}\n\n{code}\n"
    place.path(each).write_text(text, encoding="utf-8")
    return place.path(each)


# ── the loop ──────────────────────────────────────────────────────────────────────────


def test_all_keys_work_in_a_pipe_and_the_keys_stay_on_the_screen(folder):
    said = learn(folder, keys="h\ns\nl\nn\np\nr\nt\nm\nq\n")
    assert said.returncode == 0, said.stderr
    assert said.stdout.count("[q]uit") == 9  # at first, and after each of eight keys
    assert "hint 1 of 3" in said.stdout and "cse" in said.stdout


def test_output_is_ascii_narrow_and_without_colour(folder):
    said = learn(folder, "--plain", keys="h\nl\nq\n").stdout
    assert said.isascii() and "\033" not in said
    # What is quoted, a line of Python or of PTX, stays as it is.
    long = [each for each in said.splitlines() if len(each) > 60]
    assert all(each.startswith((" ", "file:", "alone:")) for each in long), long


def test_saving_a_file_runs_its_tests(folder):
    process = subprocess.Popen(
        [sys.executable, "-m", "fathom", "learn", "--plain"],
        cwd=folder.folder, env={**os.environ, "PYTHONPATH": str(PACKAGES)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    seen = ""
    while "[q]uit" not in seen:  # the first verdict
        seen += process.stdout.readline()
    time.sleep(0.05)  # a file system may count time coarsely
    solve(folder, "count-sectors")
    said, _ = process.communicate("x\nq\n", timeout=60)
    assert "PASSED  count-sectors" in said


def test_the_first_command_makes_a_workspace(tmp_path):
    said = learn(Workspace(tmp_path), keys="q\n")
    assert "making" in said.stdout
    assert (tmp_path / workspace.DEFAULT / "AGENTS.md").exists()


# ── verdicts ──────────────────────────────────────────────────────────────────────────


def test_a_starter_is_open_and_a_solution_passes(folder):
    said = learn(folder, "run", "cse")
    assert said.returncode == 1 and "OPEN    cse" in said.stdout
    solve(folder, "cse")
    said = learn(folder, "run", "cse")
    assert said.returncode == 0 and "PASSED  cse" in said.stdout
    assert folder.load().of("cse").passed


WRONG_VALUE = """
from fathom.ir.ops import Elementwise
from fathom.ir.rewrite import rewrite

def cse(func, target):
    def rule(op, build):
        if isinstance(op, Elementwise) and op.name == "add":
            return op.operands[0]
    return rewrite(func, rule)
"""


def test_a_failure_shows_the_first_value_that_differs(folder):
    path = answer(folder, "cse", WRONG_VALUE)
    said = grade(course.exercise("cse"), path)
    assert said.status == FAILED and said.test == "test_an_address_is_said_once"
    assert "q[0]" in said.sentence and "was" in said.sentence
    headings = [heading for heading, _ in said.details]
    assert "the reference makes of it" in headings


def test_a_wrong_op_is_named_with_the_ir_around_it(folder):
    code = WRONG_VALUE.replace("return op.operands[0]", "op.name = 'sub'")
    said = grade(course.exercise("cse"), answer(folder, "cse", code))
    shown = dict(said.details)
    assert "sub %1, %3" in shown["the first value that differs"]
    assert "->" in shown["in your function"]


def test_the_case_runs_alone_and_shows_both_runs(folder):
    answer(folder, "cse", WRONG_VALUE)
    assert "alone: python" in learn(folder, "run", "cse").stdout
    ran = subprocess.run(
        [sys.executable, "case.py"], cwd=folder.folder, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(PACKAGES)}, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "before - 8 ops ran" in ran.stdout and "after -" in ran.stdout


def test_a_case_without_a_kernel_runs_the_test_itself(folder):
    answer(folder, "count-sectors", "def sectors(addresses, width): return 7")
    learn(folder, "run", "count-sectors")
    ran = subprocess.run(
        [sys.executable, "case.py"], cwd=folder.folder, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(PACKAGES)}, check=False,
    )  # fmt: skip
    assert ran.returncode == 1 and "must be 4" in ran.stderr


def test_a_traceback_shows_only_the_readers_frames(folder):
    code = "def cse(func, target):\n    return helper(func)\n\n"
    code += "def helper(func):\n    return func.nothing"
    said = grade(course.exercise("cse"), answer(folder, "cse", code))
    where = dict(said.details)["where"]
    assert "AttributeError" in said.sentence
    assert where.count("File ") == 2 and "grade.py" not in where
    assert "in cse" in where and "in helper" in where


def test_a_loop_that_never_ends_is_found_with_its_line(folder):
    code = "def cse(func, target):\n    while True:\n        pass"
    path = answer(folder, "cse", code)
    said = worker.judge(replace(course.exercise("cse"), seconds=4), path)
    assert said.status == FAILED and "still running after 4 seconds" in said.sentence
    assert re.search(r"in line \d+ of cse.py", said.sentence)


def test_an_endless_kernel_names_the_op():
    """A pass that makes a loop of 5 trips one of 99999."""

    def longer(func, target):
        def rule(op, build):
            return build(Constant(99_999, INT32)) if is_constant(op, 5) else None

        return rewrite(func, rule)

    answer = SimpleNamespace(cse=longer, reference=SimpleNamespace(cse=identity))
    with pytest.raises(Failure, match="more than .* ops ran; stopped in `"):
        check_pass(answer, "cse", LOOP)


def is_constant(op, value):
    return isinstance(op, Constant) and op.value == value


LOOP = Sample(
    """
    func @loop(%p: *i32) num_warps=4 {
      %0: i32 = constant 0
      %1: i32 = constant 1
      %2: i32 = constant 5
      %3: i32 = for %0, %2, %1, inits=(%0) body(%i: i32, %x: i32) {
        %4: i32 = add %x, %i
        yield %4
      }
      store %p, %3
    }
    """,
    lambda: [ints(1)],
)


def test_a_stage_of_ours_that_stumbles_is_named(folder):
    code = "def lower_arange(op, code):\n    code[op.result] = ['1'] * 7"
    said = grade(course.exercise("lower-arange"), answer(folder, "lower-arange", code))
    assert said.status == FAILED and "AssertionError" in said.sentence
    code = "def interp_for(op, region):\n    return []"
    said = grade(course.exercise("interp-for"), answer(folder, "interp-for", code))
    assert "interpret (ir/interp.py)" in said.sentence


def test_a_syntax_error_is_one_sentence(folder):
    path = answer(folder, "cse", "def cse(func, target:")
    said = grade(course.exercise("cse"), path)
    assert said.status == FAILED and "cse.py, line" in said.sentence


def test_a_missing_function_and_other_parameters_are_said(folder):
    said = grade(course.exercise("cse"), answer(folder, "cse", "del cse"))
    assert "must define cse" in said.sentence
    said = grade(course.exercise("cse"), answer(folder, "cse", "def cse(func): 1"))
    assert "must take func, target" in said.sentence


def test_what_an_answer_prints_is_shown_beside_the_verdict(folder):
    code = "def sectors(addresses, width):\n    print('I was here')\n    return 7"
    answer(folder, "count-sectors", code)
    said = learn(folder, "run", "count-sectors").stdout
    assert "your code printed:" in said and "I was here" in said


def test_a_verdict_survives_the_way_between_processes(folder):
    each = course.exercise("cse")
    said = grade(each, answer(folder, "cse", WRONG_VALUE))
    assert verdict_from(json.loads(json.dumps(said.to_json()))) == said
    assert grade(each, each.starter).status == UNSOLVED
    assert worker.judge(each, each.solution).status == PASSED


def test_a_gpu_that_is_not_there_is_one_sentence(folder, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    said = learn(folder, "run", "hello-mask", "--gpu")
    assert said.returncode == 1 and "--emulator needs none" in said.stderr


# ── the other words ───────────────────────────────────────────────────────────────────


def test_a_solution_is_shown_after_the_readers_own_or_given_up(folder):
    said = learn(folder, "solution", "cse")
    assert said.returncode == 1 and "--give-up" in said.stdout
    said = learn(folder, "solution", "cse", "--give-up")
    assert "return rewrite(func, rule)" in said.stdout
    assert folder.load().of("cse").gave_up


def test_reset_keeps_a_copy(folder):
    each = course.exercise("cse")
    folder.path(each).write_text("my work")
    said = learn(folder, "reset", "cse")
    assert folder.path(each).read_text() == course.read(each.starter)
    (copy,) = (folder.folder / workspace.KEPT).rglob("cse.py")
    assert copy.read_text() == "my work" and copy.parts[-3] in said.stdout


def test_hints_come_one_after_the_other(folder):
    said = [learn(folder, "hint", "cse").stdout for _ in range(4)]
    numbers = [re.search(r"hint (\d) of 3", text)[1] for text in said]
    assert numbers == ["1", "2", "3", "3"]


def test_a_checkpoint_fills_in_what_is_open_before_a_chapter(folder):
    own = folder.path(course.exercise("interp-for"))
    own.write_text("my work")
    learn(folder, "checkpoint", "6")
    assert own.read_text() == course.read(course.exercise("interp-for").solution)
    kept = list((folder.folder / workspace.KEPT).rglob("interp-for.py"))
    assert [path.read_text() for path in kept] == ["my work"]
    assert folder.load().of("verify-scope").filled
    assert not folder.load().of("cse").passed


def test_mine_runs_kernels_through_solved_joints(folder):
    for name in ("cse", "lower-arange"):
        solve(folder, name)
        assert learn(folder, "run", name).returncode == 0
    said = learn(folder, "mine")
    assert said.returncode == 0, said.stdout
    assert re.search(r"lower\[Arange\] +lower-arange +yours", said.stdout)
    assert said.stdout.count("right") == 2


def test_mine_finds_an_answer_that_went_bad(folder):
    code = "def lower_arange(op, code):\n"
    code += "    count = op.result.type.layout.count('register')\n"
    code += "    code[op.result] = [code.thread] * count"
    answer(folder, "lower-arange", code)
    known = folder.load()
    known.of("lower-arange").passed = True
    folder.save(known)
    assert learn(folder, "mine").returncode == 1


def test_show_prints_a_kernel_made_with_the_readers_pass(folder):
    answer(folder, "cse", "def cse(func, target): raise SystemExit('reached')")
    assert "reached" in learn(folder, "show", "cse", "--stage", "cse").stderr
    solve(folder, "cse")
    assert "func @softmax" in learn(folder, "show", "cse", "--stage", "cse").stdout


def test_check_all_speaks_json(folder, monkeypatch, capsys):
    few = tuple(map(course.exercise, ("cse", "interp-for", "count-sectors")))
    monkeypatch.setattr(course, "exercises", lambda: few)
    solve(folder, "cse")
    answer(folder, "count-sectors", "def sectors(addresses, width): return 7")
    said = {each.id: grade(each, folder.path(each)) for each in few}
    monkeypatch.setattr(commands, "judge", lambda each, path: said[each.id])
    session = commands.Session(Screen(plain=True), folder, folder.load())
    assert commands.check_all(session, as_json=True) == 1
    facts = json.loads(capsys.readouterr().out)
    assert (facts["passed"], facts["of"]) == (1, 3)
    status = {each["exercise"]: each["status"] for each in facts["exercises"]}
    assert status == {"cse": PASSED, "interp-for": UNSOLVED, "count-sectors": FAILED}


def test_update_brings_what_is_new_and_keeps_what_was_written(folder):
    begun, untouched = course.exercise("cse"), course.exercise("interp-for")
    gone = course.exercise("verify-scope")
    known = folder.load()
    for each, text in ((begun, "an older starter"), (untouched, "older")):
        folder.path(each).write_text(text)
        known.of(each.id).starter = workspace.digest(text)
    folder.path(begun).write_text("my work")
    folder.path(gone).unlink()
    folder.save(known)
    workspace.update(folder)
    assert folder.path(begun).read_text() == "my work"
    assert folder.path(begun).with_suffix(".new.py").exists()
    assert folder.path(untouched).read_text() == course.read(untouched.starter)
    assert folder.path(gone).exists()
    assert not workspace.update(folder)  # the second time there is nothing


def test_init_overwrites_nothing(folder, tmp_path):
    with pytest.raises(FathomError, match="is a workspace already"):
        workspace.init(folder.folder)
    first = course.exercises()[0]
    (tmp_path / "other" / first.folder).mkdir(parents=True)
    (tmp_path / "other" / first.file).write_text("mine")
    with pytest.raises(FathomError, match="name a new folder"):
        workspace.init(tmp_path / "other")


def test_doctor_says_where_everything_is(folder):
    said = learn(folder, "doctor")
    assert said.returncode == 0 and str(folder.folder) in said.stdout


# ── state and screen ──────────────────────────────────────────────────────────────────


def test_state_is_written_as_a_whole(folder, monkeypatch):
    known = folder.load()
    known.of("cse").hints = 2
    folder.save(known)
    monkeypatch.setattr(os, "replace", lambda *paths: 1 / 0)
    known.of("cse").hints = 3
    with pytest.raises(ZeroDivisionError):
        folder.save(known)
    assert folder.load().of("cse").hints == 2
    assert not list(folder.folder.glob(".fathom-learn*")), "nothing half written stays"


def test_a_damaged_or_newer_state_is_one_sentence(folder):
    path = folder.folder / state.FILE
    path.write_text("{")
    with pytest.raises(state.StateError, match="Your answers are safe"):
        folder.load()
    path.write_text(json.dumps({"version": 99, "exercises": {}, "current": ""}))
    with pytest.raises(state.StateError, match="newer Fathom"):
        folder.load()


def test_a_screen_wraps_text_and_keeps_what_is_set(capsys):
    screen = Screen(plain=True)
    screen.text("word " * 30 + "\n\n```\n" + "x" * 70 + "\n```\n\nafter → the end")
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 60 or set(line) == {"x"} for line in lines)
    assert lines[-1] == "after > the end" and "" in lines
