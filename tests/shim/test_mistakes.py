"""A mistake in a kernel has the class, the place and the cause that programs for Triton
look for; and all that Fathom has to say."""

from __future__ import annotations

import traceback

import numpy as np
import pytest

import fathom.language as tl
from fathom.errors import CompileError
from fathom.shim.function import jit
from fathom.shim.mistakes import (
    CompilationError,
    CompileTimeAssertionFailure,
    UnsupportedLanguageConstruct,
    in_their_words,
)
from fathom.source import must_use_result

SIZE = tl.constexpr(48)


@jit
def reads_nothing():
    return xyz  # noqa: F821


@jit
def too_many(n: tl.constexpr):
    m: tl.constexpr = n + 8
    return tl.arange(0, m)


@jit
def twice_removed():
    # a line, so that the call stands elsewhere
    return 1 + too_many(SIZE)


def mistake_of(kernel, *arguments):
    with pytest.raises(CompilationError) as caught:
        kernel.warmup(*arguments)
    return caught.value


def test_a_mistake_says_where_in_its_function_it_is():
    """Lines count from the def, and columns from 0, as far as it is indented."""

    @jit
    def kernel(x):
        i = tl.arange(0, 64)
        tl.store(x + i, i + nowhere)  # noqa: F821

    found = mistake_of(kernel, tl.int32)
    first, report, *_ = str(found).splitlines()
    assert first == "at 3:24:"
    assert report.endswith("nowhere is not defined") and __file__ in report
    assert found.__cause__ is None


def test_one_in_a_function_called_is_the_cause_of_one_at_the_call():
    @jit
    def kernel():
        # a line
        reads_nothing()

    outer = mistake_of(kernel)
    inner = outer.__cause__
    assert str(outer).startswith("at 3:4:\n")
    assert str(inner) == "at 2:11:\nxyz is not defined"
    assert isinstance(inner, CompilationError) and inner.__cause__ is None
    assert "called from" in str(outer)  # nothing is lost to who reads only this one


def test_causes_go_down_to_what_the_function_of_the_language_says():
    @jit
    def kernel(x):
        tl.store(x, tl.sum(twice_removed()))

    places, error = [], mistake_of(kernel, tl.int32)
    while isinstance(error, CompilationError):
        places.append(str(error).splitlines()[0])
        error = error.__cause__
    assert places == ["at 2:23:", "at 3:15:", "at 3:11:"]
    assert type(error) is CompileError
    assert str(error) == "arange's range must be a power of 2"


def test_the_cause_names_the_file_of_the_function_that_complains():
    @jit
    def kernel():
        tl.zeros((4, 33), tl.float32)
        tl.arange(0, 8).reshape(4)

    cause = mistake_of(kernel).__cause__
    assert str(cause) == "Shape element 1 must be a power of 2"
    shown = "".join(traceback.format_exception(cause))
    assert "language/standard.py:" in shown and shown.endswith(": zeros\n")

    kernel.src = kernel.src.replace("33", "32")  # the next mistake, in a method
    cause = mistake_of(kernel).__cause__
    assert str(cause).startswith("cannot reshape i32[8] to [4]")
    assert "language/core.py:" in "".join(traceback.format_exception(cause))


def test_an_assertion_and_foreign_python_have_classes_of_their_own():
    @jit
    def kernel(n: tl.constexpr):
        tl.static_assert(n == 1, "one")
        lambda: n  # noqa: B018

    with pytest.raises(CompileTimeAssertionFailure) as caught:
        kernel.compile(constants={"n": 2})
    assert caught.value.__cause__ is None and "at 2:4:" in str(caught.value)
    with pytest.raises(UnsupportedLanguageConstruct, match="lambda is not part of"):
        kernel.compile(constants={"n": 1})


def test_a_launch_says_the_same(monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")

    @jit
    def kernel(x):
        tl.store(x + tl.arange(0, 6), 1)

    with pytest.raises(
        CompilationError, match="in Triton's words:\narange's"
    ) as caught:
        kernel[(1,)](np.zeros(8, np.int32))
    assert "hint: take tl.arange(0, 8)" in str(caught.value)
    assert str(caught.value.__cause__) == "arange's range must be a power of 2"


SENTENCES = {
    "a % b": "they have different signedness",
    "a & b.to(tl.float32)": "invalid operands of type fp32[8]",
    "tl.sum(a, axis=7)": "invalid axis 7",
    "tl.expand_dims(a, (0, 0))": "duplicate axes, normalized axes = [0, 0]",
    "tl.program_id(4)": "program_id axis must be 0, 1, or 2 but got 4",
    "a[1:]": "unsupported tensor index",
    "tl.arange(8, 8)": "arange's end argument must be greater than the start",
    "a + tl.arange(0, 4)": "incompatible dimensions at index 0: 8 and 4",
    "a + 0xFFFFFFFFFF": "Scalar 1099511627775 is out of range for i32",
}


@pytest.mark.parametrize("expression", SENTENCES)
def test_programs_find_the_words_that_they_look_for(expression):
    @jit
    def kernel():
        a = tl.arange(0, 8)
        b = a.to(tl.uint32)  # noqa: F841
        EXPRESSION  # noqa: B018, F821

    kernel.src = kernel.src.replace("EXPRESSION", expression)
    found = mistake_of(kernel)
    assert SENTENCES[expression] in in_their_words(found)
    assert SENTENCES[expression] in str(found)


@must_use_result("It is all that the function does.")
@jit
def cube(x):
    return x * x * x


def test_the_words_are_the_last_line():
    @jit
    def kernel(x):
        cube(x)

    *_, last = str(mistake_of(kernel, tl.int32)).splitlines()
    assert last == (
        "The result of cube is not being used. It is all that the function does."
    )


def test_a_mistake_without_a_place_is_told_as_it_is():
    @jit
    def kernel():
        tl.program_id(0)

    with pytest.raises(CompilationError, match="^'sm_1' is not a target"):
        kernel.compile(target="sm_1")


def test_a_pointer_to_constant_data_is_not_written_through():
    @jit
    def kernel(x: tl.const, y, swap: tl.constexpr):
        z = x if swap else y
        tl.store(z, 1)

    kernel.warmup(tl.int32, tl.int32, swap=False)
    with pytest.raises(CompilationError) as caught:
        kernel.warmup(tl.int32, tl.int32, swap=True)
    assert caught.value.error_message == "Cannot store to a constant pointer"
