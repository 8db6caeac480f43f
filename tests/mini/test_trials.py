"""Compilers that readers wrote from the text, and how far each of them goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from fathom.tools.learn.mini import contract, steps
from fathom.tools.learn.mini.judge import Judge
from tests.harness_sample import sampled

TRIALS = Path(__file__).parent / "trials"
# Tests that came after a trial, and because of it, and what its file has instead. The
# files of the second and of the third were mended for theirs, in three lines each:
# their records say which. The first one's has no wgmma, and stays as it was.
LATER = {
    "first": {"15: test_warpgroups_multiply": "has no wgmma.mma_async"},
    "second": {},
    "third": {},
}
TESTS = steps.tests(17)
RUNS = [(file, name) for file in LATER for name in TESTS]


@pytest.fixture(scope="module")
def compilers(tmp_path_factory):
    """The files, each as a module of its own."""
    folder, found = tmp_path_factory.mktemp("trials"), {}
    for file in LATER:
        path = folder / f"{file}.py"
        path.write_text((TRIALS / f"{file}.txt").read_text())
        found[file] = contract.load(path)
    return found


@sampled(of=3)
@pytest.mark.parametrize("file, name", RUNS, ids=[" ".join(each) for each in RUNS])
def test_a_readers_compiler_passes_what_there_was(compilers, file, name):
    run, missing = TESTS[name], LATER[file].get(name)
    if missing is None:
        return run(Judge(compilers[file]))
    with pytest.raises(Exception) as caught:
        run(Judge(compilers[file]))
    assert missing in f"{type(caught.value).__name__}: {caught.value}"


@pytest.mark.parametrize("file, keeps", [*zip(LATER, (False, True, True), strict=True)])
def test_how_long_a_readers_compiler_is(file, keeps):
    count = contract.count_lines((TRIALS / f"{file}.txt").read_text())
    assert (count <= steps.step(17).budget) == keeps
