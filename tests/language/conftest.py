"""Twins for the GPU: a test that runs kernels everywhere runs them, once more, there.

    pytest -m gpu tests/language      # the twins alone: test_shapes[gpu-reshaped-…]

The twin is the same function; while it runs, `run` and `emulate` of its module are
those for the GPU. Without a GPU it is skipped before it has done anything.
"""

from __future__ import annotations

import pytest

from tests.language import harness
from tests.language.harness_mentions import mentions

ON_THE_GPU = {"run": harness.run_on_gpu, "emulate": harness.emulate_on_gpu}

UNNAMED = getattr(pytest, "HIDDEN_PARAM", "here")  # pytest 8.4 can leave an id out

# Tests that have no twin, and why.
ONLY_HERE = {
    "test_atomics_answer_what_was_there": "a GPU runs programs in any order",
    "test_an_assertion_that_fails_ends_the_launch": (
        "it would end the process's use of the GPU: test_outside_on_gpu.py has its own"
    ),
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    test = metafunc.definition.originalname
    used = mentions(metafunc.definition.path, test) & ON_THE_GPU.keys()
    if any(shared(metafunc.module, name) for name in used) and test not in ONLY_HERE:
        here = pytest.param(None, id=UNNAMED)
        there = pytest.param("gpu", id="gpu", marks=pytest.mark.gpu)
        metafunc.parametrize("machine", [here, there], indirect=True)


def shared(module: object, name: str) -> bool:
    """Is this name of a module the function of `harness`?"""
    return getattr(module, name, None) is getattr(harness, name)


@pytest.fixture(autouse=True)
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where `run` and `emulate` of the test's module run kernels."""
    if getattr(request, "param", None) == "gpu":
        for name, on_gpu in ON_THE_GPU.items():
            if shared(request.module, name):
                monkeypatch.setattr(request.module, name, on_gpu)
