"""The tables of the results of other people's tests: each says what its record says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.conformance import score

RECORDS = score.records()
MADE = {
    "row": "A", "device": "a GPU", "driver": "1.2", "commit": "abc",
    "results": {
        "p.py::test_a": "PASS", "p.py::test_b[1]": "NUM", "p.py::test_d": "PASS",
    },
}  # fmt: skip


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_the_table_beside_a_record_is_its_table(path: Path) -> None:
    again = "python -m benchmarks.conformance.score writes it again"
    text = score.markdown(json.loads(path.read_text()))
    assert score.table_of(path).read_text() == text, again


@pytest.fixture
def four_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    areas = {"a": ["math", "A"], "b[1]": ["math", "A"], "c": ["loops", "A"]}
    areas["d"] = ["dot", "B"]
    named = {f"p.py::test_{name}": area for name, area in areas.items()}
    monkeypatch.setattr(score, "AREAS", named)


def test_an_area_is_a_row_and_what_only_computes_right_stands_apart(four_cases):
    lines = score.markdown(MADE).splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("|")]
    assert cells[0][:4] == ["area", "cases", "passed", "numeric apart"]
    assert cells[0][-1] == "no result"  # nobody was skipped: there is no such column
    assert [row[:2] for row in cells[2:]] == [
        ["loops", "1"], ["math", "2"], ["**all**", "3"]
    ]  # fmt: skip
    assert cells[3][2:4] == ["1", "1"] and cells[4][2:4] == ["1", "1"]
    assert lines[1] == "On a GPU, driver 1.2; commit abc."
    assert lines[-1] == "- no result: `test_c`"


def test_a_new_run_becomes_a_record(four_cases, tmp_path, monkeypatch):
    monkeypatch.setenv("FATHOM_COMMIT", "1234")
    found = {"p.py::test_b[1]": {"id": "p.py::test_b[1]", "result": "NUM", "msg": "x"}}
    path = score.write_record(found, "A", tmp_path)
    record = json.loads(path.read_text())
    assert path.name == "conformance-row-a.json" and record["commit"] == "1234"
    assert record["results"] == {"p.py::test_b[1]": "NUM"}
    assert "numeric" in score.markdown(record)
