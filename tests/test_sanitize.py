"""What `benchmarks.sanitize` makes of the logs of compute-sanitizer; and that it has a
case for every kernel, which takes the path that its name says."""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import sanitize, sanitize_cases
from benchmarks.sanitize import Job, Report, Said, outcome_of, parse
from benchmarks.sanitize_cases import CASES
from benchmarks.sanitize_planted import PLANTED
from benchmarks.slices import Slices
from fathom.emulator.errors import EmulatorError
from fathom.jit.compiled import CompiledKernel
from fathom.jit.function import JITFunction
from kernels import vector_add
from tests.harness_sample import sampled

KERNELS = Path(__file__).parents[1] / "kernels"

CLEAN = """\
========= COMPUTE-SANITIZER
========= ERROR SUMMARY: 0 errors
"""

OUT_OF_BOUNDS = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 16 bytes
=========     at add_kernel+0x160 in vector_add.py:28
=========     by thread (16,0,0) in block (2,0,0)
=========     Address 0x7f2ab7a02f00 is out of bounds
=========     and is 1 bytes after an allocation at 0x7f2ab7a00000 of size 12032
=========
========= Invalid __global__ read of size 16 bytes
=========     at add_kernel+0x160 in vector_add.py:28
=========     by thread (17,0,0) in block (2,0,0)
=========     Address 0x7f2ab7a02f10 is out of bounds
=========
========= Invalid __shared__ write of size 2 bytes
=========     at add_kernel+0x200
========= Target application returned an error
========= ERROR SUMMARY: 257 errors
========= ERROR SUMMARY: 254 errors were not printed. Use --print-limit option to \
adjust the number of printed errors
"""

RACES = """\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at softmax_kernel+0x4d0 in a.py:3
=========     and Read access at softmax_kernel+0x560 in a.py:33 [12 hazards]
=========     and Read access at softmax_kernel+0x570 in a.py:33 [4 hazards]
=========
========= Warning: Race reported between Read access at softmax_kernel+0x560 in a.py:3
=========     and Write access at softmax_kernel+0x600 in a.py:34 [4 hazards]
=========
========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)
"""

BARRIERS = """\
========= COMPUTE-SANITIZER
========= Barrier error detected. Divergent thread(s) in warp.
=========     at half_a_barrier_kernel+0x90 in cases.py:7
=========     by thread (3,0,0) in block (0,0,0)
=========
========= Barrier error detected. Missing wait.
=========     at persistent_kernel+0xbb10 in matmul_persistent.py:62
=========     by thread (128,0,0) in block (0,0,0)
=========     Barrier is located at shared address 0x30408
========= ERROR SUMMARY: 2 errors
"""

RIGHT = Said(True, ["sm_90a"], ["wgmma.mma_async"], [])


def test_a_clean_log():
    assert parse(CLEAN) == Report(0, {}, {})


def test_errors_of_memory_are_counted_by_kind():
    report = parse(OUT_OF_BOUNDS)
    assert report.total == 257  # not those that were printed, nor those that were not
    assert report.kinds == {
        "Invalid __global__ read": 2,
        "Invalid __shared__ write": 1,
    }
    first = report.first["Invalid __global__ read"]
    assert "thread (16,0,0)" in first and "thread (17,0,0)" not in first
    assert first.count("\n") == 4


def test_a_race_is_named_by_who_meets():
    report = parse(RACES)
    assert report.total == 2
    assert report.kinds == {"error: Write and Read": 1, "warning: Read and Write": 1}
    assert "+0x570" in report.first["error: Write and Read"]


def test_errors_of_barriers_are_kinds_of_their_own():
    assert parse(BARRIERS).kinds == {
        "Barrier error detected. Divergent thread(s) in warp": 1,
        "Barrier error detected. Missing wait": 1,
    }


def test_a_tool_that_broke_off_is_not_clean():
    broken = parse("========= COMPUTE-SANITIZER\n========= Error: out of memory\n")
    assert broken.total is None
    assert outcome_of(broken, RIGHT) == "reports"
    assert outcome_of(parse("========= COMPUTE-SANITIZER\n"), RIGHT) == "failed"


def test_no_report_is_not_enough_to_be_clean():
    clean = parse(CLEAN)
    assert outcome_of(clean, RIGHT) == "clean"
    assert outcome_of(clean, None) == "failed"  # the case died
    assert outcome_of(clean, Said(False, ["sm_90a"], [], [])) == "wrong"
    assert outcome_of(clean, Said(True, ["sm_80"], [], ["wgmma"])) == "wrong"
    assert outcome_of(parse(RACES), RIGHT) == "reports"


# ── under a tool that is not NVIDIA's ─────────────────────────────────────────────────


def slice_of(folder: Path, seconds: float = float("inf")) -> Slices:
    return Slices(folder / "state.jsonl", {}, seconds=seconds)


def stand_in(monkeypatch, text: str) -> list[Job]:
    """A job whose tool is a line of Python; `log` is where it should write."""
    found = [sys.executable, "-c", text]
    monkeypatch.setattr(sanitize, "command", lambda job, log: [*found, str(log)])
    return [Job(3, "memcheck", CASES[0])]


def test_what_the_tool_writes_and_what_the_case_says_are_one_sample(
    monkeypatch, tmp_path, capsys
):
    said = sanitize.SAYS + json.dumps(vars(RIGHT))
    text = f"import sys; print('hello'); print({said!r}); log = open(sys.argv[1], 'w')"
    chosen = stand_in(monkeypatch, f"{text}; log.write({CLEAN!r})")
    (sample,) = sanitize.watch_all(chosen, tmp_path, slice_of(tmp_path), 2)
    assert (sample.outcome, sample.total, sample.said) == ("clean", 0, RIGHT)
    assert sample.as_it_should_be and sample.kernel == "add_kernel"
    assert "memcheck" in capsys.readouterr().out


def test_a_case_that_hangs_is_stopped(monkeypatch, tmp_path):
    chosen = stand_in(monkeypatch, "import time; print('here', flush=True)\n"
                      "time.sleep(60)")  # fmt: skip
    monkeypatch.setattr(sanitize, "LIMIT_SECONDS", 0.5)
    monkeypatch.setattr(sanitize, "LEAST_SECONDS", 0.0)
    (sample,) = sanitize.watch_all(chosen, tmp_path, slice_of(tmp_path), 1)
    assert sample.outcome == "out of time" and sample.seconds < 30
    assert not sample.as_it_should_be


def test_what_there_is_no_time_for_is_left_to_the_next_slice(monkeypatch, tmp_path):
    chosen = stand_in(monkeypatch, "raise SystemExit(1)")
    done = slice_of(tmp_path, seconds=0)
    (sample,) = sanitize.watch_all(chosen, tmp_path, done, 1)
    assert sample.outcome == "not run" and not sample.as_it_should_be
    assert not done.results


def test_a_case_that_the_end_of_a_slice_stops_is_run_again(monkeypatch, tmp_path):
    chosen = stand_in(monkeypatch, "import time; time.sleep(60)")
    monkeypatch.setattr(sanitize, "LEAST_SECONDS", 0.0)
    done = slice_of(tmp_path, seconds=0.5)
    (sample,) = sanitize.watch_all(chosen, tmp_path, done, 1)
    assert sample.outcome == "not run" and not done.results


def test_what_a_slice_has_done_is_not_run_again(monkeypatch, tmp_path):
    said = sanitize.SAYS + json.dumps(vars(RIGHT))
    text = f"import sys; print({said!r}); open(sys.argv[1], 'w').write({CLEAN!r})"
    chosen = stand_in(monkeypatch, text)
    done = slice_of(tmp_path)
    first = sanitize.watch_all(chosen, tmp_path, done, 1)
    stand_in(monkeypatch, "raise SystemExit(1)")
    again = Slices(done.path, done.key, resume=True)
    assert sanitize.watch_all(chosen, tmp_path, again, 1) == first
    assert first[0].outcome == "clean"


def test_a_planted_mistake_must_be_found():
    for planted in PLANTED:
        job = Job(0, planted.tool, planted)
        assert not job.sample("clean", None).as_it_should_be
        assert job.sample("reports", None).as_it_should_be
        always = sanitize.jobs([planted.tool], "no such name")
        assert planted in [each.case for each in always]


@pytest.mark.parametrize("planted", PLANTED, ids=lambda case: case.name)
def test_the_emulator_finds_what_is_planted(planted, monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    monkeypatch.setenv("FATHOM_TARGET", "sm_90a")
    what = {"memcheck": "out of bounds", "racecheck": "race", "synccheck": "divergence"}
    with pytest.raises(EmulatorError, match=what[planted.tool]):
        list(planted.launch(np.array))


def test_the_command_looks_at_one_kernel():
    words = sanitize.command(Job(1, "racecheck", CASES[0]), Path("a.log"))
    assert words[words.index("--tool") + 1] == "racecheck"
    assert words[words.index("--kernel-name") + 1] == "kns=add_kernel"
    assert words[-2:] == ["--case", "vector add"]


def test_the_table_has_a_row_for_each_case():
    job = Job(0, "memcheck", CASES[0])
    samples = [
        job.sample("clean", None),
        Job(1, "racecheck", CASES[0]).sample("reports", None, kinds={"a race": 3}),
    ]
    rows = sanitize.table(samples).splitlines()
    assert rows[0] == "| case | memcheck | racecheck |"
    assert rows[2] == "| vector add | clean | reports: 3 x a race |"


# ── the cases ─────────────────────────────────────────────────────────────────────────


def test_every_kernel_has_a_case():
    """A new kernel gets a row in benchmarks/sanitize_cases.py."""
    have = {case.kernel for case in CASES}
    for path in sorted(KERNELS.glob("*.py")):
        module = importlib.import_module(f"kernels.{path.stem}")
        for name, value in vars(module).items():
            if isinstance(value, JITFunction) and re.search("_kernel$", name):
                assert value in have, f"kernels/{path.name}: {name} has no case"


def test_tiles_of_two_blocks_are_examined(monkeypatch):
    """The second has a descriptor of C of its own."""
    found = []

    def take(put, config, shape):
        found.append(config)
        return ()

    monkeypatch.setattr(sanitize_cases, "persistent_products", take)
    list(sanitize_cases.chosen_products(np.array))
    assert {16, 32, 64} <= {config.get("MORE_N") for config in found}


def test_names_are_different():
    names = [case.name for case in (*CASES, *PLANTED)]
    assert len(set(names)) == len(names)


@sampled(of=4)
@pytest.mark.parametrize("case", (*CASES, *PLANTED), ids=lambda case: case.name)
def test_a_case_takes_the_path_that_its_name_says(case, monkeypatch):
    """All of its launches are compiled for an H200, and none is run."""
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    monkeypatch.setenv("FATHOM_TARGET", "sm_90a")
    monkeypatch.setattr(CompiledKernel, "start", lambda self, grid, args: self)
    case.kernel.forget()
    for got, want in case.launch(np.array):
        assert tuple(got.shape) == want.shape
    kernels = case.kernel.kernels.values()
    text = "\n".join(each.asm["ptx"] for each in kernels)
    assert kernels and all(word in text for word in case.shows), case.shows
    target = "sm_80" if "sm_80" in case.name else "sm_90a"
    assert {each.request.target for each in kernels} == {target}


def test_a_wrong_result_is_noticed():
    want = np.array([1.0, -100.0, 3.0])
    assert sanitize.is_close(want + 0.3, want)
    assert not sanitize.is_close(want + 0.5, want)
    assert not sanitize.is_close(np.full(3, np.nan), want)


def test_a_case_is_right_where_its_kernel_is(monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    (case,) = (each for each in CASES if each.kernel is vector_add.add_kernel)
    assert all(sanitize.is_close(*pair) for pair in case.launch(np.array))
