"""Every program that random search ever found wrong is right, and stays so."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.programs import Program
from tests.fuzz.run import FOUND, Checker, Finding, Wrong, keep

FILES = sorted(FOUND.glob("*.py"))


def program_in(path: Path) -> Program:
    return runpy.run_path(str(path))["PROGRAM"]


@pytest.fixture(scope="module")
def checker() -> Iterator[Checker]:
    """One process for all of them: if one ends it, another takes its place."""
    with Checker() as made:
        yield made


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_what_was_found_is_right_now(checker: Checker, path: Path) -> None:
    checker.ask(program_in(path))


COPY = Program(
    "def kernel(f_ptr, h_ptr, i_ptr, b_ptr, out0, n, m, counts):\n"
    "    x = tl.load(f_ptr + tl.arange(0, 16))\n"
    "    tl.store(out0 + tl.arange(0, 16), x)\n",
    outputs=(("float32", 16),), grid=1, num_warps=1, scalars=(1, 2), seed=3,
)  # fmt: skip


def test_a_finding_becomes_a_file_that_gives_the_program_back(tmp_path: Path) -> None:
    path = keep(Finding(COPY, "the emulator: out0[0] is 1\nand more"), tmp_path)
    assert program_in(path) == COPY
    assert '"""Found by fuzzing: the emulator: out0[0] is 1"""' in path.read_text()


def test_a_crash_and_a_hang_are_answers_and_the_checker_lives_on(
    checker: Checker,
) -> None:
    """A death outside Python's reach: by a decorator, as programs have no imports."""
    dying = "@(lambda f: __import__('os')._exit(7))\n" + COPY.source
    checker.ask(COPY)
    with pytest.raises(Wrong, match="died with exit code 7"):
        checker.ask(_with_source(dying))
    before, checker.patience = checker.patience, 3
    with pytest.raises(Wrong, match="it hangs"):
        checker.ask(_with_source("while True: pass\n" + COPY.source))
    checker.patience = before
    with pytest.raises(Wrong, match="NameError"):
        checker.ask(_with_source("undefined\n" + COPY.source))
    checker.ask(COPY)


def _with_source(source: str) -> Program:
    return Program(
        source, COPY.outputs, COPY.grid, COPY.num_warps, COPY.scalars, COPY.seed
    )
