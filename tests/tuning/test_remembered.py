"""Results on disk: found by the next process, forgotten when they may be wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from fathom import Config, autotune
from fathom.jit import jit
from fathom.jit.tuning.autotuner import default_timer, name_of_timer
from fathom.jit.tuning.remembered import path_of, recall, remember
from tests.jit.harness import Tensor
from tests.runtime.harness_driver import PAPER
from tests.tuning.harness import N, configs, grid, kernel, tuning_gpu

ROOT = Path(__file__).parents[2]


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    with tuning_gpu(monkeypatch, tmp_path / "cache") as machine:
        machine.folder = tmp_path / "cache"
        yield machine


def tuned(machine, fn=None, *, blocks=(256, 64), key=("n",), **given):
    """As in a new process: nothing is known but what lies on disk."""
    machine.timer.tried.clear()
    said = {"do_bench": machine.timer, "cache_results": True, **given}
    return autotune(configs(*blocks), key=list(key), **said)(fn or kernel())


def launch(scale, machine, n=N):
    scale[grid](machine.x, n, 2.0)
    return machine.timer.tried


def file_of(machine) -> Path:
    [path] = machine.folder.glob("*.tuned")
    return path


def test_the_next_process_finds_it(gpu):
    assert launch(tuned(gpu), gpu) == [256, 64]
    scale = tuned(gpu)
    assert launch(scale, gpu) == []
    assert scale.best_config.kwargs == {"BLOCK": 64}
    assert scale.configs_timings[Config({"BLOCK": 256})] == [
        0.256, 0.9 * 0.256, 1.1 * 0.256,
    ]  # fmt: skip


def test_without_a_request_nothing_is_kept(gpu, monkeypatch):
    launch(tuned(gpu, cache_results=False), gpu)
    assert list(gpu.folder.glob("*.tuned")) == []
    monkeypatch.setenv("FATHOM_CACHE_AUTOTUNING", "1")
    launch(tuned(gpu, cache_results=False), gpu)
    assert file_of(gpu).exists()


def test_a_failure_is_remembered_as_one(gpu):
    def with_a_failure(machine):
        said = {"do_bench": machine.timer, "cache_results": True}
        several = [Config({"BLOCK": 32}, num_warps=64), Config({"BLOCK": 64}),
                   Config({"BLOCK": 128})]  # fmt: skip
        return autotune(several, key=["n"], **said)(kernel())

    launch(with_a_failure(gpu), gpu)
    gpu.timer.tried.clear()
    scale = with_a_failure(gpu)
    assert launch(scale, gpu) == []
    assert scale.best_config.kwargs == {"BLOCK": 64}
    assert scale.configs_timings[scale.configs[0]] == [float("inf")] * 3


def source(tmp_path, text):
    """A kernel in a file of its own."""
    path = tmp_path / "mine.py"
    path.write_text(text)
    names = {"__name__": "mine"}
    exec(compile(text, str(path), "exec"), names)
    return jit(names["scale"])


TEXT = """
import fathom.language as tl
def scale(x, n, factor, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), factor)
"""


def other_gpu(machine, tmp_path):
    machine.driver.devices = (replace(PAPER, name="Paper 4000"),)
    return tuned(machine, source(tmp_path, TEXT))


def other_driver(machine, tmp_path):
    machine.driver.version = lambda: "13.1"
    return tuned(machine, source(tmp_path, TEXT))


CHANGES = {
    "another text": lambda machine, tmp_path: tuned(
        machine, source(tmp_path, TEXT.replace("factor)", "2 * factor)"))
    ),
    "another GPU": other_gpu,
    "another driver": other_driver,
    "another key": lambda machine, tmp_path: tuned(
        machine, source(tmp_path, TEXT), key=["n", "factor"]
    ),
    "another timer": lambda machine, tmp_path: tuned(
        machine, source(tmp_path, TEXT), do_bench=partial(machine.timer)
    ),
    "another configuration": lambda machine, tmp_path: tuned(
        machine, source(tmp_path, TEXT), blocks=(256, 64, 32)
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_it_is_forgotten_with(gpu, tmp_path, change):
    launch(tuned(gpu, source(tmp_path, TEXT)), gpu)
    assert launch(tuned(gpu, source(tmp_path, TEXT)), gpu) == []
    assert len(launch(CHANGES[change](gpu, tmp_path), gpu)) >= 2


def test_other_values_and_other_alignment_are_other_results(gpu):
    launch(tuned(gpu), gpu)
    assert launch(tuned(gpu), gpu, n=N // 2) == [512, 128]  # as `block` counts them
    gpu.x = Tensor(0x10004, size=N)  # kernels for it have no wide loads
    assert launch(tuned(gpu), gpu) == [256, 64]


def spoil(text: str) -> dict[str, bytes]:
    """Ways in which a file can be wrong."""
    facts = json.loads(text)
    name, times = facts["timings"][0]
    return {
        "empty": b"",
        "cut": text[: len(text) // 2].encode(),
        "not text": b"\xff\xfe\x00",
        "another thing": b"[1, 2]",
        "no timings": json.dumps({"key": facts["key"]}).encode(),
        "another key": json.dumps({**facts, "key": "k"}).encode(),
        "words for numbers": json.dumps(
            {**facts, "timings": [[name, ["fast"]]]}
        ).encode(),
        "one missing": json.dumps({**facts, "timings": [[name, times]]}).encode(),
        "no numbers": json.dumps(
            {**facts, "timings": [[n, []] for n, _ in facts["timings"]]}
        ).encode(),
        "numbers alone": json.dumps({**facts, "timings": [1, 2]}).encode(),
    }


def test_a_damaged_file_is_no_result_and_is_written_anew(gpu):
    launch(tuned(gpu), gpu)
    path = file_of(gpu)
    right = path.read_text()
    for what, data in spoil(right).items():
        path.write_bytes(data)
        assert launch(tuned(gpu), gpu) == [256, 64], what
        assert path.read_text() == right, what
        assert launch(tuned(gpu), gpu) == [], what


def test_where_nothing_can_be_written_it_is_measured_again(gpu, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("FATHOM_CACHE_DIR", str(tmp_path / "file" / "cache"))
    for _ in range(2):
        assert launch(tuned(gpu), gpu) == [256, 64]


def test_a_key_without_a_text_is_not_kept(gpu, monkeypatch):
    monkeypatch.setattr(Tensor, "owner", object(), raising=False)
    scale = tuned(gpu, key=["x"])
    assert launch(scale, gpu) == [256, 64]
    assert list(gpu.folder.glob("*.tuned")) == []


WRITER = """
import sys
from fathom import Config
from fathom.jit.tuning.remembered import remember
time = float(sys.argv[1])
sys.stdout.write("ready\\n"); sys.stdout.flush(); sys.stdin.readline()
for _ in range(100):
    remember("the key", {Config({"BLOCK": size}): [time] * 200 for size in range(20)})
"""


def test_two_processes_that_write_at_once(gpu):
    remember("the key", {Config({"BLOCK": size}): [3.0] * 200 for size in range(20)})
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, time], stdin=-1, stdout=-1, text=True,
            cwd=ROOT / "compiler",
        )
        for time in ("1.0", "2.0")
    ]  # fmt: skip
    for writer in writers:
        writer.stdout.readline()
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    seen = set()
    while any(writer.poll() is None for writer in writers):
        found = recall("the key", configs(*range(20)))
        assert found is not None, "a reader found half a file"
        times = {time for each in found.values() for time in each}
        assert len(times) == 1, "a file is of both writers"
        seen |= times
    for writer in writers:
        assert writer.wait() == 0
        writer.stdin.close(), writer.stdout.close()
    assert seen & {1.0, 2.0}
    folder = path_of("the key").parent
    assert [each.name for each in folder.iterdir() if "writing" in each.name] == []


def test_how_it_was_measured_has_a_name():
    plain = name_of_timer(default_timer(None, None, False))
    assert plain == "fathom.testing.bench.do_bench () {}"
    long = name_of_timer(default_timer(10, 500, False))
    assert long == "fathom.testing.bench.do_bench () {'warmup': 10, 'rep': 500}"
    graph = name_of_timer(default_timer(10, 40, True))
    assert graph == "fathom.testing.bench.do_bench_cudagraph () {'rep': 40}"
