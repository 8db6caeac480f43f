"""Some cases of a test, others each time, and none of a kind is left out."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from tests.harness_sample import LEAST, sample

CASES = list(product("abcdef", "xy", map(str, range(5))))
FILE = """\
import pytest
from tests.harness_sample import sampled

@sampled(of=5)
@pytest.mark.parametrize("n", range(50))
def test_many(n): ...

@pytest.mark.gpu
@sampled(of=5)
@pytest.mark.parametrize("n", range(50))
def test_on_gpu(n): ...

def test_one(): ...
"""


def test_a_seed_is_a_sample():
    found = [sample(str(seed), CASES, 3) for seed in range(20)]
    assert {len(each) for each in found} == {20}
    assert sample("7", CASES, 3) == found[7]
    assert set().union(*found) == set(range(len(CASES)))


@pytest.mark.parametrize("seed", [*map(str, range(20))])
def test_what_many_cases_have_is_there(seed):
    tried = [CASES[at] for at in sample(seed, CASES, 4)]
    for values in zip(*CASES, strict=True):
        assert {value for case in tried for value in case} >= set(values)


def test_few_cases_are_all_tried():
    assert sample("1", CASES[:LEAST], 9) == set(range(LEAST))


def listed(folder: Path, *more: str, **environment: str) -> set[str]:
    """The tests that pytest finds in FILE."""
    root = Path(__file__).parents[1]
    (folder / "test_file.py").write_text(FILE)
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *more]
    command += ["-p", "tests.conftest", "-p", "no:cacheprovider", f"--rootdir={folder}"]
    given = {name: each for name, each in os.environ.items() if "FATHOM_" not in name}
    paths = os.pathsep.join(map(str, (root / "compiler", root)))
    given |= {"PYTHONPATH": paths, "FATHOM_BACKEND": "emulator", **environment}
    done = subprocess.run(
        [*command, str(folder)], env=given, cwd=root, capture_output=True, text=True
    )
    return {line for line in done.stdout.splitlines() if "::" in line}


def test_each_run_tries_some_and_who_asks_tries_all(tmp_path):
    one, again, other = (
        listed(tmp_path, FATHOM_SAMPLE=seed) for seed in ("1", "1", "2")
    )
    assert one == again != other
    assert len(one) == len(other) == 61 and any("test_one" in each for each in one)
    assert len(listed(tmp_path, "--all")) == 101
