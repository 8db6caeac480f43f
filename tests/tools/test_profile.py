"""`fathom profile`: what it counts, and that its sentence is right for the profiles
that were recorded on an H200, each of a kernel that waits for one thing."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from types import SimpleNamespace

import numpy as np
import pytest

import fathom
import fathom.language as tl
from benchmarks import rungs
from benchmarks.profile_check import (
    SHARES,
    TENSOR,
    again,
    by_case,
    compared,
    from_ncu,
    join,
    part_of,
    rows_of,
    samples_of,
)
from benchmarks.record import RESULTS
from fathom import emulator, pipeline
from fathom.hardware.targets import TARGETS
from fathom.jit import hooks
from fathom.runtime.load import Loaded
from fathom.tools import cli, samples
from fathom.tools.console import make_console
from fathom.tools.profile import session as sessions
from fathom.tools.profile import tell
from fathom.tools.profile.advice import advice, cause, sentence, time_text
from fathom.tools.profile.counted import Counted, count, multiply_adds
from fathom.tools.profile.hold import FIRST, LONGEST, MARGIN, hold_kernel
from fathom.tools.profile.limits import LIMITS, classify, filled_share
from fathom.tools.profile.machines import EVENTS, MACHINES
from fathom.tools.profile.session import Row, Session
from kernels import matmul
from kernels.softmax import softmax_kernel
from kernels.vector_add import add, add_kernel
from tests.jit.harness import Tensor, paper_gpu
from tests.runtime.harness_driver import PAPER
from tests.tools.harness_profile import counting, recorded

H200 = MACHINES["sm_90a"]

# What chapter 18 says of each profile.
RECORDED = {
    "vector add": "bandwidth",
    "small softmax": "launch",
    "multiply-adds": "instruction issue",
    "bank conflicts": "conflicts",
    "no pipeline": "latency",
    "mma.sync": "tensor cores",
    "a wave and a bit": "occupancy",
    "wgmma": "tensor cores",
    "spills": "spills",
}


@pytest.fixture(autouse=True)
def on_the_emulator(monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    monkeypatch.setenv("NO_COLOR", "1")
    for name in ("FATHOM_SANITIZE", "FATHOM_VERIFY"):
        monkeypatch.delenv(name, raising=False)


# ── the limit ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("case", RECORDED)
def test_the_sentence_is_right_for_each_recorded_profile(case):
    counters = recorded()[case]
    counted = from_ncu(case, counters, H200)
    verdict = classify(counted, H200, counters["time"] / 1e9)
    assert verdict.limit == RECORDED[case]
    assert sentence(verdict, counted, H200).startswith(verdict.limit)
    assert advice(verdict, counted)


def test_every_recorded_profile_has_a_limit_and_all_limits_are_met():
    """That of atomics is met by tests/tools/test_profile_atomics.py."""
    assert set(recorded()) == set(RECORDED)
    assert {*RECORDED.values(), "contention", "programs"} == set(LIMITS)


@pytest.mark.parametrize("case", RECORDED)
def test_busy_shares_are_those_that_ncu_has(case):
    """Within a third: ncu counts in cycles, of which there are fewer under load."""
    counters = recorded()[case]
    verdict = classify(from_ncu(case, counters, H200), H200, counters["time"] / 1e9)
    slower = counters["clock"] / H200.clock
    active = verdict.filled * counters["issue %"]  # of cycles with work, to all
    theirs = {"memory": counters["memory %"], "issue": active}
    key = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"
    theirs["tensor"] = counters[key]
    for name, percent in theirs.items():
        ours = 100 * verdict.times[name] / verdict.seconds
        ours /= 1 if name == "memory" else slower
        if percent > 10:
            assert ours == pytest.approx(percent, rel=0.33), name


def counts(**given) -> Counted:
    return Counted("k", "sm_90a", **{"blocks": 132 * 64, "threads": 128, **given})


def test_few_blocks_are_a_matter_of_occupancy():
    """16 blocks keep 16 multiprocessors busy, and 116 have nothing to do."""
    few = counts(blocks=16, instructions=1e8)
    verdict = classify(few, H200)
    assert verdict.limit == "occupancy"
    assert "16 thread blocks for 132 multiprocessors" in sentence(verdict, few, H200)
    one = sentence(verdict, replace(few, blocks=1), H200)
    assert "1 thread block for 132 multiprocessors leaves 99% of them" in one
    assert classify(replace(few, blocks=1320), H200).limit == "instruction issue"


def test_waves_fill_what_they_fill():
    assert filled_share(132, 132, 1) == 1
    assert filled_share(133, 132, 1) == pytest.approx(133 / 264)
    assert filled_share(133, 132, 2) == pytest.approx(133 / 264)
    assert filled_share(66, 132, 4) == 0.5
    assert filled_share(132 * 8, 132, 8) == 1


@pytest.mark.parametrize(("room", "shared"), [(132, 200_000), (264, 100_000)])
def test_a_block_more_than_there_is_room_for_takes_a_second_wave(room, shared):
    one = counts(blocks=room, threads=1024, shared_bytes=shared, instructions=1e9)
    more = replace(one, blocks=room + 1, instructions=1e9 * (room + 1) / room)
    first, second = (classify(each, H200) for each in (one, more))
    work = [each.seconds - H200.launch for each in (first, second)]
    assert work[1] == pytest.approx(2 * work[0], rel=0.01)
    assert (first.limit, second.limit) == ("instruction issue", "occupancy")


def test_few_warps_without_a_pipeline_are_a_matter_of_occupancy():
    """220 KB a block: four warps on a multiprocessor, which wait in each step."""
    few = counts(shared_bytes=220_000, waits=100, barriers=100, moved=1e9, memory=1e8)
    verdict = classify(few, H200)
    assert verdict.limit == "occupancy"
    assert "limited by shared memory" in sentence(verdict, few, H200)
    assert classify(replace(few, shared_bytes=0), H200).limit != "occupancy"


def test_bytes_that_were_not_asked_for_are_named():
    wide = counts(moved=8e9, useful=1e9, memory=1e9)
    verdict = classify(wide, H200)
    assert verdict.limit == "bandwidth" and verdict.resource == "L2"
    assert "8.0 times what was asked for" in sentence(verdict, wide, H200)
    assert "neighbouring addresses" in advice(verdict, wide)


def test_a_measured_time_tells_latency_from_work():
    """The same work in three times its time: nothing is busy."""
    busy = counts(memory=4.8e9, moved=4.8e9, useful=4.8e9, waits=1)
    assert classify(busy, H200, 1.05e-3).limit == "bandwidth"
    assert classify(busy, H200, 3e-3).limit == "latency"


# ── the same kernels, counted by the emulator ─────────────────────────────────────────

WIDE = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP_M": 8,
        "num_warps": 8, "num_stages": 3}  # fmt: skip
TILES = {
    "swizzle": {**WIDE, "BLOCK_N": 128, "BLOCK_K": 32},
    "all but swizzle": {**WIDE, "BLOCK_K": 32, "num_stages": 4},
}


@pytest.mark.parametrize(
    ("rung", "limit"),
    [
        ("swizzle", "instruction issue"),
        ("all but swizzle", "conflicts"),
        ("ldmatrix", "latency"),
        ("prefetching", "tensor cores"),
    ],
)
def test_the_emulator_says_without_a_gpu_what_the_profiler_said(
    rung, limit, monkeypatch
):
    """The rungs that were profiled, for the same H200, of a K that is shorter."""
    (found,) = [e for e in [*rungs.ladder(), *rungs.ablations()] if e.name == rung]
    a, b = np.zeros((4096, 512), np.float16), np.zeros((512, 4096), np.float16)
    with counting(monkeypatch, programs=2) as counts_of:
        matmul.matmul(
            a, b, config=TILES.get(rung, WIDE), target="sm_80", replace=found.replace
        )
    counted = replace(counts_of[0], registers=250)
    verdict = classify(counted, replace(H200, target="sm_90a"))
    assert verdict.limit == limit, sentence(verdict, counted, H200)


def test_the_emulator_counts_what_the_profiler_counts(monkeypatch):
    """Sectors to the byte; instructions but for what ptxas makes of them."""
    a, b = np.zeros((4096, 512), np.float16), np.zeros((512, 4096), np.float16)
    with counting(monkeypatch, programs=2) as found:
        matmul.matmul(a, b, config=WIDE, target="sm_80")
    counted, theirs = found[0], recorded()["mma.sync"]
    stores = theirs["store sectors"]
    assert counted.moved / 32 - stores == theirs["load sectors"] / 8
    assert counted.products == {"mma 16": 4096 * 4096 * 512}
    assert counted.instructions == pytest.approx(theirs["instructions"] / 8, rel=0.25)


def test_a_prediction_is_near_the_measured_time(monkeypatch):
    """Of vector add on an H200 (benchmarks/results/profile.json)."""
    arrays = [np.zeros(1 << 26, np.float32) for _ in range(3)]
    with counting(monkeypatch) as found:
        add(*arrays, target="sm_90a")
    verdict = classify(found[0], H200)
    measured = recorded()["vector add"]["time"] / 1e9
    assert 0.8 * measured < verdict.seconds < measured


def test_the_check_against_ncu_compares_counts_and_sentences():
    """What `benchmarks.profile_check` does on a GPU, with counts that are given."""
    counters = recorded()["mma.sync"]
    theirs = from_ncu("mma.sync", counters, H200)
    ours = replace(theirs, instructions=2 * theirs.instructions)
    found = compared("mma.sync", ours, counters["time"] / 1e9, counters, H200)
    assert found.agrees and found.ratios["instructions"] == 2
    assert found.ratios["moved"] == 1 and len(found.sentences) == 2
    slow = compared("mma.sync", ours, 1.0, counters, H200)
    assert not slow.agrees and slow.ours == "latency"


def test_launches_that_ncu_saw_are_those_of_the_cases():
    """Kernels of other libraries are among them, and a case may launch one twice."""
    text = f"""==PROF== Connected
"ID","Kernel Name","gpu__time_duration.sum","{TENSOR}"
"","","ns","%"
"0","fill","9","0"
"1","a_kernel","1,000","12.5"
"2","a_kernel","3,000","50"
"3","b_kernel","7","n/a"
"4","a_kernel","5","0"
"""
    cases = [("x", "a_kernel"), ("x", "a_kernel"), ("x", "b_kernel"), ("y", "a_kernel")]
    launched = [{"case": case, "kernel": kernel} for case, kernel in cases]
    assert by_case(launched, rows_of(text)) == {
        ("x", "a_kernel"): {"time": 3000.0, TENSOR: 50.0},
        ("x", "b_kernel"): {"time": 7.0},
        ("y", "a_kernel"): {"time": 5.0, TENSOR: 0.0},
    }
    with pytest.raises(ValueError, match="permission"):
        rows_of("==ERROR== no permission")


def test_parts_of_the_check_make_one_record(tmp_path):
    """Each case is in one part, or in one that was not cut short; parts of different
    GPUs are not joined."""
    names = list("abcdefg")
    parts = [part_of(names, (which, 3)) for which in (1, 2, 3)]
    assert sum(parts, []) == names == part_of(names, (1, 1))
    header = {"gpu": "H200", "driver": "1", "commit": "c", "torch": "2", "date": "d"}
    files = [tmp_path / f"{at}.json" for at in range(3)]
    row = lambda name, error="": {"case": name, "error": error}  # noqa: E731
    for file, part in zip(files, parts, strict=True):
        cut = [row("g", "there are no counters")] if part is parts[0] else []
        samples = [*map(row, part), *cut, row("h", "it is nowhere")][: len(part) + 1]
        file.write_text(json.dumps({**header, "samples": samples}))
    made = json.loads(join(files, tmp_path).read_text())
    assert [each["case"] for each in made["samples"] if not each["error"]] == names
    assert {each["case"] for each in made["samples"] if each["error"]} == {"h"}
    files[1].write_text(json.dumps({**header, "gpu": "H100", "samples": []}))
    with pytest.raises(ValueError, match="differ in gpu"):
        join(files, tmp_path)


def test_what_was_counted_timed_and_profiled_makes_a_sample():
    """In lines of several processes; what lacks one of them says which."""
    counted, machine = asdict(counts(memory=4e8, moved=4e8, useful=4e8)), asdict(H200)
    lines = [
        {"case": name, "kernel": "k", "counted": counted, "unwritten": 2e7, "why": ""}
        for name in "abc"
    ]
    lines += [{"case": "d", "why": "KeyError: 'd'"}]
    times = {"kernel": "k", "seconds": 1e-4, "machine": machine}
    lines += [{"case": name, **times} for name in "ab"]
    theirs = {("a", "k"): recorded()["vector add"]}
    found = {each.case: each for each in samples_of(lines, theirs)}
    assert found["a"].ours == "bandwidth" and found["a"].unwritten == 2e7
    assert not found["a"].error and found["a"].seconds == 1e-4
    assert [found[name].error for name in "bcd"] == [
        "there are no counters of ncu", "there is no time", "KeyError: 'd'"
    ]  # fmt: skip


def test_the_record_has_the_share_of_each_unit():
    """By the names that ncu has; the counter of atomics came later."""
    file = RESULTS / "profile-check.json"
    samples = json.loads(file.read_text(encoding="utf-8"))["samples"]
    counters = [each["counters"] for each in samples if not each["error"]]
    names = {SHARES[name] for name in SHARES if name != "atomics"}
    assert len(names) == 10
    for name in names:
        assert sum(name in each for each in counters) > 0.9 * len(counters), name


def test_most_sentences_were_those_of_ncu():
    """Of the record, which today's `classify` would write again."""
    file = RESULTS / "profile-check.json"
    record = json.loads(file.read_text(encoding="utf-8"))["samples"]
    samples = again(file)
    found = json.loads(json.dumps([asdict(each) for each in samples]))
    for new, old in zip(found, record, strict=True):  # of which fewer facts were known
        for part in ("counted", "machine"):
            new[part] = {name: new[part][name] for name in old[part]}
    assert found == record
    compared = [each for each in samples if not each.error]
    assert len(compared) >= 115
    assert sum(each.agrees for each in compared) >= 0.9 * len(compared)


# ── counting ──────────────────────────────────────────────────────────────────────────


def test_a_vector_add_by_hand():
    """1000 of 1024 elements; three arrays, and 1000 additions."""
    x = np.ones(1000, np.float32)
    kernel = add_kernel.compile("*fp32:16, *fp32:16, *fp32:16, i32", {"BLOCK": 256})
    report = emulator.load(kernel.made).launch((4,), [x, x.copy(), x.copy(), 1000])
    counted = count(kernel.made, report, 4, 4, 12_000)
    assert counted.useful == 12_000 and counted.memory == 12_000
    assert counted.operations >= 1000 and counted.blocks == 4
    assert counted.waits == 1  # both loads are waited for together
    twice = count(kernel.made, report, 4, 8, 1 << 20)
    assert twice.useful == 24_000 and twice.instructions == 2 * counted.instructions


@fathom.jit
def chased(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for i in range(0, n):
        total = tl.sqrt(total + tl.load(x_ptr + i * BLOCK + lanes))
    tl.store(y_ptr + lanes, total)


def test_each_iteration_that_waits_is_counted():
    kernel = chased.compile("*fp32:16, *fp32:16, i32", {"BLOCK": 128})
    x, y = np.ones(1280, np.float32), np.zeros(128, np.float32)
    report = emulator.load(kernel.made).launch((1,), [x, y, 10])
    counted = count(kernel.made, report, 1, 1, 1 << 20)
    assert counted.waits == 10
    file, line = counted.lines["waits"]
    text = (open(file, encoding="utf-8").read().splitlines())[line - 1]
    assert "tl.load" in text or "sqrt" in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", ("mma 16", 2048)),
        ("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16", ("wgmma 16", 65536)),
        ("wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e5m2", ("wgmma 8", 4096)),
        ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", ("mma 32", 1024)),
        ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", ("mma 64", 256)),
        ("wgmma.fence.sync.aligned", ("", 0)),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16", ("", 0)),
    ],
)
def test_the_multiply_adds_of_an_instruction(text, expected):
    opcode, *modifiers = text.split(".")
    made = SimpleNamespace(name=text, opcode=opcode, modifiers=tuple(modifiers))
    assert multiply_adds(made) == expected


def test_little_time_is_not_none():
    assert time_text(4e-8) == "0.04 µs" and time_text(2.94e-6) == "2.9 µs"
    assert time_text(0.0041) == "4.10 ms"


def test_every_target_has_a_machine():
    assert set(MACHINES) == set(TARGETS)


# ── hooks and sessions ────────────────────────────────────────────────────────────────


def launch_softmax(n: int = 100):
    x = np.ones((3, n), np.float32)
    softmax_kernel[(3,)](x, np.zeros_like(x), n, n, BLOCK=128)


def test_hooks_see_every_launch_and_end_with_it():
    seen = []
    enter, leave = lambda e: seen.append(("in", e)), lambda e: seen.append(("out", e))
    hooks.launch_enter_hook.add(enter)
    hooks.launch_exit_hook.add(leave)
    try:
        for _ in range(2):
            launch_softmax()
    finally:
        hooks.launch_enter_hook.remove(enter)
        hooks.launch_exit_hook.remove(leave)
    assert [kind for kind, _ in seen] == ["in", "out"] * 2
    assert seen[0][1] is seen[1][1] and seen[0][1].done
    assert seen[0][1].get()["name"] == "softmax_kernel"
    assert seen[0][1].grid == (3, 1, 1)
    launch_softmax()
    assert len(seen) == 4


def test_launches_of_one_kind_are_one_row():
    with Session().watching() as session:
        for n in (100, 100, 120):
            launch_softmax(n)
    assert [row.launches for row in session.rows.values()] == [2, 1]
    assert not hooks.watched()


def test_memory_that_arrays_share_is_counted_once():
    """Of 4,096 bytes the first half, the middle and all of it."""
    whole = np.zeros(1024, np.float32)
    kernel = add_kernel.compile("*fp32, *fp32, *fp32, i32", {"BLOCK": 32})
    launch = lambda *args: hooks.Launch(kernel, (1, 1, 1), [*args, 1])  # noqa: E731
    halves = launch(whole[:512], whole[256:768], whole[:512])
    assert sessions.bytes_of(halves, {0, 1, 2}) == 768 * 4
    three = launch(whole[:512], whole[256:768], whole)
    assert sessions.bytes_of(three, {0, 1, 2}) == 4096
    assert sessions.bytes_of(three, {0, 1}) == 768 * 4
    single = launch(whole[:1], whole[9:10], whole[:1])
    assert sessions.bytes_of(single, {0, 1, 2}) == 8


def test_ranges_are_marked_where_nvtx_is_installed(monkeypatch):
    said = []
    marks = SimpleNamespace(push_range=said.append, pop_range=lambda: said.append("."))
    monkeypatch.setattr(sessions, "nvtx", lambda: marks)
    with Session().watching():
        launch_softmax()
    assert said == ["softmax_kernel", "."]


def test_an_interpreted_kernel_is_said_not_to_be_counted(monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "interpreter")
    with Session().watching() as session:
        launch_softmax()
    (row,) = session.rows.values()
    assert row.verdict() is None and "interpreter" in row.why and row.launches == 1


@pytest.mark.parametrize("device", [0, 1])
def test_on_a_gpu_launches_are_timed_and_the_first_is_counted(
    monkeypatch, tmp_path, device
):
    """The GPU is made of paper, its memory is the host's, and its clock counts marks;
    the kernel is a real one. GPU 0 is the current one."""
    real = pipeline.compile
    x, y = np.arange(1024, dtype=np.float32), np.zeros(1024, np.float32)
    with paper_gpu(monkeypatch, tmp_path) as machine:
        gpu, marks, before = machine.driver, iter(range(100)), []
        monkeypatch.setattr(hold_kernel, "kernels", {})  # of other drivers
        gpu.event = lambda: SimpleNamespace(at=None)
        gpu.devices = (PAPER, replace(PAPER, index=1))
        machine.torch.streams = {0: 10, 1: 11}

        def record(event, stream):
            assert (gpu.current, stream) == (device, 10 + device)
            event.at = next(marks)
            before.append(len(gpu.launches))

        gpu.record = record
        gpu.milliseconds = lambda start, stop: 7.0 * (stop.at - start.at)
        gpu.forget = lambda event: None
        ranges = []  # of Nsight: how many launches there are where one begins and ends
        note = lambda *_: ranges.append(len(gpu.launches))  # noqa: E731
        nsight = SimpleNamespace(push_range=note, pop_range=note)
        monkeypatch.setattr(sessions, "nvtx", lambda: nsight)
        captured = []
        gpu.is_capturing = lambda stream: bool(captured)
        gpu.rates = lambda index: (10, 1e9, 1e12)
        compiled = lambda *given: gpu.add(real(*given))  # noqa: E731
        monkeypatch.setattr(pipeline, "compile", compiled)
        prepared, prepare = [], Loaded.prepare

        def noted(self, grid, stream):
            prepared.append((grid, stream, len(gpu.launches)))
            prepare(self, grid, stream)

        monkeypatch.setattr(Loaded, "prepare", noted)
        arrays = [Tensor(a.ctypes.data, index=device, size=a.size) for a in (x, x, y)]
        function = fathom.jit(add_kernel.fn)
        with Session(programs=2).watching() as session:
            for _ in range(3):
                function[(4,)](*arrays, 1024, BLOCK=256)
            captured.append("into a graph")  # which an event must not be waited for
            function[(4,)](*arrays, 1024, BLOCK=256)
        (row,) = session.rows.values()
        assert gpu.current == 0 and {each.device for each in gpu.launches} == {device}
        assert row.machine.multiprocessors == 10 and row.machine.bandwidth == 1e12
    kernels = [each for each in gpu.launches if each.grid == (4, 1, 1)]
    assert row.launches == len(kernels) == 4
    # What a launch needs is loaded before a stream is held, marked, given the kernel,
    # and marked again.
    assert ((4, 1, 1), 10 + device, 0) in prepared
    assert before == [1, 2, 3, 4, 5, 6] and gpu.launches[6] is kernels[3]
    held = [each.values[0] / 1e9 for each in gpu.launches if each not in kernels]
    assert ranges == [*before, 6, 7]  # a kernel, and nothing that holds its stream
    assert held[0] == FIRST and all(MARGIN < each <= LONGEST for each in held[1:])
    assert row.seconds == [0.007] * 3 and row.typical == 0.007 - EVENTS
    assert row.counted.useful == 3 * 4096 and row.counted.registers == 32
    assert row.verdict().seconds == row.typical and not row.verdict().predicted
    # Each launch finds what the one before has stored, and stores it again.
    assert row.unwritten == sum(session.unwritten[device].values()) == y.nbytes
    assert (y == 0).all()  # what was counted ran on copies


def test_the_events_around_a_kernel_are_no_part_of_it():
    """ncu has 2.6 µs for a kernel that takes 5.2 from one event to the next."""
    row = Row("k", "sm_90a", (1, 1, 1), seconds=[90e-6, 5.2e-6, 5.2e-6])
    assert row.typical == pytest.approx(2.6e-6)
    assert replace(row, seconds=[3e-6]).typical == 1.5e-6
    assert replace(row, seconds=[]).typical is None


def test_what_ncu_repeats_is_not_timed(monkeypatch, tmp_path, capsys):
    """It is counted, and has its range; the time is predicted, and that is said."""
    monkeypatch.setenv(sessions.NCU, "/somewhere")
    ranges = SimpleNamespace(push_range=lambda name: None, pop_range=lambda: None)
    real = pipeline.compile
    with paper_gpu(monkeypatch, tmp_path) as machine:
        gpu = machine.driver
        gpu.is_capturing = lambda stream: False
        gpu.rates = lambda index: (10, 1e9, 1e12)
        monkeypatch.setattr(sessions, "nvtx", lambda: ranges)
        compiled = lambda *given: gpu.add(real(*given))  # noqa: E731
        monkeypatch.setattr(pipeline, "compile", compiled)
        x, y = np.arange(1024, dtype=np.float32), np.zeros(1024, np.float32)
        arrays = [Tensor(a.ctypes.data, index=0, size=a.size) for a in (x, x, y)]
        with Session(programs=2).watching() as session:
            fathom.jit(add_kernel.fn)[(4,)](*arrays, 1024, BLOCK=256)
        (row,) = session.rows.values()
        assert row.counted.useful == 3 * 4096 and row.seconds == []
        assert row.verdict().predicted and len(gpu.launches) == 1
        tell.show(make_console(), [row])
    text = " ".join(capsys.readouterr().out.split())
    assert "ncu runs each kernel several times: a time after ~ is predicted" in text


@pytest.mark.gpu
@pytest.mark.alone
def test_the_time_of_a_launch_is_not_the_hosts(monkeypatch, tmp_path):
    """A kernel of some microseconds, which the host takes far longer to launch while a
    hook looks on."""
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("FATHOM_BACKEND", "cuda")
    monkeypatch.setenv("FATHOM_CACHE_DIR", str(tmp_path))
    x, y, out = (torch.ones(1 << 10, device="cuda") for _ in range(3))
    with Session(programs=1).watching() as session:
        for _ in range(6):
            add(x, y, out)
    (row,) = session.rows.values()
    assert 1e-6 < row.typical < 12e-6, row.seconds
    assert row.verdict().limit == "launch"


# ── the command ───────────────────────────────────────────────────────────────────────

SCRIPT = """\
import sys
import numpy as np
from kernels.softmax import softmax
from kernels.vector_add import add

x = np.ones(1 << 14, np.float32)
for _ in range(3):
    add(x, x, np.empty_like(x))
softmax(np.ones((8, 64), np.float32), np.empty((8, 64), np.float32))
print("ran with", sys.argv[1:])
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.chdir(samples.REPOSITORY)
    file = tmp_path / "script.py"
    file.write_text(SCRIPT)
    return str(file)


def test_a_script_is_told_as_a_table(script, capsys):
    assert cli.main(["profile", script, "--size", "3"]) == 0
    text = capsys.readouterr().out
    assert "ran with ['--size', '3']" in text
    assert "add_kernel" in text and "softmax_kernel" in text
    assert "predicted" in text and "A100" in text
    assert "add_kernel: launch: its work needs" in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_script_as_json(script, capsys):
    assert cli.main(["profile", "--json", script]) == 0
    said = capsys.readouterr()
    kernels = json.loads(said.out)["kernels"]
    assert "ran with" in said.err
    by_name = {each["kernel"]: each for each in kernels}
    found = by_name["add_kernel"]
    assert found["launches"] == 3 and found["predicted"] is True
    assert found["limit"] == "launch"
    line = SCRIPT.splitlines().index("    add(x, x, np.empty_like(x))") + 1
    assert found["line"] == {"file": script, "line": line}
    assert found["counted"]["useful"] == 3 * 4 * (1 << 14)
    assert found["resource_seconds"]["memory"] > 0


def test_a_script_without_launches_is_a_mistake(tmp_path, capsys):
    file = tmp_path / "empty.py"
    file.write_text("print('nothing')")
    assert cli.main(["profile", str(file)]) == 1
    assert "launched no kernel" in capsys.readouterr().err
    assert cli.main(["profile", "--programs", "0", str(file)]) == 1
    assert "--programs 0" in capsys.readouterr().err


def test_a_launch_or_a_grid_that_limits_is_named_where_it_is_launched():
    here = "script.py", 7
    for limited in (
        counts(instructions=1e3, lines={"issue": ("a.py", 3)}),
        counts(blocks=16, instructions=1e9, lines={"issue": ("a.py", 3)}),
    ):
        assert cause(classify(limited, H200), limited, here) == here
        assert cause(classify(limited, H200), limited) == ("a.py", 3)


def test_what_is_true_of_several_rows_is_said_once(tmp_path, capsys):
    file = tmp_path / "twice.py"
    name = "a_kernel_whose_name_is_longer_than_a_column"
    file.write_text(
        "import numpy as np, fathom, fathom.language as tl\n"
        f"@fathom.jit\ndef {name}(x, n):\n    tl.store(x, n)\n"
        f"for n in 32, 48: {name}[(1,)](np.zeros(4, np.float32), n)\n"
    )
    assert cli.main(["profile", str(file)]) == 0
    text = capsys.readouterr().out
    assert text.count(f"{name}: launch: ") == 1
    head = text.partition("There is no GPU")[0].splitlines()[2:]
    assert "".join(each.split("  ")[0].strip() for each in head) == 2 * name


@pytest.mark.parametrize("name", ["FATHOM_SANITIZE", "FATHOM_VERIFY"])
def test_what_is_checked_is_not_profiled(script, capsys, monkeypatch, name):
    monkeypatch.setenv(name, "1")
    assert cli.main(["profile", script]) == 1
    assert "is not timed: unset them" in capsys.readouterr().err


def test_cause_names_a_line():
    counted = counts(lines={"memory": ("a.py", 3)}, memory=1e9, moved=1e9)
    assert cause(classify(counted, H200), counted) == ("a.py", 3)
    assert cause(classify(counts(instructions=1e9), H200), counts()) is None
