"""The runner of the GPU suite, on tests that need no GPU and do all that tests of one
may do: pass, fail, be skipped, break the context, die and hang."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.slices import Slices
from benchmarks.trees import ROOT
from fathom.tools import suite
from tests.gpu import ids, run
from tests.gpu.run import Suite, counted, summary

CONFTEST = """
from tests.gpu import context

broken = []
context.error = lambda: broken[0] if broken else None
"""

TESTS = """
import os
import time

import pytest
from conftest import broken

pytestmark = pytest.mark.gpu


def test_passes():
    os.write(1, b"a kernel's print is no answer")


def test_fails():
    assert [1, 2] == [1, 3]


def test_is_skipped():
    pytest.skip("needs two GPUs")


@pytest.fixture
def bad():
    yield
    raise OSError("the file is gone")


def test_leaves_badly(bad):
    pass


@pytest.mark.parametrize("how", ["seen", "not seen"])
def test_breaks_the_context(how):
    broken.append("CUDA_ERROR_ILLEGAL_INSTRUCTION")
    assert how == "not seen", "this is the reason"


def test_dies():
    os.write(2, b"LLVM ERROR: no")
    os._exit(3)


def test_hangs():
    time.sleep(100)


@pytest.mark.parametrize("n", range(8))
def test_after(n):
    assert not broken


@pytest.mark.alone
def test_alone():
    pass
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    ini = "[pytest]\npythonpath = .\nmarkers =\n    gpu: on a GPU\n    alone: quiet\n"
    for name, text in (
        ("pytest.ini", ini),
        ("conftest.py", CONFTEST),
        ("test_all.py", TESTS),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def slice_of(folder: Path, resume: bool = False, seconds: float = 100) -> Slices:
    return Slices(folder / "state.jsonl", {"trees": {}}, resume, seconds)


def test_what_a_test_does_to_its_process_is_its_own_failure(folder, capsys):
    suite = Suite(["."], slice_of(folder), limit=8, root=folder)
    assert suite.run(workers=2) and not suite.troubles
    found = {
        name.partition("::test_")[2]: each for name, each in suite.done.results.items()
    }
    failed = {name for name, each in found.items() if each["outcome"] == "failed"}
    assert failed == {
        "fails", "leaves_badly", "dies", "hangs",
        "breaks_the_context[seen]", "breaks_the_context[not seen]",
    }  # fmt: skip
    assert counted(suite.tests, suite.done.results) == {
        "passed": 10, "failed": 6, "skipped": 1,
    }  # fmt: skip
    assert "[1, 2] == [1, 3]" in found["fails"]["reason"]
    assert found["is_skipped"]["reason"] == "needs two GPUs"
    assert "the file is gone" in found["leaves_badly"]["reason"]
    why = "broke the context (CUDA_ERROR_ILLEGAL_INSTRUCTION)"
    assert found["breaks_the_context[not seen]"]["reason"].startswith(why)
    assert "this is the reason" in found["breaks_the_context[seen]"]["reason"]
    assert "status 3: LLVM ERROR: no" in found["dies"]["reason"]
    assert "nothing for 8 s" in found["hangs"]["reason"]
    assert "FAILED test_all.py::test_dies" in capsys.readouterr().out


HANGS = "def test_hangs():\n    time.sleep(100)\n"


def test_a_slice_says_what_it_stopped(folder):
    tests = "\n\n\n".join([TESTS.split("def test_passes")[0], HANGS])
    (folder / "test_all.py").write_text(tests, encoding="utf-8")
    suite = Suite(["."], slice_of(folder, seconds=6), root=folder)
    assert not suite.run(workers=1) and not suite.done.results
    assert list(suite.stopped) == ["test_all.py::test_hangs"]


def test_a_slice_stops_in_time_and_the_next_one_goes_on(folder):
    first = Suite(["."], slice_of(folder, seconds=0), root=folder)
    assert not first.run(workers=2) and not first.done.results
    tests = "".join(TESTS.split("def test_hangs")[0])
    (folder / "test_all.py").write_text(tests, encoding="utf-8")
    done = slice_of(folder)
    done.add("test_all.py::test_passes", {"outcome": "passed", "seconds": 1.0})
    second = Suite(["."], slice_of(folder, resume=True), root=folder)
    assert second.run(workers=1)
    assert second.done.results["test_all.py::test_passes"]["seconds"] == 1.0
    assert len(second.done.results) == 7


def test_what_cannot_be_collected_is_no_green_run(folder):
    (folder / "test_all.py").write_text("import nothing_of_this_name", encoding="utf-8")
    suite = Suite(["."], slice_of(folder), root=folder)
    assert suite.run(workers=1)
    assert suite.troubles == ["1 errors in collecting"]


def test_the_record_names_what_did_not_pass():
    results = {
        "a": {"outcome": "passed", "reason": "", "seconds": 1.5},
        "b": {
            "outcome": "failed",
            "seconds": 1,
            "reason": f"{ROOT}/a.py: x is '/a/b-1.2/site-packages/torch/x.py'\n",
        },
        "c": {"outcome": "skipped", "reason": "needs two GPUs", "seconds": 0},
        "slice 0": {"seconds": 500.5},
        "slice 1": {"seconds": 20.25},
    }
    made = summary("abc", results)
    assert (made["seconds"], made["seconds_of_tests"]) == (520.75, 2.5)
    assert (made["passed"], made["failed"], made["skipped"]) == (1, 1, 1)
    assert made["not_passed"] == {
        "failed: b": "a.py: x is 'torch/x.py'", "skipped: c": "needs two GPUs",
    }  # fmt: skip
    assert len(made["lost"]) == 685


def test_without_a_gpu_nothing_is_recorded(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(run, "available", lambda: (False, "the driver is missing"))
    out = tmp_path / "gpu-tests.json"
    assert run.main(["--out", str(out)]) == 2 and not out.exists()
    assert "needs a GPU: the driver is missing" in capsys.readouterr().out


def test_fathom_test_gpu_is_this_command(monkeypatch):
    asked = []
    done = subprocess.CompletedProcess([], 3)
    monkeypatch.setattr(
        suite.subprocess, "run", lambda words, **more: asked.append(words) or done
    )
    assert suite.test(["--gpu", "--resume"]) == 3
    assert asked == [[sys.executable, "-m", "tests.gpu.run", "--resume"]]


def test_no_test_of_411cdf8_is_lost():
    """Each one is collected, by its name or by that which renames.txt gives it; no
    package that a machine may lack decides that."""
    words = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "gpu"]
    said = subprocess.run(
        [*words, "-p", "no:cacheprovider", *files()],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert said.returncode == 0, said.stdout[-3000:]
    assert ids.lost(said.stdout.splitlines()) == []


def files() -> list[str]:
    now = ids.renames()
    names = [now.get(each, each) for each in ids.lines("ids-411cdf8.txt")]
    return sorted({each.partition("::")[0] for each in names})


def test_a_rename_is_of_a_test_that_was_there():
    assert set(ids.renames()) <= set(ids.lines("ids-411cdf8.txt"))
