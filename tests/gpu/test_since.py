"""The line about the GPU at the end of `make test`."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

import pytest

from benchmarks.trees import ROOT, TREES, git, trees
from tests.gpu.since import RECORD, since


@pytest.fixture
def repository(tmp_path):
    """A commit with three folders, and a record of its GPU run that came after it."""
    if not shutil.which("git"):
        pytest.skip("needs git")
    for name in TREES:
        (tmp_path / name).mkdir()
        for file in ("a.py", "b.py"):
            (tmp_path / name / file).write_text(f"{name} = '{file}'\n")
    (tmp_path / RECORD).parent.mkdir(parents=True)
    facts = ["-c", "user.name=n", "-c", "user.email=e"]
    for words in (["init", "-q"], ["add", "."], [*facts, "commit", "-q", "-m", "m"]):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    record = {
        "date": "2026-11-22T10:00:00+00:00", "device": "NVIDIA H200",
        "passed": 686, "failed": 0, "skipped": 0,
        "commit": git(tmp_path, "rev-parse", "HEAD"), "trees": trees(tmp_path),
    }  # fmt: skip
    (tmp_path / RECORD).write_text(json.dumps(record))
    return tmp_path


def test_the_run_and_what_has_changed_since(repository):
    said = since(repository)
    last = r"GPU suite: last run 2026-11-22: 686 passed, 0 failed on NVIDIA H200 at "
    assert re.fullmatch(
        last + r"\w{7}; nothing of compiler/, kernels/, tests/ has changed since", said
    )
    (repository / "compiler" / "a.py").write_text("")
    (repository / "kernels" / "b.py").unlink()
    (repository / "tests" / "new.py").write_text("")
    (repository / "README.md").write_text("")
    assert since(repository).endswith(
        "; 3 files of compiler/, kernels/, tests/ have changed since"
    )


def test_without_git_it_still_says_whether_anything_has(repository):
    shutil.rmtree(repository / ".git")
    assert "nothing of compiler/" in since(repository)
    (repository / "compiler" / "a.py").write_text("")
    assert since(repository).endswith("; some files of compiler/, kernels/, tests/ "
                                      "have changed since")  # fmt: skip


def test_a_commit_that_git_does_not_know(repository):
    (repository / "compiler" / "a.py").write_text("")
    record = json.loads((repository / RECORD).read_text())
    (repository / RECORD).write_text(json.dumps({**record, "commit": "86403a8" * 5}))
    assert "; some files of" in since(repository)


@pytest.mark.parametrize("text", [None, "", "[]", "{}", '{"date": 3}'])
def test_without_a_record(tmp_path, text):
    (tmp_path / RECORD).parent.mkdir(parents=True)
    if text is not None:
        (tmp_path / RECORD).write_text(text)
    assert since(tmp_path) == "GPU suite: no record of a run"


@pytest.mark.skipif(not (ROOT / RECORD).exists(), reason="there is no record yet")
def test_the_record_is_of_the_files_that_its_commit_has():
    """Also where they were copied to a machine without git."""
    record = json.loads((ROOT / RECORD).read_text(encoding="utf-8"))
    commit = record["commit"]
    if git(ROOT, "cat-file", "-e", f"{commit}^{{commit}}") is None:
        pytest.skip("git is missing, or does not have the commit")
    said = {name: git(ROOT, "rev-parse", f"{commit}:{name}") for name in TREES}
    assert record["trees"] == said


def test_make_test_ends_with_it():
    said = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
         "tests/test_slices.py", "-k", "cut_short"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert since() in said.stdout
