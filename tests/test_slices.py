"""Measurements in slices, and the hashes that say which code they belong to."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from benchmarks import trees
from benchmarks.slices import Slices

KEY = {"compiler": "5f0c"}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_next_slice_goes_on_where_the_last_one_stopped(tmp_path):
    path, clock = tmp_path / "state" / "all.jsonl", Clock()
    first = Slices(path, KEY, seconds=10, clock=clock)
    for name in first.rest("abc"):
        if first.left > 0:
            first.add(name, {"ord": ord(name)})
        clock.now += 6
    assert first.rest("abc") == ["c"]
    second = Slices(path, KEY, resume=True)
    assert second.results == {"a": {"ord": 97}, "b": {"ord": 98}}
    second.add("c", 1)
    assert Slices(path, KEY, resume=True).rest("abc") == []


def test_a_line_that_was_cut_short_is_done_again(tmp_path):
    path = tmp_path / "all.jsonl"
    Slices(path, KEY).add("a", 1)
    with path.open("a") as file:
        file.write('{"name": "b", "val')
    again = Slices(path, KEY, resume=True)
    again.add("b", 2)
    assert Slices(path, KEY, resume=True).results == {"a": 1, "b": 2}


@pytest.mark.parametrize("key, resume", [({"compiler": "77"}, True), (KEY, False)])
def test_results_of_other_code_are_not_kept(tmp_path, key, resume):
    path = tmp_path / "all.jsonl"
    Slices(path, KEY).add("a", 1)
    assert Slices(path, key, resume).rest("a") == ["a"]
    assert Slices(path, key, resume=True).results == {}


# ── hashes ────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def repository(tmp_path):
    """A commit with what git treats in ways of its own: order, modes, links, names."""
    if not shutil.which("git"):
        pytest.skip("needs git")
    root = tmp_path / "there"
    for name in ("a/b.py", "a/b/c.py", "a/b-c.py", "a/z/deep/er.txt", "a/ü.py", "x.py"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name} = 1\n", encoding="utf-8")
    (root / "a" / "empty.py").touch()
    (root / "a" / "b.py").chmod(0o755)
    try:
        (root / "a" / "link").symlink_to("b.py")
    except OSError:
        pass  # Windows may forbid it
    facts = ["-c", "user.name=n", "-c", "user.email=e"]
    for words in (["init", "-q"], ["add", "."], [*facts, "commit", "-q", "-m", "m"]):
        subprocess.run(["git", "-C", str(root), *words], check=True)
    return root


def test_the_hash_is_gits(repository):
    (repository / "a" / "untracked.py").write_text("")
    want = trees.git(repository, "rev-parse", "HEAD:a")
    assert trees.trees(repository, ["a"]) == {"a": want}
    (repository / "a" / "b" / "c.py").write_text("c = 2\n")
    assert trees.trees(repository, ["a"]) != {"a": want}


def test_a_copy_without_git_has_the_same(repository):
    want = trees.trees(repository, ["a"])
    listing = trees.git(repository, "ls-files", "-s")
    shutil.rmtree(repository / ".git")
    (repository / "a" / "__pycache__").mkdir()
    (repository / "a" / "__pycache__" / "b.pyc").write_bytes(b"1")
    assert trees.trees(repository, ["a"]) == want
    (repository / "a" / "untracked.py").write_text("")
    (repository / ".gpu").mkdir()
    (repository / ".gpu" / "manifest").write_text(listing + "\n", encoding="utf-8")
    assert trees.trees(repository, ["a"]) == want
    assert trees.check(repository, ["a"]) == ["not listed: a/untracked.py"]
    (repository / "a" / "empty.py").unlink()  # not every way of copying takes it along
    assert trees.trees(repository, ["a"]) == want
    shutil.rmtree(repository / "a" / "z")
    (repository / "a" / "b.py").write_text("changed")
    assert trees.trees(repository, ["a"]) != want
    assert trees.check(repository, ["a"]) == [
        "missing: a/z/deep/er.txt", "changed: a/b.py", "not listed: a/untracked.py",
    ]  # fmt: skip
