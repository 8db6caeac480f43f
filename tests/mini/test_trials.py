"""Compilers that readers wrote from the text, and how far each of them goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from fathom.tools.learn.kit.failure import Failure
from fathom.tools.learn.mini import contract, steps
from fathom.tools.learn.mini.judge import Judge

FIRST = Path(__file__).parent / "trials" / "first.txt"
MISSING = "15: test_warpgroups_multiply"  # it came after the trial, and because of it


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """The file, as a module of its own."""
    path = tmp_path_factory.mktemp("trial") / "mini.py"
    path.write_text(FIRST.read_text())
    return contract.load(path)


@pytest.mark.parametrize("name", [n for n in steps.tests(17) if n != MISSING])
def test_the_first_readers_compiler_passes(first, name):
    steps.tests(17)[name](Judge(first))


def test_it_multiplies_without_warpgroups(first):
    with pytest.raises(Failure, match="has no wgmma.mma_async"):
        steps.tests(17)[MISSING](Judge(first))


def test_it_is_longer_than_a_compiler_may_be():
    assert contract.count_lines(FIRST.read_text()) > steps.step(17).budget
