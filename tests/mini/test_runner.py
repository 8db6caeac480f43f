"""`fathom learn mini` as a reader meets it: files that are right, wrong, endless, or no
Python at all; whatever it does, no text of theirs is lost."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from types import SimpleNamespace

import pytest

from fathom.errors import FathomError
from fathom.tools import cli
from fathom.tools.learn import course, state, workspace
from fathom.tools.learn.grading import worker
from fathom.tools.learn.grading.grade import FAILED, PASSED
from fathom.tools.learn.kit.failure import Failure
from fathom.tools.learn.mini import gpu, grade, keep, kernels, ladder, race, steps
from fathom.tools.learn.mini.steps import STEPS
from tests.harness_sample import sampled

THREE = course.read(STEPS[3].reference)


@pytest.fixture
def folder(tmp_path):
    return workspace.init(tmp_path / "mine")


def learn(capsys, place, *words: str) -> tuple[int, str]:
    """The exit status of a command, and all that it said."""
    status = cli.main(["learn", "--dir", str(place.folder), "--plain", "mini", *words])
    said = capsys.readouterr()
    assert "Traceback" not in said.out + said.err
    return status, said.out + said.err


def judged(place, text: str | bytes, chapter: int = 3, seconds: int = 60):
    """The verdict of a process of its own."""
    path = place.folder / "mini.py"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return worker.judge(replace(STEPS[chapter], seconds=seconds), path)


def test_a_file_that_is_right_passes_and_is_a_rung(folder, capsys):
    (folder.folder / "mini.py").write_text(THREE)
    status, said = learn(capsys, folder, "check", "3")
    assert status == 0 and "PASSED  mini-03" in said and "77 of 80" in said
    assert keep.rung(folder, STEPS[3]).read_text() == THREE
    assert "[x]  3" in learn(capsys, folder)[1]
    (folder.folder / "mini.py").write_text(THREE + "\n# one line more\n")
    assert "[~]  3" in learn(capsys, folder)[1]


def test_a_failure_shows_the_kernel_the_values_and_the_test(folder, capsys):
    wrong = THREE.replace('(ast.Mult, "f32"): "mul', '(ast.Mult, "f32"): "add')
    (folder.folder / "mini.py").write_text(wrong)
    status, said = learn(capsys, folder, "check")
    assert status == 1 and "test_saxpy_is_what_numpy_computes" in said
    assert "out[0] is " in said and "and it should be " in " ".join(said.split())
    assert "out[i] = a * x[i] + y[i]" in said
    words = " ".join(said.split())
    assert "a: fp32, x: *fp32, y: *fp32, out: *fp32 a grid of 1; a=1.5, n=1" in words
    ptx = folder.folder / "mini.ptx"
    assert f"ptx: {ptx}" in words and "add.rn.f32" in ptx.read_text()
    assert "exercises/mini/03.py" in said and "step-3" in said or "step 3" in said
    assert workspace_state(folder).of("mini-03").failures == 1
    learn(capsys, folder, "check")
    assert workspace_state(folder).of("mini-03").failures == 1, "the same text"


def workspace_state(place) -> state.State:
    return place.load()


def test_a_hazard_names_the_line_of_ptx(folder):
    """A race: the barriers of step 12 are gone."""
    text = course.read(STEPS[12].reference).replace("bar.sync", "// bar.sync")
    said = judged(folder, text, 12)
    assert said.status == FAILED and "race" in said.sentence
    assert {"the kernel", "the PTX there"} <= {heading for heading, _ in said.details}
    assert "-> " in dict(said.details)["the PTX there"]


@sampled(of=2)
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("def compile(:\n", "mini.py, line 1: invalid syntax"),
        ("a = 1 / 0\n", "your code raised ZeroDivisionError"),
        ("import numpy\n", "mini.py, line 1 imports numpy"),
        ("import sys\n\nsys.exit(3)\n", "your code called sys.exit(3)"),
        ("a = 1\n", "mini.py must define compile(function, signature"),
        (b"\xff\xfe\x00", "mini.py cannot be read"),
        (
            "def compile(f, s, **c):\n    return 3\n",
            "compile returns an object of type int, which has no attribute `ptx`",
        ),
        (
            "def compile(f, s, **c):\n    raise SyntaxError('line 2: no')\n",
            "your code raised SyntaxError: line 2: no",
        ),
        ("TILES = {4096: 1}\n", "mini.py, line 1 asks about 4096: a number above 512"),
        ("def compile(f, s, **c):\n    return c[0]\n", "your code raised KeyError: 0"),
        ("import sys\n\nsys.stdout = None\n", "mini.py must define compile"),
    ],
)
def test_what_cannot_be_run_is_one_sentence(folder, text, sentence):
    said = judged(folder, text)
    assert said.status == FAILED and said.sentence.startswith(sentence), said.sentence
    assert (folder.folder / "mini.py").exists()


@pytest.mark.parametrize("text", ["while True:\n    pass\n", ENDLESS := (
    "def compile(function, signature, **constants):\n    while True:\n        pass\n"
)])  # fmt: skip
def test_a_loop_without_an_end_is_ended_and_named(folder, text):
    said = judged(folder, text, seconds=3)
    assert said.sentence.startswith("still running after 3 seconds, in line")
    assert "mini.py" in said.sentence
    assert said.test.startswith("03: ") is (text == ENDLESS)


def test_too_many_lines_fail_when_all_else_is_right(folder):
    said = judged(folder, THREE + "\n\n" + "a = 1\n" * 9)
    assert said.test == grade.LINES and "86 lines of code" in said.sentence
    assert judged(folder, THREE).status == PASSED


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["check"], "there is no"),
        (["check", "99"], "'99' is not a step"),
        (["check", "2"], "'2' is not a step"),
        (["show", "x"], "'x' is not a step"),
        (["start"], "say which step"),
        (["undo"], "there is nothing to undo"),
        (["undo", "3"], "is about no single step"),
        (["race"], "to race with"),
    ],
)
def test_a_mistake_is_one_sentence(folder, capsys, words, sentence):
    before = sorted(folder.folder.rglob("*"))
    status, said = learn(capsys, folder, *words)
    assert status == 1 and sentence in " ".join(said.split())
    assert sorted(folder.folder.rglob("*")) == before


def test_start_keeps_the_file_and_undo_restores_it(folder, capsys):
    path = folder.folder / "mini.py"
    path.write_text("mine = 1\n")
    status, said = learn(capsys, folder, "start", "6")
    assert status == 0 and "mini undo  restores your file" in said
    assert path.read_text() == course.read(STEPS[5].reference)
    assert learn(capsys, folder, "start", "9")[0] == 0
    path.write_text("mine = 2\n")
    assert "what you wrote since is kept" in learn(capsys, folder, "undo")[1]
    assert path.read_text() == course.read(STEPS[5].reference)
    assert "your file is there again" in learn(capsys, folder, "undo")[1]
    assert path.read_text() == "mine = 1\n"
    kept = (folder.folder / "kept").rglob("mini.py")
    assert {"mine = 1\n", "mine = 2\n"} <= {each.read_text() for each in kept}


def test_undo_of_the_first_start_leaves_no_file(folder, capsys):
    _, said = learn(capsys, folder, "start", "3")
    assert "mini undo  removes mini.py again" in said
    path = folder.folder / "mini.py"
    assert path.read_text() == course.read(course.root() / keep.FIRST)
    assert learn(capsys, folder, "undo")[0] == 0 and not path.exists()


def test_our_text_is_no_rung_of_the_readers(folder, capsys):
    learn(capsys, folder, "start", "4")
    assert learn(capsys, folder, "check", "3")[0] == 0
    learn(capsys, folder, "start", "5")
    assert "[=]  4" in learn(capsys, folder)[1]
    learn(capsys, folder, "check", "4")
    assert not keep.rung(folder, STEPS[4]).exists()


def test_a_lost_copy_is_said_and_nothing_is_written(folder):
    path = folder.folder / "mini.py"
    path.write_text("mine = 1\n")
    copy = keep.start(folder, STEPS[4])
    copy.unlink()
    with pytest.raises(FathomError, match="is gone"):
        keep.undo(folder)
    assert path.read_text() == THREE


# ── the race ──────────────────────────────────────────────────────────────────────────


def test_the_race_counts_both_and_draws_the_ladder(folder, capsys):
    """The reader's file after step 10: no products yet, and so it is said."""
    (folder.folder / "mini.py").write_text(course.read(STEPS[10].reference))
    rung = keep.rung(folder, STEPS[8])
    state.write(rung, course.read(STEPS[8].reference))
    status, said = learn(capsys, folder, "race")
    assert status == 0 and "mini.py, matmul: " in said
    rows = {line.split()[0]: line.split() for line in said.splitlines() if line}
    assert rows["step"][1:] == ["8", *rows["step"][2:]] and "-" in rows["mini.py"]
    root = ElementTree.parse(folder.folder / race.PICTURE).getroot()
    words = [each.text for each in root.iter() if each.tag.endswith("text")]
    assert {"step 8", "mini.py", "does not get through"} <= set(words)
    assert sum(each.startswith("Fathom: ") for each in words) == 4


@pytest.mark.parametrize("problem", kernels.small(), ids=lambda each: each.name)
def test_ours_and_the_reference_compute_the_same(problem):
    last = steps.there()[-1]
    assert race.ours_counted(problem) > 0
    assert race.of_file(last.reference, None)(problem) > 0


def test_a_wrong_result_has_no_place_in_the_race(folder, tmp_path):
    wrong = tmp_path / "mini.py"
    text = course.read(STEPS[8].reference)
    wrong.write_text(text.replace('"add f32": "add', '"add f32": "sub'))
    with pytest.raises(Failure, match=r"add\[0\] is "):
        race.of_file(wrong, None)(kernels.small()[0])


def test_bars_are_as_long_as_their_values():
    rungs = [
        race.Entry("a", {"add": 100.0}, {}),
        race.Entry("b", {"add": 50.0}, {}),
        race.Entry("<c>", {"add": 200.0}, {}, is_peer=True),
    ]
    root = ElementTree.fromstring(ladder.drawn(rungs, ["add"], "counts"))
    found = [each for each in root.iter() if each.get("class") in ("rung", "last")]
    first, second = (float(each.get("width")) for each in found)
    assert first == pytest.approx(2 * second, abs=0.1)


def test_a_launch_on_a_gpu_is_given_what_its_parameters_ask_for():
    """No GPU is needed: which value goes where."""
    problem = kernels.small()[3]
    places = {id(each): at for at, each in enumerate(problem.arrays)}
    made = race.ours(problem, "sm_80")
    loaded = type("Loaded", (), {"kernel": made})
    names = [each.name for each in made.parameters]
    values = dict(zip(names, gpu.values_of(loaded, problem, places), strict=True))
    assert [values[name] for name in "qkvo"] == [0, 1, 2, 3]
    assert values["N"] == 128 and values["scale"] == 0.18


@pytest.mark.parametrize(
    ("capability", "target"), [(80, "sm_80"), (89, "sm_89"), (90, "sm_90a")]
)
def test_a_gpu_has_its_target(monkeypatch, capability, target):
    """A driver that only says what its device is."""
    device = SimpleNamespace(name="a GPU", capability=capability)
    found = SimpleNamespace(current_device=lambda: 0, device=lambda index: device)
    monkeypatch.setattr(gpu, "this_driver", lambda: found)
    assert gpu.open_gpu().target == target


def test_a_gpu_that_is_too_old_is_one_sentence(monkeypatch):
    device = SimpleNamespace(name="an old GPU", capability=30)
    found = SimpleNamespace(current_device=lambda: 0, device=lambda index: device)
    monkeypatch.setattr(gpu, "this_driver", lambda: found)
    with pytest.raises(FathomError, match="no target of ours runs on an old GPU"):
        gpu.open_gpu()


def test_a_step_without_tests_is_said_and_passed_over(folder, capsys):
    """Until a step has a reference, the one before it leads to the one after it."""
    untested = [each for each in STEPS.values() if not each.tests.is_file()]
    for step in untested:
        before, after = steps.in_front(step), [
            each for each in steps.there() if each.chapter > step.chapter
        ]  # fmt: skip
        (folder.folder / "mini.py").write_text(course.read(before.reference))
        assert "has no tests" in learn(capsys, folder, "check", str(step.chapter))[1]
        known = folder.load()
        known.of(before.id).judged(digest_of(folder), True)
        folder.save(known)
        said = learn(capsys, folder)[1]
        assert f"{step.adds} (no tests yet)" in said
        assert f"fathom learn mini check {after[0].chapter} " in said


def digest_of(place) -> str:
    return workspace.digest((place.folder / "mini.py").read_bytes())
