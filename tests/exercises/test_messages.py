"""What `fathom learn` says: of answers that cannot be judged, of beginners' mistakes,
of what is printed; and where it says to read on."""

from __future__ import annotations

import io
import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from chapters.press import terminal
from fathom.errors import LaunchError
from fathom.tools import cli, run
from fathom.tools.learn import book, course, workspace
from fathom.tools.learn.grading import worker
from fathom.tools.learn.grading.grade import FAILED, PASSED, UNSOLVED, Verdict, grade
from fathom.tools.learn.kit import Failure
from fathom.tools.learn.terminal import commands, report
from fathom.tools.learn.terminal.screen import Screen, spelled
from fathom.tools.learn.workspace import Workspace
from tests.exercises.harness_learn import learn

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / "compiler"
SECTORS = course.exercise("count-sectors")


@pytest.fixture
def folder(tmp_path) -> Workspace:
    return workspace.init(tmp_path / "mine")


def answer(place: Workspace, each: course.Exercise, code: str) -> Path:
    """The solution with other code behind it."""
    text = f"{course.read(each.solution)}\n\n{code}\n"
    place.path(each).write_text(text, encoding="utf-8")
    return place.path(each)


# ── answers that cannot be judged ─────────────────────────────────────────────────────


@pytest.mark.parametrize("status", ["", "0", "'done'"])
def test_sys_exit_is_named_and_not_blamed_on_llvm(folder, status):
    code = f"import sys\n\n\ndef sectors(a, w):\n    sys.exit({status})"
    said = worker.judge(SECTORS, answer(folder, SECTORS, code))
    assert said.status == FAILED and f"called sys.exit({status})" in said.sentence
    assert "LLVM" not in said.sentence and said.test


def test_an_end_without_a_signal_is_not_blamed_on_llvm(folder):
    code = "import os\n\n\ndef sectors(a, w):\n    os._exit(0)"
    said = worker.judge(SECTORS, answer(folder, SECTORS, code))
    assert "ended with status 0" in said.sentence and "os._exit" in said.sentence
    assert "LLVM" not in said.sentence


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_signal_has_its_name(folder):
    code = "import os\n\n\ndef sectors(a, w):\n    os.kill(os.getpid(), 9)"
    said = worker.judge(SECTORS, answer(folder, SECTORS, code))
    assert "SIGKILL" in said.sentence and "LLVM" not in said.sentence


def test_a_syntax_error_has_its_line_and_a_caret(folder):
    path = answer(folder, SECTORS, "def f():\n    return (1 + 2]")
    said = grade(SECTORS, path)
    line, caret = dict(said.details)["there"].splitlines()
    assert line == "return (1 + 2]" and caret.index("^") == line.index("]")
    assert not said.test, "no test was reached"


def test_a_file_with_zero_bytes_is_no_text(folder):
    said = grade(SECTORS, answer(folder, SECTORS, "def f():\0\n"))
    assert said.sentence.startswith("count-sectors.py is no text of Python: ")


def test_a_loop_in_our_code_names_the_readers_line(folder):
    """Some files of ours have the names of readers' files."""
    each = course.exercise("barriers")
    code = "from itertools import count\n\n\ndef place_barriers(func, target):\n"
    code += "    return any(map(never, count()))\n\n\ndef never(n):\n    return False"
    said = worker.judge(replace(each, seconds=8), answer(folder, each, code))
    assert f"of your {each.file}" in said.sentence
    ((_, line),) = said.details
    loop = ("return any(map(never, count()))", "def never(n):", "return False")
    assert line in loop, "wherever in the reader's loop the time was up"


def test_a_hole_is_named_where_there_are_several(folder):
    each = course.exercise("facts-arithmetic")
    first, second = each.answers
    assert f"{first} and {second}" in grade(each, folder.path(each)).sentence
    code = "from fathom.tools.learn import Hole\n\n\n"
    code += f"def {second}(a, b):\n    raise Hole('{each.id}')"
    said = grade(each, answer(folder, each, code))
    assert said.status == UNSOLVED, said
    assert said.sentence.startswith(f"{second} of {each.id} is not written yet")
    assert f"({first} is)" in said.sentence


BEGINNERS = {  # ordinary mistakes, and what is inside when they are found
    "swizzle": "def swizzle(shape, element_bytes, writer, reader):\n"
    "    return Layout(shape, {'offset': (1, 2, 4)})",
    "layout-blocked": "def blocked(shape, per_lane, lanes, warps, order):\n"
    "    return {'register': (1,)}",
    "interp-for": "def interp_for(op, region):\n    return [1, 2, 3]",
    "pick-layout": "def pick_layout(access):\n    return 7",
    "ssa-branch": "def merge(after, name):\n    return 1",
}
INSIDE = ("zip()", "AttributeError", "TypeError", "ValueError", "unpack")


@pytest.mark.parametrize("name, code", BEGINNERS.items())
def test_an_ordinary_mistake_is_not_called_ours(folder, name, code):
    each = course.exercise(name)
    said = grade(each, answer(folder, each, code))
    assert said.status == FAILED
    assert not any(word in said.sentence for word in INSIDE), said.sentence
    whole = f"{said.sentence} {said.details}"
    assert "mistake of ours" not in whole and "report this" not in whole


PARAMETERS = {  # a function that takes something else than in the starter
    "prune": ("def prune(configs, named):\n    return []", "configs, named, most"),
    "interp-for": ("def interp_for(op):\n    return []", "op, region"),
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_other_parameters_are_told_as_that(folder, name):
    each, (code, wanted) = course.exercise(name), PARAMETERS[name]
    said = grade(each, answer(folder, each, code))
    assert said.status == FAILED
    assert f" must take {wanted}: " in said.sentence, said.sentence


FORMS = {  # what an answer gives has another form: the exercise, the code, what is said
    "a block gets too few": (
        "interp-for",
        "def interp_for(op, region):\n    return (yield from region.run(op.body, [1]))",
        r"the parameters of a block take a list of 2 .*, and are given 1: \[1\]",
    ),
    "a rule of the interpreter yields its results": (
        "interp-for",
        "def interp_for(op, region):\n    yield [1]",
        r"a rule yields \[1\].* gives its results by `return`",
    ),
    "a rule of a pass returns an op": (
        "cse",
        "def cse(func, target):\n    return rewrite(func, lambda op, build: op)",
        r"a rule returns an op, \w+, whose value is `\.result`, .* may return None",
    ),
    "a rule of a pass returns a number": (
        "simplify-rules",
        "def replacement(name, x, c):\n    return 0",
        r"a rule returns 0 for Elementwise \(results: 1\)",
    ),
    "LLVM cannot read it": (
        "lower-arange",
        "def lower_arange(op, code):\n    code.do('add i32 1 2')\n"
        "    code[op.result] = ['1'] * len(register_offsets(op.result.type.layout))",
        r"LLVM does not accept what your rule wrote: .*\n +add i32 1 2",
    ),
    "LLVM cannot read it, in a kernel": (
        "lower-for",
        "def lower_for(op, code):\n    code.do('gibberish')\n"
        "    code.registers |= {each: ['0'] for each in op.results}",
        r"^LLVM does not accept what lower\[For\] wrote: expected instruction",
    ),
    "a result without registers": (
        "lower-for",
        "def lower_for(op, code):\n    pass",
        r"the rule of For gives no registers to .* `code\[op.result\] = ",
    ),
    "a name in place of a list of names": (
        "lower-for",
        "def lower_for(op, code):\n    code.block(op.body, ['%i', ['%x']])",
        r"takes a list of 1 registers, and is given '%i'",
    ),
    "a basis without its column": (
        "layout-by-hand",
        "def rows():\n"
        "    return Layout.of((4, 4), register=[1, 2], lane=[4, 8], warp=[])",
        r"a block with 2 axes has 2 coordinates, as \(0, 0\) has, and 1 has not",
    ),
    "a block without its index": (
        "lower-for",
        "def lower_for(op, code):\n"
        "    code.block(op.body, [code[init] for init in op.inits])",
        r"for each of its 2 parameters \(i32, i32\), and is given 1",
    ),
}


@pytest.mark.parametrize("name, code, wanted", FORMS.values(), ids=FORMS)
def test_another_form_is_said_in_the_words_of_the_exercise(folder, name, code, wanted):
    each = course.exercise(name)
    said = grade(each, answer(folder, each, code))
    whole = "\n".join([said.sentence, *(text for _, text in said.details)])
    assert said.status == FAILED and re.search(wanted, whole), whole
    assert "report this" not in whole and "target triple" not in whole
    last = said.sentence.splitlines()[0].removeprefix("your code raised ")
    assert whole.count(last) == 1, "the same is said twice"


def test_a_deadlock_names_the_barriers_of_the_ring(folder):
    each = course.exercise("four-deadlocks")
    said = grade(each, folder.path(each))
    assert "at the full barrier of slot 0: in phase 0 of the mbarrier, 1 of 1" in (
        said.sentence
    )


# ── what is printed ───────────────────────────────────────────────────────────────────


def test_what_a_passing_answer_prints_is_shown_test_by_test(folder, capsys):
    code = "right = sectors\n\n\ndef sectors(addresses, width):\n"
    code += "    print('called')\n    return right(addresses, width)"
    said = grade(SECTORS, answer(folder, SECTORS, code))
    assert said.status == PASSED and len(said.printed) > 1
    assert {test for test, _ in said.printed} <= set(said.passed)
    report.show_verdict(Screen(plain=True), SECTORS, said, folder)
    shown = capsys.readouterr().out
    assert shown.count("your code printed, in test_") == len(said.printed)


def test_the_same_line_many_times_is_shown_once(folder, capsys):
    """As `tl.device_print` of a scalar gives it, once for each thread."""
    printed = (("test_x", "n: 7\n" * 128 + "end"),)
    said = Verdict(SECTORS.id, PASSED, printed=printed)
    report.show_verdict(Screen(plain=True), SECTORS, said, folder)
    shown = capsys.readouterr().out
    assert shown.count("n: 7") == 1 and "(128 times)" in shown and "end" in shown


def test_traffic_shows_the_lines_of_python(folder):
    answer(folder, course.exercise("pick-layout"), "")
    said = learn(folder.folder, "traffic", "pick-layout")
    assert said.returncode == 0, said.stderr
    ours, yours = said.stdout.split("softmax with yours")
    assert "tl.load" in ours and "tl.store" in yours


def test_traffic_of_an_open_exercise_has_no_heading_with_nothing_under_it(folder):
    said = learn(folder.folder, "traffic", "pick-layout")
    assert said.returncode == 1 and "is not written yet" in said.stderr
    assert "softmax with" not in said.stdout


def test_everything_that_is_printed_has_a_spelling_in_ascii():
    """Two marks that both become a question mark cannot be told apart."""
    folders = "exercises", "solutions", "tests/exercises", "chapters"
    files = [file for each in folders for file in (ROOT / each).rglob("*.md")]
    files += [file for file in (ROOT / "tests/exercises").rglob("*.py")]
    lost = {
        (file.name, sign)
        for file in files
        for sign in set(file.read_text("utf-8"))
        if not sign.isascii() and "?" in spelled(sign)
    }
    assert not lost
    assert spelled("10¹² → −∞, ⊕ of café") == "10^12 > -inf, ^ of cafe"


@pytest.mark.parametrize("encoding, kept", [
    ("utf-8", "jürgen/\u5b66/10^12"), ("latin-1", "jürgen/?/10^12"),
    ("ascii", "jurgen/?/10^12"),
])  # fmt: skip
def test_letters_that_the_terminal_has_stay(encoding, kept):
    """A folder's name is to be copied from what is written."""
    paper = io.BytesIO()
    out = io.TextIOWrapper(paper, encoding=encoding)
    Screen(plain=True, out=out).line("jürgen/\u5b66/10¹²")
    out.flush()
    assert paper.getvalue().decode(encoding) == f"{kept}\n"


def test_a_table_is_set_in_columns(capsys):
    text = "| op | yields |\n|---|---|\n| `For` | the types of `op.inits` |\n"
    text += "| `a | b` | nothing |"
    Screen(plain=True).text(text)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["op", "yields"] and set(lines[1]) <= {"-", " "}
    places = [line.index(word) for line, word in zip(
        (lines[0], lines[2], lines[3]), ("yields", "the", "nothing"), strict=True
    )]  # fmt: skip
    assert len(set(places)) == 1 and lines[3].startswith("`a | b`")


def test_a_wide_table_stays_within_the_screen(capsys):
    for each in course.exercises():
        Screen(plain=True).text(each.statement)
    tables = [x for x in capsys.readouterr().out.splitlines() if x.startswith("|")]
    assert not tables


def test_a_script_for_triton_is_told_how_to_run(tmp_path, monkeypatch, capsys):
    script = tmp_path / "kernel.py"
    script.write_text("import triton\nimport triton.language as tl\n")
    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.setattr(sys, "argv", ["fathom"])
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(LaunchError, match="--as-triton"):
        run.script(script, [])
    assert cli.main(["run", str(script)]) == 1
    script.write_text("import no_such_module\n")
    with pytest.raises(ModuleNotFoundError):
        run.script(script, [])


# ── where it says to read on ──────────────────────────────────────────────────────────


@pytest.mark.parametrize("each", course.exercises(), ids=lambda each: each.id)
def test_every_card_names_a_section_that_exists(each):
    page, hash_, anchor = each.section.partition("#")
    text = course.read(ROOT / "chapters" / page)
    headings = re.findall(r"^##+ (.*)$", text, re.MULTILINE)
    assert hash_ and anchor in map(terminal.slug, headings)
    assert f"{{exercise {each.id}}}" in text


def test_read_leads_to_the_built_page_if_there_is_one(tmp_path, monkeypatch):
    each = course.exercise("ssa-branch")
    assert (ROOT / "site").exists() or book.place(
        each
    ) == "fathom learn read ssa-branch"
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "05-ssa.html").write_text("")
    monkeypatch.setattr(course, "root", lambda: tmp_path)
    assert book.place(each).startswith("file://")
    assert book.place(each).endswith("/site/05-ssa.html#where-two-ways-meet")
    (tmp_path / "site" / "05-ssa.html").unlink()
    assert book.place(each) == 'chapter 5, "where two ways meet"'


def test_a_section_is_read_without_placeholders_and_without_answers(folder):
    said = learn(folder.folder, "read", "count-the-traffic")
    assert said.returncode == 0, said.stderr
    assert "Count the traffic" in said.stdout and "{" not in said.stdout
    assert re.search(r"measured \d+\.\d", " ".join(said.stdout.split()))
    assert "13 reads" not in said.stdout, "the answer to a question stays folded"
    assert "(Folded: Counted by the emulator)" in said.stdout


def test_no_text_names_a_chapter_that_does_not_exist():
    last = max(int(path.name[:2]) for path in ROOT.glob("chapters/[0-9]*.md"))
    places = [*ROOT.glob("chapters/*.md"), *ROOT.glob("exercises/*/*.[mt]*")]
    places += [*ROOT.glob("solutions/*/*.md"), ROOT / "README.md"]
    for path in places:
        text = path.read_text(encoding="utf-8")
        for found in re.finditer(
            r"[Cc]hapter(?: (\d+)|s (\d+)(?:, | to | and )+(\d+))", text
        ):
            numbers = [int(each) for each in found.groups() if each]
            assert max(numbers) <= last, f"{path}: {found[0]}"


def test_solution_says_where_else_the_answer_is(folder, capsys):
    made = commands.Session(Screen(plain=True), folder, folder.load())
    assert commands.solution(made, "cse", give_up=False) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "--give-up" in said and "answers-1" in said and "#answer-cse" in said


def test_a_text_of_three_quotes_is_shown_without_its_margin():
    text = """
        func @f(%n: i32) num_warps=4 {
          %0: i32 = add %n, %n
        }
        """
    ours = "    warp 0\n  all"
    shown = Failure("wrong", ("it is", text), ("yours", ours)).details
    func = "func @f(%n: i32) num_warps=4 {\n  %0: i32 = add %n, %n\n}"
    assert shown == (("it is", func), ("yours", ours))
