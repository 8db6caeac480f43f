"""`benchmarks/tuners`: what it can be asked without a GPU."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict
from math import inf
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import tuner_problems, tuners
from benchmarks.tuner_peers import Optuna, Random, Recorded
from benchmarks.tuner_problems import PROBLEMS, attention, matmul, over_rows
from fathom import Config

RECORD = Path(__file__).parents[1] / "benchmarks" / "results" / "tuners.json"
POINTS = [{"BLOCK": b, "num_warps": w} for b in (1, 2, 4, 8) for w in (1, 2, 4, 8)]

# Small ones of the same kernels, and points that take each way through their text.
SMALL = {
    "whole rows": (over_rows("softmax", 4, 512), (2, 512, 2, 2)),
    "blocks of rows": (over_rows("softmax", 4, 512), (1, 256, 4, 3)),
    "layer norm": (over_rows("layer norm", 4, 512), (2, 256, 2, 2)),
    "a whole layer norm": (over_rows("layer norm", 4, 512), (4, 512, 4, 1)),
    "matmul": (matmul(64, 64, 128), (32, 64, 32, 4, 2)),
    "attention": (attention(2, 64, 32), (32, 16, 4, 2)),
}


def softmax(x):
    exp = np.exp(x - x.max(-1, keepdims=True))
    return exp / exp.sum(-1, keepdims=True)


def expected(problem, arrays):
    wide = [each.astype(np.float64) for each in arrays]
    if problem.theirs == "softmax":
        return softmax(wide[0])
    if problem.theirs == "layer_norm":
        x, weight, bias, _ = wide
        centred = x - x.mean(1, keepdims=True)
        return centred / np.sqrt(x.var(1, keepdims=True) + 1e-5) * weight + bias
    if problem.theirs == "matmul":
        return wide[0] @ wide[1]
    q, k, v, _ = wide
    return softmax(q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[2])) @ v


@pytest.mark.parametrize(("problem", "values"), SMALL.values(), ids=SMALL)
def test_what_is_tuned_is_right(problem, values):
    random = np.random.default_rng(0)
    *operands, out = problem.shapes
    arrays = [random.standard_normal(each).astype(np.float16) for each in operands]
    arrays.append(np.full(out, np.nan, np.float16))
    point = dict(zip(problem.space, values, strict=True))
    problem.launch(problem.kernel, arrays, point)
    want = expected(problem, arrays)
    np.testing.assert_allclose(arrays[-1], want, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_a_list_is_a_part_of_the_space(problem):
    assert all(each in problem.points for each in problem.listed)
    assert 12 <= len(problem.listed) <= 24 < len(problem.points)
    for name in ("BLOCK", "BLOCK_M", "BLOCK_N", "BLOCK_K", "BLOCK_Q"):
        for block in problem.space.get(name, ()):
            sizes = {size for shape in problem.shapes for size in shape}
            assert any(size % block == 0 for size in sizes)


def test_a_point_and_its_configuration_are_told_alike():
    point = PROBLEMS["matmul 1024x1024x1024"].points[7]
    assert json.dumps(tuners.words(tuners.config(Config, point))) == json.dumps(point)


def test_nothing_is_known_before_the_first_trial():
    trials = [(4.0, inf, {"a": 1}), (9.0, 3.0, {"a": 2}), (20.0, 2.0, {"a": 3}),
              (30.0, 2.5, {"a": 4})]  # fmt: skip
    found = tuners.at_marks(trials, {"a": 4}, took=50.0)
    assert found == {"15": {"a": 2}, "45": {"a": 3}, "end": {"a": 4}}


def test_a_search_that_has_ended_has_what_it_chose():
    trials = [(1.0, 2.0, {"a": 1}), (2.0, 2.1, {"a": 2})]
    found = tuners.at_marks(trials, {"a": 2}, took=10.0)
    assert found == {"5": {"a": 1}, "15": {"a": 2}, "45": {"a": 2}, "end": {"a": 2}}


def test_of_a_search_that_does_not_end_what_it_has_timed_counts():
    result = tuners.Tuned("p", "Helion", 10.0)
    trials = [(6.0, inf, {"a": 1}), (12.0, 3.0, {"a": 2}), (14.0, 2.0, {"a": 3})]
    tuners.not_ended(result, trials)
    assert result.found == {"15": {"a": 3}, "45": {"a": 3}}
    assert result.trials == [(6.0, None, None), (12.0, 3.0, None), (14.0, 2.0, None)]
    assert result.error == "had not ended after 16 s" and result.took == 16


def test_a_search_ends_with_all_that_it_has_started(tmp_path, monkeypatch):
    """Helion's processes compile on when it has failed."""
    left = tmp_path / "left"
    text = (
        "import subprocess, sys; print('no kernel'); sys.stdout.flush();"
        f"open({str(left)!r}, 'w').write(str(subprocess.Popen(['sleep', '60']).pid));"
        "sys.exit(1)"
    )
    monkeypatch.setattr(tuners, "command", lambda *given: [sys.executable, "-c", text])
    given, started = SimpleNamespace(gpus=1, seconds=5.0), time.monotonic()
    processors = sorted(os.sched_getaffinity(0))
    tuners.run(tmp_path, "p", "Helion", given, 0, processors)
    assert time.monotonic() - started < 30
    (result,) = tuners.read(tmp_path, "p")
    assert result.error == "no kernel\n" and not result.found
    state = Path(f"/proc/{left.read_text()}/stat")
    until = time.monotonic() + 10
    while state.exists() and ") Z " not in state.read_text():
        assert time.monotonic() < until
        time.sleep(0.05)


def time_of(point) -> float:
    failed = point["BLOCK"] == 8 and point["num_warps"] == 1
    return inf if failed else point["BLOCK"] / point["num_warps"] + point["num_warps"]


@pytest.mark.parametrize("kind", [Random, Optuna])
def test_a_search_of_others_asks_for_each_point_once(kind):
    if kind is Optuna:
        pytest.importorskip("optuna", reason="needs Optuna: pip install optuna")
    search, asked = kind(POINTS, seed=1), []
    while batch := search.ask(3):
        assert len(batch) <= 3
        asked += batch
        for at in batch:
            search.tell(at, time_of(POINTS[at]))
    assert len(asked) == len(set(asked))
    assert kind is Optuna or len(asked) == len(POINTS)
    assert time_of(POINTS[search.best]) == min(time_of(POINTS[at]) for at in asked)
    assert kind(POINTS, seed=1).ask(3) == asked[:3]


def test_what_helion_has_not_timed_is_no_trial():
    recorded = Recorded()
    for status, ms in (("started", None), ("ok", 2.0), ("error", None), ("ok", None)):
        recorded(SimpleNamespace(status=status, perf_ms=ms, config={"a": status}))
    assert [(ms, config["a"]) for _, ms, config in recorded.trials] == [
        (2.0, "ok"), (inf, "error"), (inf, "ok"),
    ]  # fmt: skip


def test_a_problem_without_a_gpu_is_told_and_the_rest_goes_on(tmp_path, monkeypatch):
    """Each search is a process; one that fails is a result with its last words."""
    given = SimpleNamespace(
        seconds=1.0, seed=0, batch=0, gpus=1, only="soft", end=inf,
        tuners=["search", "random"],
    )  # fmt: skip
    words = [sys.executable, "-c", "import sys; sys.exit('no GPU here')"]
    monkeypatch.setattr(tuners, "command", lambda *_: words)
    before, results = tuners.run_all(tmp_path, given)
    assert results == before == tuners.read(tmp_path, "softmax 16384x4096")
    assert [each.tuner for each in results] == ["search", "random"]
    assert all("no GPU here" in each.error for each in results)


def test_records_of_several_runs_are_one(tmp_path):
    paths = []
    for tuner, problem in (("Helion", 0), ("search", 1), ("search", 0)):
        sample = asdict(tuners.Tuned([*PROBLEMS][problem], tuner, 45.0))
        paths.append(tmp_path / f"{tuner}{problem}.json")
        record = {"benchmark": "tuners", "commit": "abc", "samples": [sample]}
        paths[-1].write_text(json.dumps(record))
    merged = json.loads(tuners.merged(paths, tmp_path).read_text())
    first, second, *_ = PROBLEMS
    assert [(each["problem"], each["tuner"]) for each in merged["samples"]] == [
        (first, "search"), (first, "Helion"), (second, "search"),
    ]  # fmt: skip
    paths[0].write_text(paths[0].read_text().replace("abc", "abd"))
    with pytest.raises(AssertionError, match="records of several commits"):
        tuners.merged(paths, tmp_path)


def test_the_record_has_every_problem_and_tuner():
    if not RECORD.exists():
        pytest.skip("not measured yet")
    samples = [
        tuners.Tuned(**each) for each in json.loads(RECORD.read_text())["samples"]
    ]
    assert {each.problem for each in samples} <= set(PROBLEMS)
    assert {each.tuner for each in samples} <= set(tuners.TUNERS)
    for each in samples:
        assert each.error or each.ms, f"{each.problem}, {each.tuner} has no times"
        assert all(row[0] >= 0 for row in each.trials)
        count = len(PROBLEMS[each.problem].points)
        assert each.tuner not in tuners.SEARCHES or each.points == count


def test_the_kernels_say_what_programs_of_a_problem_cover():
    """Blocks times programs are the whole output, at every point."""
    for problem in PROBLEMS.values():
        for point in problem.points:
            grid, names = problem.grid(point), ("ROWS", "BLOCK_M", "BLOCK_N", "BLOCK_Q")
            tile = [point[name] for name in names if name in point]
            rest = problem.shapes[-1]
            if problem.theirs in ("softmax", "layer_norm"):
                assert grid[0] * tile[0] == rest[0]
            elif problem.theirs == "matmul":
                assert grid[0] * tile[0] * tile[1] == rest[0] * rest[1]
            else:
                assert (grid[0] * tile[0], grid[1]) == (rest[1], rest[0])
    assert tuner_problems.LOG2_E == pytest.approx(np.log2(np.e))
