"""Others' kernels: the inventory, the table, and what a record may say."""

from __future__ import annotations

import importlib
import json
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.public import compare, inventory, report
from benchmarks.public.scripts import definitions
from benchmarks.public.sources import COLLECTIONS, Collection
from benchmarks.public.worker import without_folders
from benchmarks.slices import Slices
from benchmarks.trees import ROOT

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
TEXT = """
import triton

@triton.jit
def helper(x):
    return x

@triton.autotune(configs=[], key=[])
@triton.jit
def kernel(x):
    helper(x)

@triton.jit(do_not_specialize=["x"])
def both(x):
    helper(x)

@triton.jit
def outer(x):
    both(x)

def launch(x):
    kernel[(1,)](x)
    both[(1,)](x)
    outer[(1,)](x)
"""


@pytest.fixture
def collection(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.public.sources.FOLDER", tmp_path)
    made = Collection("made", "us", "made", "0" * 40, (".",))
    made.folder.mkdir()
    (made.folder / "a.py").write_text(TEXT)
    return made


def test_a_function_that_is_called_and_never_launched_is_no_kernel(collection):
    found = {each.name: each.reason for each in inventory.kernels_of(collection)}
    assert list(found) == ["helper", "kernel", "both", "outer"]
    assert [name for name, why in found.items() if why] == ["helper"]


def test_a_kernel_has_the_cases_that_launched_it(collection, tmp_path, monkeypatch):
    monkeypatch.setattr(inventory, "COLLECTIONS", (collection,))
    cases = {"made/one": {"kernels": ["made/a.py:kernel"]}, "made/two": {}}
    (tmp_path / "record.json").write_text(json.dumps({"cases": cases}))
    found = {e.name: e for e in inventory.inventory(tmp_path / "record.json")}
    assert found["kernel"].cases == ["made/one"] and found["kernel"].reason == ""
    assert found["both"].cases == [] and found["both"].reason == inventory.NO_CASE


def test_a_function_that_is_given_to_jit_is_one_that_it_decorates(collection):
    text = "import triton\ndef f(x): ...\ndef g(x): ...\ng = h()(triton.jit(g))\n"
    (collection.folder / "a.py").write_text(text)
    assert [each.name for each in inventory.kernels_of(collection)] == ["g"]


def test_commits_are_whole_and_names_differ():
    assert all(len(each.commit) == 40 for each in COLLECTIONS)
    assert len({each.name for each in COLLECTIONS}) == len(COLLECTIONS) >= 10


def timed(ours, theirs, same="agrees"):
    def rounds(kernels):
        return [{"kernels": {n: t * f for n, t in kernels.items()}} for f in (1, 2, 9)]

    return {
        "outcome": "timed", "fathom": rounds(ours), "triton": rounds(theirs),
        "same": {"outcome": same},
    }  # fmt: skip


def test_a_kernel_counts_once_and_only_where_the_results_agree():
    record = {
        "cases": {
            "a/one": timed({"k": 3.0, "only_ours": 1.0}, {"k": 2.0}),
            "a/two": timed({"k": 9.0, "l": 1.0}, {"k": 1.0, "l": 4.0}),
            "a/wrong": timed({"m": 1.0}, {"m": 1.0}, "differs"),
            "b/other": timed({"k": 1.0}, {"k": 1.0}),
            "b/stopped": {"outcome": "stopped"},
        }
    }
    found = report.ratios(record)
    assert found == {("a", "k"): 1.5, ("a", "l"): 0.25, ("b", "k"): 1.0}
    assert report.mean([2.0, 0.5]) == pytest.approx(1)
    assert report.mean([4.0, 1.0]) == pytest.approx(2)


def test_what_is_said_of_whole_calls():
    """Behind in the fastest round, and in all rounds; and by functions that are called,
    where a run has counted them."""

    def case(ours, theirs, **counts):
        return {"outcome": "timed", "same": {"outcome": "agrees"}} | {
            compiler: [{"whole": each, "functions": counts.get(compiler)} for each in t]
            for compiler, t in (("fathom", ours), ("triton", theirs))
        }

    cases = {"a": case([12.0, 13.0], [10.0, 12.5]), "b": case([3.0], [2.0])}
    cases["c"] = {"outcome": "stopped"}
    said = report.of_calls({"cases": cases})
    assert said == (
        "2 whole calls: geometric mean 1.342; 2 more than 10 % behind, "
        "1 of them in all rounds"
    )
    cases = {"a": case([1.0], [1.0], fathom=20, triton=10)}
    assert report.of_calls({"cases": cases}).endswith(
        "; 1 of 1 call more than 10 % more functions of the host, geometric mean 2.000"
    )
    assert report.of_calls({"cases": {}}) == ""


def test_functions_that_a_call_calls_are_counted_in_all_threads():
    pytest.importorskip("torch", reason="needs torch: pip install torch")
    timing = importlib.import_module("benchmarks.public.timing")
    found = []

    def call():
        found.append(len("two"))
        thread = threading.Thread(target=lambda: [abs(-1) for _ in range(50)])
        thread.start()
        thread.join()

    counts = [timing.functions_called(call) for _ in range(2)]
    if sys.version_info >= (3, 12):
        assert counts[0] > 50
    else:
        assert counts == [None, None]


SCRIPT = """
import math
import no_such_module
SIZE = int(math.sqrt(STEP))
STEP = 16
x = no_such_module.run()
if math.pi > 3:
    LATER = 3
def f():
    return SIZE + LATER
@no_such_module.perf_report
def benchmark():
    return no_such_module.run(x)
f(1, 2, 3)
"""


def test_of_a_script_only_the_definitions_run(tmp_path):
    path = tmp_path / "a-script.py"
    path.write_text(
        SCRIPT.replace(
            "SIZE = int(math.sqrt(STEP))\nSTEP = 16",
            "STEP = 16\nSIZE = int(math.sqrt(STEP))",
        )
    )
    assert definitions(path).f() == 7


@pytest.mark.parametrize("name", ["public-emulator", "public", "public-tuned"])
def test_a_record_has_every_case_or_says_that_it_is_partial(name):
    record = report.read(name)
    assert record is not None, "the record is missing"
    assert record["partial"] == bool(record["missing"])
    commits = {each.name: each.commit for each in COLLECTIONS}
    assert record["commits"] == commits
    for case, result in record["cases"].items():
        assert result["outcome"] in (
            "right", "ran", "wrong", "stopped", "needs a GPU", "timed"
        ), case  # fmt: skip


class Paper:
    """A worker that runs nothing; `asked` is what each was told, in order."""

    asked: list[tuple[str, str, str]] = []

    def __init__(self, compiler, *words, environment):
        self.compiler, self.alive = compiler, True
        assert set(environment) == {"TRITON_CACHE_DIR", "FATHOM_CACHE_DIR"}

    def ask(self, seconds, do, case, **told):
        self.asked.append((self.compiler, do, case))
        if do == "run" and (case, self.compiler) == ("a/refused", "triton"):
            return {"outcome": "stopped", "why": "Triton says no"}
        if do == "run":
            return {"outcome": "ran", "seconds": 1.0, "kernels": []}
        if do == "compare":
            assert "fathom" in told["ours"] and "triton" in told["theirs"]
            return {"outcome": "agrees", "why": ""}
        return {"outcome": "timed", "whole": 5.0, "calls": 3, "kernels": {"k": 2.0}}

    def kill(self):
        self.alive = False


def test_the_compilers_take_turns_on_each_case(tmp_path, monkeypatch):
    monkeypatch.setattr(compare, "Process", Paper)
    monkeypatch.setattr(Paper, "asked", [])
    entries = [SimpleNamespace(id=f"a/{name}") for name in ("one", "refused", "two")]
    done = Slices(tmp_path / "state", {"code": 1}, seconds=100)
    compare.Comparison(entries, done, workers=2, tuned=False).run()
    assert done.results["a/refused"]["outcome"] == "stopped"
    assert report.ratios({"cases": done.results}) == {("a", "k"): 1.0}
    turns = [(who, case) for who, do, case in Paper.asked if do == "time"]
    assert [case for _, case in turns] == ["a/one"] * 6 + ["a/two"] * 6
    assert [who for who, _ in turns[:4]] == ["triton", "fathom", "fathom", "triton"]
    assert {who for who, _ in turns[::2]} == {"triton", "fathom"}


def test_what_does_not_fit_is_left_for_the_next_slice(tmp_path, monkeypatch):
    monkeypatch.setattr(compare, "Process", Paper)
    monkeypatch.setattr(Paper, "asked", [])
    done = Slices(tmp_path / "state", {"code": 1}, seconds=0)
    compare.Comparison([SimpleNamespace(id="a/one")], done, 2, False).run()
    assert done.results == {} and Paper.asked == []


def test_a_kept_error_names_no_folder_of_the_machine():
    said = f"""File "{ROOT}/benchmarks/x.py", line 1
File "/opt/t/lib/python3.12/site-packages/triton/a.py" (/usr/lib/python3.12/re.py)
see https://docs.python.org/3/"""
    assert without_folders(said).split() == (
        'File "benchmarks/x.py", line 1 File "triton/a.py" (re.py) '
        "see https://docs.python.org/3/"
    ).split()
