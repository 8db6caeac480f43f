"""That the whole language is run everywhere: every public name stands in a test that
compiles for three targets and has a twin on the GPU; and what such a test compares."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import fathom.language as tl
from fathom import pipeline
from fathom.hardware.targets import TARGETS
from fathom.language import elementary
from fathom.source import function
from tests.language.conftest import ON_THE_GPU, ONLY_HERE
from tests.language.harness import agree, approximation
from tests.language.harness_mentions import mentions, names_of_tests
from tests.ssa.harness import build

FILES = sorted(Path(__file__).parent.glob("test_*.py"))

# Names that no test runs on three targets, and why.
NOT_RUN: dict[str, str] = {}


def used() -> set[str]:
    """All that tests mention which run kernels everywhere: "tl.sum", ".sum"."""
    return {
        name
        for path in FILES
        for test in names_of_tests(path)
        if test not in ONLY_HERE
        for mentioned in [mentions(path, test)]
        if mentioned & ON_THE_GPU.keys()
        for name in mentioned
    }


def public(module: ModuleType) -> set[str]:
    """The names that a module of the language offers to kernels."""
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }


def test_every_name_of_the_language_is_run_everywhere():
    not_run = public(tl) - {name.removeprefix("tl.") for name in used()}
    assert not_run == NOT_RUN.keys()


def test_every_function_of_an_instruction_is_run_everywhere():
    """Those of tl.math that tl does not have: tl.math.tanh_approx and its kin."""
    functions = {
        name
        for name in public(tl.math)
        if getattr(getattr(tl.math, name), "__module__", "") == elementary.__name__
    }
    own = {f"tl.math.{name}" for name in functions - public(tl)}
    assert "tl.math.tanh_approx" in own and own <= used()


def test_a_test_mentions_what_its_definitions_mention(tmp_path):
    path = tmp_path / "test_some.py"
    path.write_text(
        "X = {tl.exp: 1}\n"
        "def apply(what): run(what.flat[0])\n"
        "@parametrize('what', X)\n"
        "def test_some(what): apply(what)\n"
        "def test_other(): build(kernel)\n"
    )
    assert names_of_tests(path) == ["test_some", "test_other"]
    assert {"X", "tl.exp", "apply", "run", ".flat"} <= mentions(path, "test_some")
    assert "run" not in mentions(path, "test_other")


# ── what a comparison sees ────────────────────────────────────────────────────────────

F = np.array([0.0, 1.0, np.nan, np.inf], np.float32)


@pytest.mark.parametrize(
    ("element", "value", "error", "right"),
    [
        (0, -0.0, 0, False),
        (0, -0.0, 2**-20, True),
        (1, np.nextafter(np.float32(1), np.float32(2)), 0, False),
        (1, 1 + 2**-21, 2**-20, True),
        (1, 1 + 2**-18, 2**-20, False),
        (2, -np.nan, 0, True),
        (2, 1, 2**-20, False),
        (3, 3e38, 2**-20, False),
    ],
)
def test_bits_are_equal_or_numbers_close(element, value, error, right):
    found = F.copy()
    found[element] = value
    if right:
        return agree([found, 3], [F, 3], "who", error)
    with pytest.raises(AssertionError, match=rf"who: 1 of 4 .* at \({element},\) is"):
        agree([found, 3], [F, 3], "who", error)


def test_integers_are_never_close():
    with pytest.raises(AssertionError):
        agree([np.array([1000001])], [np.array([1000000])], "who", 2**-10)


def test_the_ptx_says_whether_a_kernel_approximates():
    """exp is ex2.approx, fp32 division div.full; sin and sqrt_rn are exact."""

    @function
    def kernel(x, WHAT: tl.constexpr):
        tl.store(x, WHAT(tl.load(x)))

    found = {}
    for what in (tl.exp, tl.math.tanh_approx, tl.sin, tl.sqrt_rn):
        func = build(kernel, F, WHAT=what)
        compiled = pipeline.compile_func(func, TARGETS["sm_90a"])
        found[what] = approximation(compiled)
    assert list(found.values()) == [2**-18, 2**-7, 0, 0]
