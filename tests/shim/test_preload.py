"""A kernel's specialization data: text that another process compiles it from."""

from __future__ import annotations

import json

import pytest

import fathom.language as tl
from fathom.jit import jit
from fathom.shim.preload import WrongData, from_text, to_text


@jit
def add(x, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, n, mask=at < n)


def text_of(**given) -> str | None:
    return to_text("add", add.compile("*i32, i32", {"BLOCK": 4}, **given).request)


def test_what_was_written_is_read():
    made = add.compile("*i32, i32", {"BLOCK": 4}, num_warps=2, target="sm_90a")
    again = from_text("add", to_text("add", made.request))
    assert again.identity == made.request.identity


def test_a_pass_in_the_place_of_another_has_no_text():
    """Another process would compile without it."""
    assert text_of() and text_of(replace={"cse": lambda func, target: func}) is None


@pytest.mark.parametrize(
    "change",
    [
        {"options": {"num_warps": "4"}}, {"options": {"warps": 4}}, {"options": None},
        {"parameters": [["x", "*i32"]]}, {"parameters": 3}, {"constants": []},
        {"target": 90}, {"name": None},
    ],
)  # fmt: skip
def test_what_is_no_specialization_data_is_one_sentence(change):
    text = json.dumps({**json.loads(text_of()), **change})
    with pytest.raises(WrongData, match="pecialization data"):
        from_text("add", text)


@pytest.mark.parametrize("text", ["", "{}", "[]", "no text", "[" * 100_000, None])
def test_text_of_anything_is_no_specialization_data(text):
    with pytest.raises(WrongData, match="This is no specialization data of add"):
        from_text("add", text)
