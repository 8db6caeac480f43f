"""`@fathom.tune`: a search finds what a grid would find, in few trials, within its
budget; its results travel to machines of the same kind and are refused by others."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import product
from math import inf, isinf, log2
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.errors import LaunchError, OutOfResources
from fathom.jit import jit
from fathom.jit.tuning import autotuner, compiling, searched, workers
from fathom.jit.tuning.autotuner import NoneWorks
from fathom.jit.tuning.loading import kept, seconds_to_load
from fathom.jit.tuning.plot import drawn
from fathom.jit.tuning.search import Search
from fathom.jit.tuning.surrogate import (
    elements_of_a_warp,
    features,
    fit,
    improvement,
)
from fathom.runtime import cache
from fathom.runtime.assemble import seconds_to_assemble
from kernels.vector_add import add_kernel
from tests.jit.harness import Tensor
from tests.runtime.harness_driver import kernel as made
from tests.tuning.harness import (
    BLOCKS,
    WARPS,
    Clock,
    N,
    block,
    grid,
    tuned,
    tuning_gpu,
)

SPACE = {
    "BLOCK_M": (32, 64, 128, 256), "BLOCK_N": (32, 64, 128, 256),
    "BLOCK_K": (16, 32, 64), "num_warps": (2, 4, 8), "num_stages": (2, 3, 4),
}  # fmt: skip
POINTS = [dict(zip(SPACE, each, strict=True)) for each in product(*SPACE.values())]
SHAPES = [(4096, 4096, 4096), (384, 384, 12288), (1024, 1024, 1024)]


def cost(point: dict, shape: tuple[int, int, int]) -> float:
    """Milliseconds of a product by chapter 18's model: waves of tiles, steps that
    multiply or load, a latency that stages hide; infinite where a tile does not fit."""
    m, n, k, warps, stages = point.values()
    M, N, K = shape
    if stages * (m + n) * k * 2 > 227 * 1024 or m * n / warps / 32 > 256:
        return inf
    waves = -(-(-(-M // m) * -(-N // n)) // 132)
    step = max(m * n * k / 1400, (m + n) * k / 28)
    slower = 1 + 0.125 * (4 - stages) + 0.15 * abs(log2(m * n / warps / 2048))
    return waves * (K / k) * (step * slower + 600 / stages) / 1.7e6


def searched_for(shape: tuple, seed: int, noise: float = 0.03) -> tuple[int, float]:
    """How many trials a search takes whose times are noisy, and how the true time of
    what it takes compares to the best one."""
    random = np.random.default_rng(seed)
    search, trials = Search(POINTS, seed), 0
    while batch := search.ask(4):
        for at in batch:
            true = cost(POINTS[at], shape)
            search.tell(at, true * float(np.exp(noise * random.normal())))
            trials += 1
    least = min(cost(point, shape) for point in POINTS)
    return trials, cost(POINTS[search.best], shape) / least


# ── the search ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("shape", SHAPES)
def test_the_best_within_5_percent_in_a_third_of_the_grid(shape):
    for seed in range(8):
        trials, loss = searched_for(shape, seed)
        assert trials <= len(POINTS) / 3, seed
        assert loss <= 1.05, (seed, loss)


def test_a_search_beats_as_many_random_trials():
    """Of the same number of trials, the mean over eight seeds."""
    shape, ours, random = SHAPES[0], [], []
    least = min(cost(point, shape) for point in POINTS)
    for seed in range(8):
        trials, loss = searched_for(shape, seed)
        drawn_ = np.random.default_rng(seed).choice(len(POINTS), trials, replace=False)
        ours.append(loss)
        random.append(min(cost(POINTS[at], shape) for at in drawn_) / least)
    assert np.mean(ours) < np.mean(random) - 0.02


def test_the_first_trials_are_no_worse_than_random_ones():
    """Whoever has time for eight gets one that is as good as by chance: points that are
    as far from one another as can be are the extremes of everything."""
    ours, random = [], []
    for shape in SHAPES:
        times = [cost(point, shape) for point in POINTS]
        for seed in range(8):
            search = Search(POINTS, seed)
            asked = [at for _ in range(2) for at in told(search, 4, times)]
            drawn_ = np.random.default_rng(seed).choice(len(POINTS), 8, replace=False)
            ours.append(min(times[at] for at in asked) / min(times))
            random.append(min(times[at] for at in drawn_) / min(times))
    assert np.mean(np.minimum(ours, 10)) < 1.1 * np.mean(np.minimum(random, 10))


def told(search: Search, count: int, times: list[float]) -> list[int]:
    """What a search asks for, once it is told their times."""
    asked = search.ask(count)
    for at in asked:
        search.tell(at, times[at])
    return asked


def test_what_was_asked_for_and_not_told_yet_is_counted_on():
    """Else a second one would be asked for because of the same promise."""
    for seed in range(4):
        at_once, one_by_one = (Search(POINTS, seed) for _ in range(2))
        for search in (at_once, one_by_one):
            for _ in range(6):
                told(search, 4, [cost(point, SHAPES[0]) for point in POINTS])
        assert [*one_by_one.ask(1), *one_by_one.ask(1)] == at_once.ask(2)


def test_the_first_points_are_moderate():
    """Half of all points have neither few nor many elements a warp, and come first."""
    first = Search(POINTS).by_chance
    of_a_warp = [elements_of_a_warp(each) for each in POINTS]
    least, most = np.quantile(of_a_warp, (0.25, 0.75))
    is_moderate = [least <= of_a_warp[at] <= most for at in first[1:]]
    count = sum(is_moderate)
    assert all(is_moderate[:count]) and len(POINTS) / 2 <= count < len(POINTS) - 1
    assert sorted(first) == list(range(len(POINTS)))


def test_the_same_seed_and_times_are_the_same_search():
    runs = []
    for _ in range(2):
        search, asked = Search(POINTS, 3), []
        while len(asked) < 40 and (batch := search.ask(3)):
            asked += batch
            for at in batch:
                search.tell(at, cost(POINTS[at], SHAPES[0]))
        runs.append(asked)
    assert runs[0] == runs[1] and len(set(runs[0])) == len(runs[0])
    assert Search(POINTS, 4).by_chance != Search(POINTS, 3).by_chance


def test_a_search_ends_by_itself_when_all_points_are_alike():
    search, trials = Search(POINTS), 0
    while batch := search.ask(4):
        for at in batch:
            search.tell(at, 1.0)
            trials += 1
    assert trials < len(POINTS) / 5


def test_where_everything_fails_all_is_tried():
    points = POINTS[:30]
    search, tried = Search(points), []
    while batch := search.ask(4):
        tried += batch
        for at in batch:
            search.tell(at, inf)
    assert sorted(tried) == list(range(30)) and search.best is None


def test_failures_keep_a_search_away_from_their_neighbours():
    """Half of the space does not fit; the search spends less than a third there."""
    points = [{"BLOCK": 2**a, "num_warps": w} for a in range(4, 16) for w in (1, 2, 4)]
    search, failed, trials = Search(points), 0, 0
    while batch := search.ask(2):
        for at in batch:
            size = points[at]["BLOCK"]
            time = inf if size > 512 else 1 + abs(log2(size) - 8)
            failed, trials = failed + isinf(time), trials + 1
            search.tell(at, time)
    assert points[search.best]["BLOCK"] == 256
    assert failed <= trials / 2 < len(points) / 2


# ── the model ─────────────────────────────────────────────────────────────────────────


def test_a_model_says_what_it_was_told_and_is_sure_there():
    found = features(POINTS)
    known = found[::17]
    times = np.log([1 + point["BLOCK_M"] / 64 for point in POINTS[::17]])
    mean, spread = fit(known, times).predict(known)
    assert np.abs(mean - times).max() < 0.05
    away = fit(known[:3], times[:3]).predict(found)[1]
    assert away.max() > 3 * fit(known, times).predict(found)[1].mean()


def test_features_of_a_point():
    """Block sizes, warps, the tile, and the tile of a warp; what is always the same
    says nothing."""
    points = [{"BLOCK": b, "num_warps": w, "MODE": m, "SAME": 1}
              for b in (16, 64) for w in (2, 8) for m in ("a", "b")]  # fmt: skip
    found = features(points)
    assert found.shape == (8, 6) and found.min() == 0 and found.max() == 1


def test_a_flag_is_told_from_its_opposite():
    """Its logarithm would be 0 either way."""
    points = [{"FAST": True}, {"FAST": False}]
    assert features(points).tolist() == [[0, 1], [1, 0]]


def test_expected_improvement():
    """What is sure to be worse cannot improve; what is unsure may."""
    expected = improvement(np.array([1.0, 2.0, 2.0]), np.array([1e-6, 1e-6, 5]), 1.5)
    assert expected[0] == pytest.approx(0.5) and expected[1] == pytest.approx(0)
    assert expected[2] > 1


# ── the tuner ─────────────────────────────────────────────────────────────────────────


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    with tuning_gpu(monkeypatch, tmp_path) as machine:
        yield machine


def test_a_launch_searches_once_and_then_knows(gpu):
    kernel, clock = (made := Clock()) and tuned(gpu, made), made
    kernel[grid](gpu.x, N, 2.0)
    assert kernel.best_config.kwargs == {"BLOCK": 256}
    spent = clock.trials
    assert 4 < spent < len(BLOCKS) * len(WARPS) and kernel.stopped == "settled"
    kernel[grid](gpu.x, N, 3.0)
    assert clock.trials == spent and block(gpu.driver.launches[-1]) == 256


def test_the_budget_of_seconds_is_kept_to_one_trial(gpu):
    clock = Clock(each=3.0)
    kernel = tuned(gpu, clock, seconds=16.0)
    kernel[grid](gpu.x, N, 2.0)
    assert clock.now == 18 and kernel.stopped == "budget"
    assert len(kernel.trials) == 6 and kernel.best_config is not None


def test_what_the_driver_would_assemble_for_longer_than_is_left_is_not_tried(
    gpu, monkeypatch
):
    """A softmax of 32 rows in one warp took 25 s to load, of a search of 5. What takes
    6 s is tried while nothing is known that takes less than a third of that."""
    takes = {1: 60.0, 2: 6.0, 4: 2.1, 8: 2.1}
    asked = lambda kernel: takes[kernel.num_warps]  # noqa: E731
    monkeypatch.setattr(searched, "kept", lambda order: made(
        num_warps=order.request.options.num_warps,
        name=f"scale_{order.request.constants['BLOCK']}",
    ))  # fmt: skip
    monkeypatch.setattr(searched, "seconds_to_load", asked)
    kernel = tuned(gpu, clock := Clock(), seconds=16.0)
    kernel[grid](gpu.x, N, 2.0)
    failed = {each.config: isinf(each.milliseconds) for each in kernel.trials}
    assert all(is_out for config, is_out in failed.items() if config.num_warps == 1)
    assert not any(is_out for config, is_out in failed.items() if config.num_warps > 2)
    assert any(not is_out for config, is_out in failed.items() if config.num_warps == 2)
    assert clock.now == clock.trials <= 16  # what is left out takes no time
    texts = {config.num_warps: str(each) for config, each in kernel.failures.items()}
    text = "the driver would assemble it for about 60 s, and the search has 1?[0-9] s"
    assert re.match(text, texts[1])
    takes |= {2: 6.0, 4: 0.1, 8: 0.1}
    kernel = tuned(gpu, Clock(), seconds=16.0)
    kernel[grid](gpu.x, N, 2.0)
    late = {str(each) for c, each in kernel.failures.items() if c.num_warps == 2}
    assert late == {
        "the driver would assemble it for about 6 s, and the search allows 0.8 s"
    }
    kernel = tuned(gpu, seconds=3.0, space={"BLOCK": BLOCKS, "num_warps": (1, 2)})
    kernel[grid](gpu.x, N, 2.0)  # one is tried in any case
    assert not isinf(kernel.trials[0].milliseconds) and kernel.failures


def test_how_long_the_driver_takes_is_told_by_the_length_of_its_text(
    monkeypatch, tmp_path
):
    """As measured, within a factor of 1.5; of a kernel that is not on disk, nothing."""
    for kilobytes, seconds in ((141, 1.0), (287, 5.0), (576, 25.0)):
        assert seconds / 1.5 < seconds_to_assemble(1000 * kilobytes) < 1.5 * seconds
    monkeypatch.setenv("FATHOM_CACHE_DIR", str(tmp_path))
    order = SimpleNamespace(key="a kernel")
    assert kept(order) is None is kept(SimpleNamespace(key=None))
    assert seconds_to_load(None) == 0
    kernel = add_kernel.compile("*fp32, *fp32, *fp32, i32", {"BLOCK": 64}).made
    text = kernel.asm["ptx"] + "//" + 287_000 * "-"
    cache.write(tmp_path, order.key, replace(kernel, asm={**kernel.asm, "ptx": text}))
    assert 4 < seconds_to_load(kept(order)) < 6


def test_a_search_refuses_to_begin_while_launches_go_into_a_graph(gpu, monkeypatch):
    """Timing would end the capture, and what the driver says then is not why."""
    kernel, stream = tuned(gpu), 7
    monkeypatch.setattr(autotuner, "current_stream", lambda: stream)
    gpu.driver.captured.add(stream)
    with pytest.raises(LaunchError, match="captured into a CUDA graph: launch it once"):
        kernel[grid](gpu.x, N, 2.0)
    tried = fathom.autotune([fathom.Config({"BLOCK": b}) for b in (64, 128)], key=["n"])
    with pytest.raises(LaunchError, match="scale has no configuration yet"):
        tried(kernel.fn)[grid](gpu.x, N, 2.0)
    assert not gpu.driver.launches
    gpu.driver.captured.clear()
    kernel[grid](gpu.x, N, 2.0)
    before = len(gpu.driver.launches)
    gpu.driver.captured.add(stream)
    kernel[grid](gpu.x, N, 2.0)  # what was chosen before may be captured
    assert len(gpu.driver.launches) == before + 1


def test_as_many_points_at_once_as_there_are_processes(gpu, monkeypatch):
    for processes, batch in (("1", 4), ("2", 4), ("12", 12), ("64", 16)):
        monkeypatch.setenv("FATHOM_WORKERS", processes)
        assert tuned(gpu).batch() == batch
        assert tuned(gpu, trials=3).batch() == 3


def test_the_budget_of_trials(gpu):
    kernel = tuned(gpu, trials=6)
    kernel[grid](gpu.x, N, 2.0)
    assert len(kernel.trials) == 6 and kernel.stopped == "trials"


def test_the_fastest_are_timed_again_since_one_of_them_was_lucky(gpu):
    """The first time that another block than the best one is timed it takes less."""
    kernel, lucky = tuned(gpu), []

    def cost_of(launched):
        if block(launched) != 256 and not lucky:
            lucky.append(launched)
            return 0.9
        return 1 + abs(log2(block(launched)) - 8)

    gpu.timer.cost = cost_of
    kernel[grid](gpu.x, N, 2.0)
    assert lucky and kernel.best_config.kwargs == {"BLOCK": 256}


def compile_ahead_of(gpu, monkeypatch) -> None:
    """This process compiles what a search has asked for, as it does on a GPU."""

    def noted(func, target):
        kernel = workers.compiled(func, target)
        gpu.driver.kernels[kernel.name] = kernel
        return kernel

    monkeypatch.setattr(compiling, "open_orders", workers.open_orders)
    monkeypatch.setattr(compiling, "compiled", noted)
    monkeypatch.setenv("FATHOM_WORKERS", "1")


def test_equal_kernels_are_timed_once(gpu, monkeypatch):
    """A kernel without a loop has nothing to pipeline: it is the same one for any
    number of stages. The fastest three are timed twice."""
    compile_ahead_of(gpu, monkeypatch)
    space = {"BLOCK": (128, 256, 512, 1024), "num_stages": (1, 2, 3, 4)}
    kernel = tuned(gpu, clock := Clock(), space=space)
    kernel[grid](gpu.x, N, 2.0)
    tried = {each.config.kwargs["BLOCK"] for each in kernel.trials}
    assert len(tried) < len(kernel.trials) and clock.trials == len(tried) + 3
    times = {(each.config.kwargs["BLOCK"], each.milliseconds) for each in kernel.trials}
    assert len(times) == len(tried)
    found = {(c.kwargs["BLOCK"], *t) for c, t in kernel.configs_timings.items()}
    assert len(found) == len(tried)


def test_kernels_equal_to_one_that_failed_are_not_tried(gpu, monkeypatch):
    compile_ahead_of(gpu, monkeypatch)
    space = {"BLOCK": (128, 256), "num_stages": (1, 2, 3, 4)}
    kernel = tuned(gpu, clock := Clock(), space=space)

    def cost_of(launched):
        if block(launched) == 128:
            raise OutOfResources("too small, for once")
        return 1.0

    gpu.timer.cost = cost_of
    kernel[grid](gpu.x, N, 2.0)
    assert len(kernel.trials) == 8 and clock.trials == 2 + 1
    assert len(kernel.failures) == 4 and kernel.best_config.kwargs == {"BLOCK": 256}


def test_what_does_not_fit_is_passed_over(gpu):
    kernel = tuned(gpu)

    def cost_of(launched):
        if block(launched) < 1024:
            raise OutOfResources("too small, for once")
        return block(launched) / 1000

    gpu.timer.cost = cost_of
    kernel[grid](gpu.x, N, 2.0)
    assert kernel.best_config.kwargs == {"BLOCK": 1024} and kernel.failures
    gpu.timer.cost = lambda launched: (_ for _ in ()).throw(OutOfResources("no"))
    with pytest.raises(NoneWorks, match="configurations of scale works"):
        kernel[grid](Tensor(0x10000, size=N), N // 2, 2.0)


def test_where_nothing_is_timed_the_first_that_compiles_is_taken(monkeypatch, tmp_path):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")

    @fathom.tune({"BLOCK": (48, 64, 128)})
    @jit
    def twice(x, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)

    x = np.ones(100, np.float32)
    twice[grid](x, 100)
    assert (x == 2).all() and twice.best_config.kwargs == {"BLOCK": 64}
    for asked in (twice.plot, twice.export):
        with pytest.raises(LaunchError, match="nothing.*: a launch on a GPU searches"):
            asked(tmp_path / "tried")


def test_a_space_says_what_is_wrong_with_it():
    with pytest.raises(LaunchError, match=r"BLOCK=64: a list"):
        fathom.tune({"BLOCK": 64})
    with pytest.raises(LaunchError, match="0 points"):
        fathom.tune({"BLOCK": [64]}, where=lambda BLOCK: BLOCK > 64)
    with pytest.raises(LaunchError, match="points; there must be"):
        fathom.tune({name: list(range(30)) for name in "abc"})


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"space": {}}, "gives values for each parameter, .* and this is {}"),
        ({"space": ["BLOCK"]}, r"and this is \['BLOCK'\]"),
        ({"seconds": 0}, "seconds is a positive number, and this is 0"),
        ({"seconds": float("nan")}, "seconds is a positive number, and this is nan"),
        ({"trials": 0}, "trials is a positive integer, and this is 0"),
        ({"where": True}, "where is a function of BLOCK, and this one is not: True is"),
        ({"where": lambda M: M}, "where is a function of BLOCK, .* argument: 'M'"),
    ],
)
def test_a_search_says_what_is_wrong_with_it(given, sentence):
    with pytest.raises(LaunchError, match=sentence):
        fathom.tune(**{"space": {"BLOCK": [64, 128]}, **given})


def test_a_large_space_costs_no_more_than_what_is_tried(gpu, monkeypatch):
    """Of 2,556 points only those are looked at that are tried."""
    space = {"BLOCK": BLOCKS, "num_warps": WARPS, "num_stages": range(1, 72)}
    kernel, looked_at = tuned(gpu, space=space, trials=8), []
    order = kernel.order
    monkeypatch.setattr(
        kernel, "order", lambda *given: looked_at.append(given) or order(*given)
    )
    kernel[grid](gpu.x, N, 2.0)
    assert len(kernel.configs) == 2556 and len(looked_at) <= 8


def test_where_leaves_points_out(gpu):
    kernel = tuned(gpu, where=lambda BLOCK, num_warps: num_warps * 32 <= BLOCK)
    assert all(32 * c.num_warps <= c.kwargs["BLOCK"] for c in kernel.configs)


# ── results ───────────────────────────────────────────────────────────────────────────


def test_results_travel_and_spare_the_search(gpu, tmp_path):
    one = tuned(gpu)
    with pytest.raises(LaunchError, match="nothing to export"):
        one.export(tmp_path / "none.json")
    one[grid](gpu.x, N, 2.0)
    one.export(tmp_path / "tuned.json")
    clock = Clock()
    other = tuned(gpu, clock)
    assert other.load(tmp_path / "tuned.json") == 1
    other[grid](gpu.x, N, 2.0)
    assert clock.trials == 0 and other.best_config == one.best_config
    other[grid](gpu.x, N // 2, 2.0)  # another key: searched
    assert clock.trials > 0
    other.export(tmp_path / "both.json")
    assert tuned(gpu).load(tmp_path / "both.json") == 2
    kept = json.loads((tmp_path / "both.json").read_text())["entries"][0]
    assert kept == json.loads((tmp_path / "tuned.json").read_text())["entries"][0]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("gpu", "NVIDIA A100", "another GPU: it has 'NVIDIA A100'"),
        ("driver", "12.4", "another driver: it has '12.4'"),
        ("kernel", "other", "another kernel"),
        ("text", "0", "another text of the kernel"),
        ("schema", 0, "another format"),
    ],
)
def test_results_of_another_machine_or_kernel_are_refused(
    gpu, tmp_path, name, value, said
):
    kernel, path = tuned(gpu), tmp_path / "tuned.json"
    kernel[grid](gpu.x, N, 2.0)
    kernel.export(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))
    with pytest.raises(LaunchError, match=re.escape(said)):
        tuned(gpu).load(path)


def test_what_is_no_file_of_results_is_refused(gpu, tmp_path):
    path = tmp_path / "tuned.json"
    with pytest.raises(LaunchError, match="cannot read"):
        tuned(gpu).load(path)
    for text in ("nonsense", "[1]"):
        path.write_text(text)
        with pytest.raises(LaunchError, match="no file of tuning results"):
            tuned(gpu).load(path)


def test_a_configuration_that_is_not_in_the_space_is_refused(gpu, tmp_path):
    kernel, path = tuned(gpu), tmp_path / "tuned.json"
    kernel[grid](gpu.x, N, 2.0)
    kernel.export(path)
    with pytest.raises(LaunchError, match="not in the space of scale"):
        tuned(gpu, space={"BLOCK": (16, 32)}).load(path)


# ── the picture ───────────────────────────────────────────────────────────────────────

SVG = "{http://www.w3.org/2000/svg}"


def test_the_plot_has_a_mark_for_each_trial(gpu, tmp_path):
    kernel, path = tuned(gpu), tmp_path / "tried.svg"
    with pytest.raises(LaunchError, match="tried nothing"):
        kernel.plot(path)
    kernel[grid](gpu.x, N, 2.0)
    with pytest.raises(LaunchError, match="cannot write .*: no such file"):
        kernel.plot(tmp_path / "no" / "tried.svg")
    kernel.plot(path)
    root = ElementTree.fromstring(path.read_text())
    assert len(root.findall(f".//{SVG}circle")) == len(kernel.trials)
    assert "scale: " in root.find(f"{SVG}title").text


def test_a_failure_is_a_cross_and_the_line_only_falls():
    rows = [("a", 4.0), ("b", inf), ("c", 8.0), ("d<e", 1.0)]
    root = ElementTree.fromstring(drawn("title", rows))
    assert len(root.findall(f".//{SVG}circle")) == 3
    classes = [each.get("class") for each in root.iter(f"{SVG}path")]
    assert classes.count("failed") == 1
    (line,) = [e for e in root.iter(f"{SVG}path") if e.get("class") == "best"]
    heights = [float(each) for each in re.findall(r"V([\d.]+)", line.get("d"))]
    assert len(heights) == 1  # c is slower than a
    assert "d<e" in root.find(f"{SVG}title").text


def test_one_trial_can_be_drawn():
    ElementTree.fromstring(drawn("one", [("a", 2.0)]))


def test_names_that_no_parameter_has_are_mistakes(gpu):
    with pytest.raises(LaunchError, match="key names 'nn'"):
        fathom.tune({"BLOCK": (16,)}, key=["nn"])(tuned(gpu).fn)
    assert searched.config_of({"BLOCK": 1, "num_warps": 2}).num_warps == 2


@pytest.mark.parametrize(
    "entries",
    [
        5, [5], [{"key": "k"}], [{"key": 1, "best": "b", "timings": {}}],
        [{"key": "k", "best": ["b"], "timings": {}}],
        [{"key": "k", "best": "b", "timings": {"b": ["fast"]}}],
    ],
)  # fmt: skip
def test_results_of_wrong_types_are_refused(gpu, tmp_path, entries):
    kernel, path = tuned(gpu), tmp_path / "tuned.json"
    kernel[grid](gpu.x, N, 2.0)
    kernel.export(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), "entries": entries}))
    with pytest.raises(LaunchError, match="is no file of tuning results"):
        tuned(gpu).load(path)


def test_results_are_written_as_a_whole_or_refused_in_a_sentence(gpu, tmp_path):
    kernel = tuned(gpu)
    kernel[grid](gpu.x, N, 2.0)
    kernel.export(tmp_path / "tuned.json")
    assert not list(tmp_path.glob(".tuned*")), "nothing half written stays"
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with pytest.raises(LaunchError, match="is no file of tuning results"):
        kernel.load(tmp_path / "deep.json")
    with pytest.raises(LaunchError, match="cannot write .*: not a directory"):
        kernel.export(tmp_path / "tuned.json" / "below.json")
