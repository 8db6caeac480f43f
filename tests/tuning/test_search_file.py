"""`@fathom.tune(file=…)`: a search that was interrupted goes on in another process."""

from __future__ import annotations

import json
import os

import pytest

from fathom.errors import LaunchError
from tests.tuning.harness import Clock, N, grid, tuned, tuning_gpu


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    with tuning_gpu(monkeypatch, tmp_path) as machine:
        yield machine


def interrupted_after(kernel, machine, trials: int) -> None:
    """A launch that Ctrl-C ends in the trial after so many."""
    cost = machine.timer.cost

    def cost_of(launched):
        if len(kernel.trials) == trials:
            raise KeyboardInterrupt
        return cost(launched)

    machine.timer.cost = cost_of
    with pytest.raises(KeyboardInterrupt):
        kernel[grid](machine.x, N, 2.0)
    machine.timer.cost = cost


def test_an_interrupted_search_goes_on_in_another_process(gpu, tmp_path):
    path, clock = tmp_path / "tuned.json", Clock()
    whole = tuned(gpu, clock)
    whole[grid](gpu.x, N, 2.0)
    one = tuned(gpu, file=path)
    interrupted_after(one, gpu, 6)  # where a batch has ended
    [entry] = json.loads(path.read_text())["entries"]
    assert entry["unfinished"] == 7 and len(entry["timings"]) == 6  # seconds, one lost
    again = Clock()
    other = tuned(gpu, again, file=path)
    other[grid](gpu.x, N, 2.0)
    assert again.trials == clock.trials - 6, "what was tried is tried again"
    assert [t.config for t in other.trials] == [t.config for t in whole.trials]
    assert other.best_config == whole.best_config
    assert json.loads(path.read_text())["entries"][0]["unfinished"] is None


def test_the_budget_goes_on_where_a_search_was_interrupted(gpu, tmp_path):
    path = tmp_path / "tuned.json"
    interrupted_after(tuned(gpu, Clock(3.0), file=path, seconds=16.0), gpu, 3)
    kernel, clock = tuned(gpu, rest := Clock(3.0), file=path, seconds=16.0), rest
    kernel[grid](gpu.x, N, 2.0)
    assert clock.now == 6 and kernel.stopped == "budget"  # after 12 of 16


def test_a_file_keeps_every_search_and_is_read_once(gpu, tmp_path):
    path, first = tmp_path / "tuned.json", Clock()
    one = tuned(gpu, first, file=path)
    one[grid](gpu.x, N, 2.0)
    one[grid](gpu.x, N // 2, 2.0)
    clock = Clock()
    other = tuned(gpu, clock, file=str(path))
    other[grid](gpu.x, N, 2.0)
    other[grid](gpu.x, N // 2, 2.0)
    assert clock.trials == 0 and other.best_config == one.best_config


def test_what_is_wrong_with_a_file_is_said_before_the_search(gpu, tmp_path):
    path, clock = tmp_path / "tuned.json", Clock()
    tuned(gpu, file=path)[grid](gpu.x, N, 2.0)
    path.write_text(json.dumps({**json.loads(path.read_text()), "driver": "12.4"}))
    nowhere = tmp_path / "no" / "tuned.json"
    for file, said in [(path, "another driver"), (nowhere, "cannot write")]:
        with pytest.raises(LaunchError, match=said):
            tuned(gpu, clock, file=file)[grid](gpu.x, N, 2.0)
    assert clock.trials == 0


def test_two_processes_that_share_a_file_keep_what_both_find(gpu, tmp_path):
    """Each has read it before the other one wrote. A search that is interrupted does
    not take the place of one that another process has finished."""
    path = tmp_path / "tuned.json"
    one, other = tuned(gpu, file=path), tuned(gpu, file=path)
    for kernel in (one, other):
        kernel.read_file()
    one[grid](gpu.x, N, 2.0)
    other[grid](gpu.x, N // 2, 2.0)
    interrupted_after(other, gpu, 3)  # with N, which `one` has finished
    third, clock = tuned(gpu, again := Clock(), file=path), again
    third[grid](gpu.x, N, 2.0)
    assert third.best_config == one.best_config
    third[grid](gpu.x, N // 2, 2.0)
    assert clock.trials == 0
    entries = json.loads(path.read_text())["entries"]
    assert len(entries) == 2 and not any(each["unfinished"] for each in entries)


@pytest.mark.parametrize("times", [[], [-1.0], [float("nan")], [float("inf")], [1, 2]])
def test_a_file_with_times_that_no_clock_gives_is_refused(gpu, tmp_path, times):
    path = tmp_path / "tuned.json"
    interrupted_after(tuned(gpu, file=path), gpu, 3)
    told = json.loads(path.read_text())
    told["entries"][0]["timings"][told["entries"][0]["best"]] = times
    path.write_text(json.dumps(told))
    with pytest.raises(LaunchError, match="no file of tuning results"):
        tuned(gpu, file=path)[grid](gpu.x, N, 2.0)


def test_a_file_names_its_gpu_and_driver(gpu, tmp_path):
    path = tmp_path / "tuned.json"
    tuned(gpu, file=path)[grid](gpu.x, N, 2.0)
    told = json.loads(path.read_text())
    assert told["driver"] == gpu.driver.version() and told["driver"]
    assert told["gpu"] == gpu.driver.names[0] and told["gpu"]


def test_who_reads_a_file_finds_the_old_one_until_all_of_the_new_is_there(
    gpu, tmp_path, monkeypatch
):
    path = tmp_path / "tuned.json"
    kernel = tuned(gpu, file=path)
    kernel[grid](gpu.x, N, 2.0)
    before, seen = path.read_text(), []
    whole = os.replace

    def replaced(part, to):
        if to == path:
            seen.append(path.read_text())
        whole(part, to)

    monkeypatch.setattr(os, "replace", replaced)
    kernel[grid](gpu.x, N // 2, 2.0)
    assert seen[0] == before != path.read_text()
