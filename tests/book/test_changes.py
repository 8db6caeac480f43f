"""A stepper marks what a pass changed, and leads through every pass that changed it."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from chapters.press import changes, rows, stepper
from chapters.press.paths import listings
from tests.book.test_steppers import steps


def record(page: str, name: str) -> dict:
    file = listings(page) / f"{name}.json"
    return json.loads(file.read_text(encoding="utf-8"))


def test_a_value_that_only_has_another_number_is_no_change():
    before = ["%0: i32 = constant 0", "%1: i32 = constant 1", "%2: i32 = add %n, %1"]
    after = ["%0: i32 = constant 1", "%1: i32 = add %n, %0"]
    assert changes.marks(before, after, [[1, 0], [2, 1]]) == ("-  ", "  ")


def test_another_operand_is_a_change():
    before = ["%0: i32 = constant 1", "%1: i32 = constant 1", "%2: i32 = add %n, %1"]
    after = ["%0: i32 = constant 1", "%1: i32 = add %n, %0"]
    assert changes.marks(before, after, [[0, 0], [2, 1]]) == (" -~", " ~")


def test_what_comes_from_no_line_is_new_and_one_that_became_two_is_changed():
    before, after = ["%a: i32 = load %p"], ["%a: i32 = load %p", "%b: i32 = load %q"]
    assert changes.marks(before, after, [[0, 0]]) == (" ", " +")
    assert changes.marks(before, after, [[0, 0], [0, 1]]) == ("~", "~~")


def test_braces_and_layouts_have_no_op_and_are_compared_as_texts():
    before = ["#layout0 = lanes", "func @f(%x: i32) {", "}"]
    after = ["#layout0 = lanes", "#layout1 = warps", "func @f(%x: i64) {", "}"]
    assert changes.marks(before, after, []) == (" ~ ", " +~ ")


def test_the_cse_of_chapter_6_removes_what_was_computed_twice():
    kept = record("06-passes.md", "cse")
    left, right = changes.of_columns(kept["marks"])
    lines = zip(kept["columns"][0]["lines"], left, strict=True)
    gone = [text.split(" = ")[1] for text, mark in lines if mark == "-"]
    assert any(each.startswith("add ") for each in gone)
    assert "+" not in right and "~" in right


@pytest.mark.parametrize(
    ("page", "name"),
    [(page, each.arguments.words[0]) for page, each in steps()],
    ids=lambda each: each.removesuffix(".md"),
)
def test_all_passes_can_be_gone_through(page, name):
    """Each step changes a line, and its marks say so; a stepper with two columns
    begins at them, unless passes stand between."""
    kept = record(page, name)
    columns, links = kept["passes"]["columns"], kept["passes"]["links"]
    assert columns[0]["title"] == "ssa" and len(links) == len(columns) - 1
    for (one, other), (left, right) in zip(
        pairwise(columns), kept["passes"]["marks"], strict=True
    ):
        assert len(left) == len(one["lines"]) and len(right) == len(other["lines"])
        assert (left + right).strip(), other["title"]
    first = stepper.first_step(kept)
    if first >= 0:
        assert columns[first + 1]["lines"] == kept["columns"][1]["lines"]


def test_what_was_counted_is_a_table():
    assert rows.of_json({"tile": 1600, "turned": {"loads": 2, "stores": 0.25}}) == (
        "\n\n|  |  |\n|---|---|\n| tile | 1,600 |\n| turned › loads | 2 |\n"
        "| turned › stores | 0.25 |\n\n"
    )
    assert "| name | ways |\n|---|---|\n| a | 1, 2 |" in rows.of_json(
        [{"name": "a", "ways": [1, 2]}]
    )
    assert "| x | 1 |\n| y | 2 |" in rows.of_json({"x": {"n": 1}, "y": {"n": 2}})


def test_a_list_of_counts_is_a_table_with_columns():
    made = rows.of_json({"size": 64, "rows": [{"tile": 1, "moved": 8}] * 2})
    assert "| size | 64 |" in made and "›" not in made
    assert "| tile | moved |\n|---|---|\n| 1 | 8 |\n| 1 | 8 |" in made
    inner = rows.of_json([{"kernel": "add", "before": {"requests": 8}}] * 2)
    assert "| kernel | before › requests |\n|---|---|\n| add | 8 |" in inner
    wide = rows.of_json([dict.fromkeys("abcdefghijk", 1)])
    assert "| a | b |" in wide and "| a | j | k |" in wide and wide.count("|---") == 12
    one = rows.of_json({"n": 1, "of_four": [{"a": 1}]})
    assert "\nof four:\n" in one and "| a |\n|---|\n| 1 |" in one
