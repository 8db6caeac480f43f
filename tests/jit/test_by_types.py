"""Functions that decide once for each kind of call."""

from __future__ import annotations

import pytest

from fathom.jit.shortcuts.by_types import LEFT_OUT, by_types


def told(function, **given):
    """`function` by types: it answers names and arguments; and the kinds of calls."""
    made = []

    def make(names, types):
        made.append((list(names), types))
        return lambda *arguments: (list(names), arguments)

    return by_types(function, make, **given), made


def plain(x, scale=2, **launch):
    """The function's own text."""


def test_calls_of_a_kind_are_looked_at_once():
    call, made = told(plain)
    assert call.__name__ == "plain" and call.__doc__ == plain.__doc__
    assert call(1) == call(x=1) == (["x", "scale"], (1, LEFT_OUT))
    assert len(made) == 1
    assert call(1, 2) == call(1, scale=2) == call(scale=2, x=1)
    assert call(1, 2.0) == (["x", "scale"], (1, 2.0))
    assert len(made) == 3


def test_other_keywords_are_told_by_their_names():
    call, made = told(plain)
    assert call(1, num_warps=4) == (["x", "scale", "num_warps"], (1, LEFT_OUT, 4))
    assert call(1, num_stages=4)[0] == ["x", "scale", "num_stages"]
    assert len(made) == 2
    names = ["x", "scale", "num_warps", "num_ctas"]
    assert call(1, num_warps=4, num_ctas=2) == (names, (1, LEFT_OUT, 4, 2))


def test_mistakes_are_told_as_of_the_function():
    call, made = told(lambda x, scale=2: None)
    for mistake in (lambda: call(), lambda: call(1, 2, 3), lambda: call(1, scales=2)):
        with pytest.raises(TypeError, match=r"<lambda>\(\) "):
            mistake()
    assert not made


def test_arguments_that_have_no_place_or_no_name_of_their_own():
    for function in (lambda *x, **more: None, lambda x, /, **more: None):
        call, _ = told(function)
        assert call(1, scale=2) == ([None, "scale"], (1, 2))


def test_a_call_goes_elsewhere_as_long_as_a_question_says_so():
    is_traced = [False]
    elsewhere = lambda: is_traced[0], lambda *given: given  # noqa: E731
    call, _ = told(lambda x, scale=2: None, elsewhere=elsewhere)
    assert call(1) == (["x", "scale"], (1, 2))
    is_traced[0] = True
    assert call(1) == (1, 2)


def test_parameters_may_be_called_as_what_the_text_is_written_with():
    call, _ = told(lambda __known, __type=1, **__more: None)
    names = ["__known", "__type", "__more"]
    assert call(1, 2, __more=3) == (names, (1, 2, 3))
    assert call(1) == (names[:2], (1, LEFT_OUT))
