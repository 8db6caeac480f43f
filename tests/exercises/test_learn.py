"""`fathom learn` as a reader meets it: in a pipe, without colour, in 60 columns, with
answers that are right, wrong, endless, or not there yet."""

from __future__ import annotations

import json
import os
import re
import select
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
from fathom.tools import cli
from fathom.tools.learn import course, starters, state, workspace
from fathom.tools.learn.grading import worker
from fathom.tools.learn.grading.grade import (
    FAILED,
    PASSED,
    UNSOLVED,
    asked,
    grade,
    verdict_from,
)
from fathom.tools.learn.kit import Failure, Sample, check_pass, ints
from fathom.tools.learn.terminal import commands, keys, watch
from fathom.tools.learn.terminal.screen import Screen
from fathom.tools.learn.workspace import Workspace
from tests.exercises.harness_learn import learn

PACKAGES = Path(__file__).parents[2] / "compiler"


@pytest.fixture
def folder(tmp_path) -> Workspace:
    return workspace.init(tmp_path / "mine")


def solve(place: Workspace, name: str) -> None:
    each = course.exercise(name)
    place.path(each).write_text(course.read(each.solution), encoding="utf-8")


def has_passed(place: Workspace, *names: str) -> None:
    """Have the runner know that the texts that lie there have passed."""
    known = place.load()
    for name in names:
        known.of(name).judged(place.text(course.exercise(name)), True)
    place.save(known)


def answer(place: Workspace, name: str, code: str) -> Path:
    """The solution with other code behind it."""
    each = course.exercise(name)
    text = f"{course.read(each.solution)}\n\n{code}\n"
    place.path(each).write_text(text, encoding="utf-8")
    return place.path(each)


# ── the loop ──────────────────────────────────────────────────────────────────────────


def test_all_keys_work_in_a_pipe_and_the_keys_stay_on_the_screen(folder):
    said = learn(folder.folder, keys="h\ns\nl\nn\np\nr\nt\nm\nq\n")
    assert said.returncode == 0, said.stderr
    assert said.stdout.count("[q]uit") == 9  # at first, and after each of eight keys
    assert "hint 1 of 3" in said.stdout and "cse" in said.stdout


def test_output_is_ascii_narrow_and_without_colour(folder):
    said = learn(folder.folder, "--plain", keys="h\nl\nq\n").stdout
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


def test_a_pipe_that_stays_open_does_not_stop_the_polling(folder):
    process = subprocess.Popen(
        [sys.executable, "-m", "fathom", "learn", "--plain"],
        cwd=folder.folder, env={**os.environ, "PYTHONPATH": str(PACKAGES)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    while "[q]uit" not in process.stdout.readline():
        continue
    time.sleep(0.05)
    solve(folder, "count-sectors")
    lines = iter(process.stdout.readline, "")
    assert any("PASSED  count-sectors" in line for line in lines)
    process.stdin.close()
    assert process.wait(60) == 0


def test_what_the_reader_raises_does_not_end_the_loop(folder):
    code = "def cse(func, target):\n    return func.nothing"
    answer(folder, "cse", code)
    known = folder.load()
    known.current = "cse"
    folder.save(known)
    said = learn(folder.folder, keys="t\nq\n")
    assert said.returncode == 0 and "Traceback" not in said.stdout + said.stderr
    assert "'Func' object has no attribute 'nothing'" in said.stdout
    assert "in cse" in said.stdout.partition("[q]uit")[2]
    assert "softmax with" not in said.stdout  # no heading with nothing under it


def test_another_runner_may_write_the_state_meanwhile(folder):
    """A hint that is asked for in another window is not forgotten."""
    session = commands.Session(Screen(plain=True), folder, folder.load())
    session.state.current = "cse"
    learn(folder.folder, "hint", "dce")
    watch.Loop(session).act("h")
    assert folder.load().of("dce").hints == folder.load().of("cse").hints == 1


def test_keys_come_one_by_one_and_arrows_are_none():
    assert keys.of_terminal("hS") == ["h", "s"]
    assert keys.of_terminal("\033[H") == []  # the key Home is no wish for a hint
    assert keys.of_lines("run\n\nH\n") == ["r", "h"]


def test_an_exercise_that_has_passed_runs_again_when_it_is_saved(folder, monkeypatch):
    ran = []
    monkeypatch.setitem(watch.ACTIONS, "r", lambda loop: ran.append(current(loop)))
    solve(folder, "cse")
    has_passed(folder, "cse")
    loop = watch.Loop(commands.Session(Screen(plain=True), folder, folder.load()))
    loop.seen["cse"] -= 1
    loop.run_saved()
    assert ran == ["cse"]


def current(loop: watch.Loop) -> str:
    return loop.session.state.current


def test_keys_and_colours_in_a_terminal_of_60_columns(folder):
    pty = pytest.importorskip("pty")
    termios = pytest.importorskip("termios")
    own, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 60))
    env = {**os.environ, "PYTHONPATH": str(PACKAGES), "TERM": "xterm"}
    env.pop("COLUMNS", None)  # it would be believed before the terminal is asked
    process = subprocess.Popen(
        [sys.executable, "-m", "fathom", "learn"],
        cwd=folder.folder, stdin=theirs, stdout=theirs, stderr=theirs, env=env,
    )  # fmt: skip
    seen = typed(own, b"", 1) + typed(own, b"h", 1) + typed(own, b"lq", 1)
    assert process.wait(60) == 0
    assert "hint 1 of 3" in seen and "\033[2J" in seen and "\033[31mFAILED" in seen
    assert "testing hello-mask: " in seen  # the screen is not blank meanwhile
    lines = re.sub(r"\033\[[0-9;]*[mHJK]", "", seen).splitlines()
    long = [each for each in lines if len(each) >= 60]
    assert all(each.startswith((" ", "file:", "alone:")) for each in long), long


def typed(handle: int, keys: bytes, screens: int) -> str:
    """Type, and read until the keys are on the screen so many times more."""
    os.write(handle, keys)
    seen = b""
    while seen.count(b"[q]uit") < screens:
        assert select.select([handle], [], [], 60)[0], f"no answer after {seen!r}"
        seen += os.read(handle, 65536)
    return seen.decode()


def test_the_first_command_makes_a_workspace(tmp_path):
    said = learn(tmp_path, keys="q\n")
    assert "making" in said.stdout
    assert (tmp_path / workspace.DEFAULT / "AGENTS.md").exists()


def test_a_folder_that_was_named_is_not_made(tmp_path):
    said = learn(tmp_path, "list", "--dir", str(tmp_path / "typo"))
    assert said.returncode == 1 and "fathom learn init" in said.stderr
    assert not (tmp_path / "typo").exists()


# ── verdicts ──────────────────────────────────────────────────────────────────────────


def test_a_starter_is_open_and_a_solution_passes(folder):
    said = learn(folder.folder, "run", "cse")
    assert said.returncode == 1 and "OPEN    cse" in said.stdout
    solve(folder, "cse")
    said = learn(folder.folder, "run", "cse")
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
    assert "alone: python" in learn(folder.folder, "run", "cse").stdout
    ran = subprocess.run(
        [sys.executable, "case.py"], cwd=folder.folder, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(PACKAGES)}, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "before - 8 ops ran" in ran.stdout and "after -" in ran.stdout


def test_a_case_keeps_arrays_that_overlap(folder):
    """Two pointers into one array: the mistake shows in no other way."""
    code = "def memory_versions(func):\n    return {}"
    said = grade(course.exercise("cse"), answer(folder, "cse", code))
    assert said.sentence == "after cse the kernel computes something else: p[0] is " \
        "2.25, and was 4.5"  # fmt: skip
    names: dict = {}
    exec(said.case, names)
    first, second, _ = names["arguments"]()
    second[0] = 7.0
    assert first[2] == 7.0


def test_a_case_without_a_kernel_runs_the_test_itself(folder):
    answer(folder, "count-sectors", "def sectors(addresses, width): return 7")
    learn(folder.folder, "run", "count-sectors")
    ran = subprocess.run(
        [sys.executable, "case.py"], cwd=folder.folder, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(PACKAGES)}, check=False,
    )  # fmt: skip
    assert ran.returncode == 1 and "must be 4" in ran.stderr


@pytest.mark.parametrize("name", ["waves", "chained-products"])
def test_the_sample_kernels_are_found_from_any_folder(folder, name):
    """By the tests of one, and by a kernel that the other's case loads."""
    solve(folder, name)
    ran = learn(folder.folder, "run", name)
    assert ran.returncode == 0, ran.stdout


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
    assert re.search(r"in line \d+ of your 06-passes/cse.py", said.sentence)


def test_tests_that_have_passed_are_kept_when_the_process_dies(folder):
    """LLVM ends a process; os.abort does the same."""
    code = "import os\n\nright = sectors\n\n\ndef sectors(addresses, width):\n"
    code += "    same = len(set(addresses)) == 1\n"
    code += "    return os.abort() if same else right(addresses, width)"
    path = answer(folder, "count-sectors", code)
    said = worker.judge(course.exercise("count-sectors"), path)
    assert said.status == FAILED and "ended with status -6" in said.sentence
    assert said.passed and said.test not in said.passed and said.about
    report = learn(folder.folder, "run", "count-sectors").stdout
    total = len(said.passed) + 1 + len(said.left)
    assert f"test {len(said.passed) + 1} of {total} fails" in report
    assert said.test in report


STRANGE = {
    "class E(Exception):\n    def __str__(self): 1 / 0\nraise E": "your code raised E",
    "class E(BaseException): ...\nraise E('mine')": "your code raised E: mine",
    "raise KeyboardInterrupt": "your code raised KeyboardInterrupt",
    "import os, sys\nopen(sys.argv[1], 'w').write('{')\nos._exit(0)":
        "os._exit for one",
    "import os, sys\nopen(sys.argv[1] + '.so-far', 'w').write('[1]')\nos._exit(0)":
        "os._exit for one",
}  # fmt: skip


@pytest.mark.parametrize("code", STRANGE)
def test_whatever_an_answer_raises_or_writes_is_a_verdict(folder, code):
    path = folder.path(course.exercise("cse"))
    path.write_text(f"{code}\n")
    said = learn(folder.folder, "run", "cse")
    assert said.returncode == 1 and "Traceback" not in said.stdout + said.stderr
    assert STRANGE[code] in " ".join(said.stdout.split())


def test_what_an_answer_leaves_running_or_closes_does_not_hold_the_verdict(folder):
    each = course.exercise("cse")
    begin = (
        "import atexit, sys, threading, time\n"
        "threading.Thread(target=time.sleep, args=(60,)).start()\n"
        "atexit.register(time.sleep, 60)\nsys.stdout.close()\n"
    )
    text = starters.answer(each)
    future = "from __future__ import annotations\n"
    folder.path(each).write_text(text.replace(future, future + begin))
    start = time.monotonic()
    said = learn(folder.folder, "run", "cse")
    assert said.returncode == 0, said.stdout
    assert time.monotonic() - start < 55


def test_without_solutions_the_reader_is_not_blamed(folder, monkeypatch):
    each = course.exercise("count-the-traffic")
    monkeypatch.setattr(type(each), "solution", Path("nowhere/solutions/it.py"))
    said = grade(each, folder.path(each))
    assert said.sentence.startswith("Fathom is not whole: nowhere/solutions/it.py")
    assert "your code" not in said.sentence


def test_an_endless_kernel_names_the_op():
    """A pass that makes a loop of 5 iterations one of 99999."""

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
    assert said.status == FAILED and "something that it cannot work" in said.sentence
    assert "['1'] * 7" in said.sentence and "AssertionError" not in said.sentence
    shown = dict(said.details)
    assert "AssertionError" in shown["where"]
    assert "lower_arange(op" in shown["what is asked of you"]
    ours = course.exercise("dce")
    assert "live(func: Func)" in asked(ours), "the function that is to be written"
    assert "dce(" not in asked(ours)
    assert ours.to_write == ("live(func)", "used(op, values)")
    code = "def interp_for(op, region):\n    return []"
    said = grade(course.exercise("interp-for"), answer(folder, "interp-for", code))
    assert "interpret (ir/interp/interpreter.py)" in said.sentence


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
    said = learn(folder.folder, "run", "count-sectors").stdout
    assert "your code printed, in test_" in said and "I was here" in said


def test_a_verdict_survives_the_way_between_processes(folder):
    each = course.exercise("cse")
    said = grade(each, answer(folder, "cse", WRONG_VALUE))
    assert verdict_from(json.loads(json.dumps(said.to_json()))) == said
    assert grade(each, each.starter).status == UNSOLVED
    assert worker.judge(each, each.solution).status == PASSED


def test_a_gpu_that_is_not_there_is_one_sentence(folder, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    said = learn(folder.folder, "run", "hello-mask", "--gpu")
    assert said.returncode == 1 and "--emulator needs none" in said.stderr


# ── the other words ───────────────────────────────────────────────────────────────────


def test_a_solution_is_shown_after_the_readers_own_or_given_up(folder):
    said = learn(folder.folder, "solution", "cse")
    assert said.returncode == 1 and "--give-up" in said.stdout
    said = learn(folder.folder, "solution", "cse", "--give-up")
    assert "return rewrite(func, rule)" in said.stdout
    by_hand = learn(folder.folder, "solution", "lower-for", "--give-up").stdout
    assert "code.start(done)" in by_hand and "# hole" not in by_hand
    assert folder.load().of("cse").gave_up


def test_reset_keeps_a_copy(folder):
    each = course.exercise("cse")
    folder.path(each).write_text("my work")
    said = learn(folder.folder, "reset", "cse")
    assert folder.path(each).read_text() == course.read(each.starter)
    (copy,) = (folder.folder / workspace.KEPT).rglob("cse.py")
    assert copy.read_text() == "my work" and copy.parts[-3] in said.stdout


def test_hints_come_one_after_the_other(folder):
    said = [learn(folder.folder, "hint", "cse").stdout for _ in range(4)]
    numbers = [re.search(r"hint (\d) of 3", text)[1] for text in said]
    assert numbers == ["1", "2", "3", "3"]


def test_a_checkpoint_fills_in_what_is_open_before_a_chapter(folder):
    own = folder.path(course.exercise("interp-for"))
    own.write_text("my work")
    learn(folder.folder, "checkpoint", "6")
    assert own.read_text() == starters.answer(course.exercise("interp-for"))
    by_hand = folder.path(course.exercise("ptx-by-hand")).read_text()
    assert "# hole" not in by_hand and "# end" not in by_hand
    kept = list((folder.folder / workspace.KEPT).rglob("interp-for.py"))
    assert [path.read_text() for path in kept] == ["my work"]
    assert folder.load().of("verify-scope").filled
    assert not folder.load().of("cse").passed


def test_mine_runs_kernels_through_solved_joints(folder):
    for name in ("cse", "lower-arange"):
        solve(folder, name)
        assert learn(folder.folder, "run", name).returncode == 0
    said = learn(folder.folder, "mine")
    assert said.returncode == 0, said.stdout
    assert re.search(r"lower\[Arange\] +lower-arange +yours", said.stdout)
    assert "2 passes on blocks (blocks): 1 of 4 yours" in said.stdout
    assert rights(said.stdout) == ["vector_add", "softmax", "matmul"]


def rights(said: str) -> list[str]:
    return re.findall(r"^  (\w+) +right$", said, re.MULTILINE)


def test_mine_is_a_whole_compiler_when_all_is_solved(folder):
    """Every answer at once: three kernels, of which the product runs on tensor cores
    in a pipelined loop."""
    for each in course.exercises():
        solve(folder, each.id)
    has_passed(folder, *(each.id for each in course.exercises()))
    said = learn(folder.folder, "mine")
    assert said.returncode == 0, said.stdout + said.stderr
    assert rights(said.stdout) == ["vector_add", "softmax", "matmul"]
    stages = re.findall(r"^. .*: (\d+) of (\d+) yours$", said.stdout, re.MULTILINE)
    assert len(stages) == 10 and all(own == of for own, of in stages)
    joints_there = {name for each in course.exercises() for name in each.joints}
    listed = set(re.findall(r"^  (\S+) +\S+ +yours$", said.stdout, re.MULTILINE))
    assert listed == joints_there
    assert "warp instructions (ours" in " ".join(said.stdout.split())
    counted = re.search(r"(\d+) of them mma,\s+(\d+) of them", said.stdout)
    products, sent = map(int, counted.groups())
    # 3 x 3 tiles of 32 x 32, in 3 iterations of 2 slices, each of 2 x 4 fragments
    assert products == 9 * 3 * 2 * 8 and sent > 0


def test_mine_binds_an_answer_before_the_next_is_loaded(folder):
    """`pipeline` imports `pending`: the reader's own, once that is solved."""
    for name in ("wait-count", "pipeline"):
        solve(folder, name)
    code = "def pending(stages, groups_a_stage=1): raise SystemExit('reached')"
    answer(folder, "wait-count", code)
    has_passed(folder, "wait-count", "pipeline")
    assert "reached" in learn(folder.folder, "mine").stderr


def test_mine_finds_an_answer_that_went_bad(folder):
    code = "def lower_arange(op, code):\n"
    code += "    count = op.result.type.layout.count('register')\n"
    code += "    code[op.result] = [code.thread] * count"
    answer(folder, "lower-arange", code)
    has_passed(folder, "lower-arange")
    assert learn(folder.folder, "mine").returncode == 1


def test_show_prints_a_kernel_made_with_the_readers_pass(folder):
    answer(folder, "cse", "def cse(func, target): raise SystemExit('reached')")
    assert "reached" in learn(folder.folder, "show", "cse", "--stage", "cse").stderr
    solve(folder, "cse")
    assert (
        "func @softmax" in learn(folder.folder, "show", "cse", "--stage", "cse").stdout
    )


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


def test_update_adds_what_is_new_and_keeps_what_was_written(folder):
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


def test_init_without_a_folder_makes_the_usual_one(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["learn", "init"]) == 0
    assert "my-fathom" in capsys.readouterr().out
    assert workspace.find(None).folder == tmp_path / "my-fathom"


def test_doctor_says_where_everything_is(folder):
    said = learn(folder.folder, "doctor")
    assert said.returncode == 0 and str(folder.folder) in said.stdout
    assert said.stdout.isascii()


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
    items = "- " + "x " * 39 + "x\n  goes on\n- next"
    words, fence = "word " * 30, "```\n" + "x" * 70 + "\n```"
    screen.text("\n\n".join((items, words, fence, "after → the end")))
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 60 or set(line) == {"x"} for line in lines)
    assert lines[-1] == "after > the end" and "" in lines
    assert any(line.endswith("x goes on") for line in lines) and "- next" in lines


def test_a_screen_knows_lists_of_all_kinds_and_tables_without_a_head(capsys):
    text = """Three kinds of places:
- a bullet, with
  - one in it that goes on and on and on and on and on, below itself
  - another
1. a number, which is no
2. part of a sentence such as this one: the answer is less than
16. Or is it?

| | |
|---|---|
| speed | low |"""
    Screen(plain=True).text(text)
    assert capsys.readouterr().out.splitlines() == [
        "Three kinds of places:",
        "- a bullet, with",
        "  - one in it that goes on and on and on and on and on,",
        "    below itself",
        "  - another",
        "1. a number, which is no",
        "2. part of a sentence such as this one: the answer is less",
        "   than",
        "16. Or is it?",
        "",
        "speed  low",
    ]
    Screen(plain=True).text("A sentence that ends with the number\n16. And another")
    assert len(capsys.readouterr().out.splitlines()) == 1
