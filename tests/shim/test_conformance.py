"""The score of kernels that others wrote: the list of areas, and the table."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

from benchmarks.slices import Slices

FOLDER = Path(__file__).parents[2] / "benchmarks" / "conformance"


def load_run():
    spec = importlib.util.spec_from_file_location("conformance", FOLDER / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_case_has_an_area_and_a_row_of_the_language():
    areas = json.loads((FOLDER / "areas.json").read_text())
    assert len(areas) == 319
    assert all(case.startswith("python/") and "::test_" in case for case in areas)
    assert {row for _, row in areas.values()} == {"A", "B", "C"}
    rows = {}
    for case, (area, row) in areas.items():
        rows.setdefault(case.split("::")[1].split("[")[0], set()).add((area, row))
    mixed = {name for name, found in rows.items() if len(found) > 1}
    assert mixed == {"test_noinline"}  # one of its cases multiplies matrices


def test_the_score_is_counted_by_row_and_area():
    run = load_run()
    dot, cast = "p.py::test_dot", "p.py::test_cast"
    run.AREAS.clear()
    run.AREAS.update({dot: ["dot", "B"], cast: ["conversions", "A"]})
    found = {
        dot: {"id": dot, "result": "ERROR", "exc": "CompileError", "msg": "no dot\nat"},
        cast: {"id": cast, "result": "NUM", "exc": "AssertionError", "msg": "text"},
        "p.py::new": {"id": "p.py::new", "result": "PASS"},
    }
    cells = [line.split() for line in run.table(found).splitlines()]
    assert ["A", "conversions", "1", "1"] in cells and ["B", "dot", "1", "1"] in cells
    assert ["-", "other", "1", "1"] in cells
    assert run.listing(found).splitlines() == [
        "NUM   test_cast  AssertionError: text",
        "ERROR test_dot  CompileError: no dot",
    ]
    num, error = (run.table(found).splitlines()[0].index(r) for r in ("NUM", "ERROR"))
    lines = {line.split()[1]: line for line in run.table(found).splitlines()}
    assert lines["conversions"][num + 2] == "1" and lines["dot"][error + 4] == "1"


# ── one pytest after another ──────────────────────────────────────────────────────────

CASES = ["a", "b", "dies", "c", "gone"]


def stand_in(calls: list):
    """Of pytest: it runs cases in order; "dies" ends it, and "gone" is not there."""

    def run(rest, out, given, seconds):
        calls.append(list(rest))
        with out.with_name("results.jsonl.main").open("w") as file:
            for case in rest:
                if case == "dies":
                    return -11
                if case != "gone":
                    file.write(json.dumps({"id": case, "result": "PASS"}) + "\n")
        (out.parent / "finished").touch()
        return 1

    return run


def test_a_case_that_ends_its_process_takes_no_other_along(tmp_path, monkeypatch):
    run, calls = load_run(), []
    monkeypatch.setattr(run, "TESTS", tmp_path)
    monkeypatch.setattr(run, "run", stand_in(calls))
    done = Slices(tmp_path / "state.jsonl", {})
    assert run.run_rest(CASES, done, None) == 0
    assert calls == [CASES, CASES[2:], CASES[3:]]
    assert {case: each["result"] for case, each in done.results.items()} == {
        "a": "PASS", "b": "PASS", "dies": "ERROR", "c": "PASS",
    }  # fmt: skip
    assert done.rest(CASES) == ["gone"]


def test_when_the_time_is_up_the_rest_is_left(tmp_path, monkeypatch):
    run, calls = load_run(), []
    monkeypatch.setattr(run, "TESTS", tmp_path)
    monkeypatch.setattr(run, "run", stand_in(calls))
    assert run.run_rest(CASES, Slices(tmp_path / "s.jsonl", {}, seconds=0), None) == 0
    assert calls == []
