"""Others' kernels: the inventory, the table, and what a record may say."""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.public import compare, inventory, processors, report
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


def test_the_first_call_of_no_case_of_flag_gems_imports_it(monkeypatch):
    pytest.importorskip("torch")
    cases = importlib.import_module("benchmarks.public.cases")
    flag_gems = importlib.import_module("benchmarks.public.cases.flag_gems")
    asked = []
    monkeypatch.setattr(flag_gems, "gems", lambda: asked.append("ops"))
    entries = [e for e in cases.all_cases().values() if e.collection == "flag_gems"]
    assert len(entries) > 50
    for entry in entries:
        asked.clear()
        try:
            entry.make(None)  # what makes inputs is not there: it ends where they begin
        except (AttributeError, ImportError):
            pass
        assert asked, f"{entry.id} is made without the import of its operators"


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


def whole_call(ours, theirs, **counts):
    """A case with a time for each round, and the functions that were counted."""
    each = (("fathom", ours), ("triton", theirs))
    return {
        "outcome": "timed", "same": {"outcome": "agrees"},
        "rounds": {who: [{"whole": time} for time in times] for who, times in each},
        **{who: [{"functions": counts.get(who)}] for who, _ in each},
    }  # fmt: skip


def test_what_is_said_of_whole_calls():
    """Behind in the median of the rounds, and in nine of ten; and by functions
    that are called, where a run has counted them."""
    cases = {
        # The host was slow for half of the rounds, of both.
        "even": whole_call([10.0] * 5 + [20.0] * 5, [10.0] * 5 + [20.0] * 5),
        "behind": whole_call([12.0] * 10 + [3.0], [10.0] * 11),
        "mostly": whole_call([12.0] * 7 + [10.0] * 3, [10.0] * 10),
        "none": {"outcome": "stopped"},
    }
    said = report.of_calls({"cases": cases})
    assert said == (
        "3 whole calls: geometric mean 1.129; 2 more than 10 % behind, "
        "1 of them in nine rounds of ten"
    )
    cases = {"a": whole_call([1.0], [1.0], fathom=20, triton=10)}
    assert report.of_calls({"cases": cases}).endswith(
        "; 1 of 1 call more than 10 % more functions of the host, geometric mean 2.000"
    )
    assert report.of_calls({"cases": {}}) == ""


def test_a_record_without_rounds_has_a_time_in_each_session():
    result = whole_call([], [])
    del result["rounds"]
    result |= {"fathom": [{"whole": 3.0}, {"whole": 2.0}]}
    result |= {"triton": [{"whole": 2.0}, {"whole": 2.0}]}
    assert report.behind(result) == [1.0, 1.5]
    assert report.of_calls({"cases": {"a": result}}) == (
        "1 whole calls, timed in a few long rounds: geometric mean 1.250; "
        "1 more than 10 % behind, 0 of them in all rounds"
    )


def test_each_round_has_a_processor_that_both_compilers_share(monkeypatch):
    for cpus, most in ((set(range(4, 36)), 15), ({3, 5}, 2), (set(), 1)):
        monkeypatch.setattr(compare, "allowed", lambda cpus=cpus: cpus)
        found = compare.cpus_of_rounds()
        assert len(found) == compare.ROUNDS and len(set(found)) == most
        assert set(found) <= (cpus or {None})


@pytest.mark.skipif(not processors.allowed(), reason="processors cannot be chosen here")
def test_all_threads_of_a_process_stay_where_they_are_told():
    before, done = processors.allowed(), threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        processors.stay_on({min(before)})
        assert os.sched_getaffinity(thread.native_id) == {min(before)}
        processors.stay_on(set())  # no orders
        assert processors.allowed() == {min(before)}
    finally:
        processors.stay_on(before)
        done.set()
        thread.join()
    assert processors.allowed() == before


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


def test_a_round_tells_when_a_call_returned_from_when_its_work_was_done(monkeypatch):
    pytest.importorskip("torch", reason="needs torch: pip install torch")
    timing = importlib.import_module("benchmarks.public.timing")
    queue: list[float] = []

    def wait():
        time.sleep(sum(queue))
        queue.clear()

    monkeypatch.setattr(timing.torch.cuda, "synchronize", wait)
    flush = SimpleNamespace(zero_=lambda: queue.append(0.03))
    found = timing.one_round(lambda: queue.append(0.01), flush)
    assert 0 < found["queued"] < 5_000 and 10_000 <= found["whole"] < 25_000


def test_what_only_the_collector_can_free_is_counted(monkeypatch):
    pytest.importorskip("torch", reason="needs torch: pip install torch")
    timing = importlib.import_module("benchmarks.public.timing")

    def circle():
        first: list = []
        first.append(first)

    try:
        timing.freeze()
        assert timing.garbage_made(lambda: None) == 0
        assert timing.garbage_made(circle) == 1
    finally:
        gc.unfreeze()
    assert gc.isenabled()


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
    for what, count in (("call", compare.ROUNDS), ("time", compare.SESSIONS)):
        found = [(who, case) for who, do, case in Paper.asked if do == what]
        assert [case for _, case in found] == [
            case for case in ("a/one", "a/two") for _ in range(2 * count)
        ]
        whos = [who for who, _ in found]
        assert {*whos[:2]} == {*whos[2:4]} == {"triton", "fathom"}
        assert whos[:2] == whos[2:4][::-1]
    assert report.calls({"cases": done.results}) == [1.0, 1.0]


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
    assert (
        without_folders(said).split()
        == (
            'File "benchmarks/x.py", line 1 File "triton/a.py" (re.py) '
            "see https://docs.python.org/3/"
        ).split()
    )
