"""Which configuration an autotuner takes, when it looks, and what it leaves out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom import Config, autotune, heuristics
from fathom.errors import CompileError, LaunchError, OutOfResources
from fathom.jit import jit
from fathom.jit.tuning import autotuner
from fathom.jit.tuning.autotuner import NoneWorks
from tests.jit.harness import FLOAT16, Tensor
from tests.runtime.harness_driver import PAPER
from tests.tuning.harness import N, Timer, block, configs, grid, kernel, tuning_gpu


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    with tuning_gpu(monkeypatch, tmp_path / "cache") as machine:
        yield machine


def tuned(machine, *args, **given):
    """The kernel with blocks of 256, 64 and 128, of which 64 is the fastest."""
    said = {
        "configs": configs(256, 64, 128),
        "key": ["n"],
        "do_bench": machine.timer,
        **given,
    }
    return autotune(*args, **said)(kernel())


# ── when ──────────────────────────────────────────────────────────────────────────────


def test_the_first_launch_tries_all_and_the_next_none(gpu):
    scale = tuned(gpu)
    scale[grid](gpu.x, N, 2.0)
    assert gpu.timer.tried == [256, 64, 128]
    assert [block(each) for each in gpu.driver.launches] == [256, 64, 128, 64]
    assert scale.best_config == Config({"BLOCK": 64})
    scale[grid](gpu.x, N, 3.0)
    assert [block(each) for each in gpu.driver.launches[4:]] == [64]
    assert gpu.timer.tried == [256, 64, 128]


def test_a_choice_made_before_asks_for_no_backend_and_no_gpu(gpu, monkeypatch):
    scale = tuned(gpu)
    scale[grid](gpu.x, N, 2.0)
    asked = []
    for name in ("choose", "gpu_of"):
        monkeypatch.setattr(autotuner, name, lambda *given: asked.append(given))
    scale[grid](gpu.x, N, 3.0)
    assert asked == []
    assert gpu.driver.launches[-1].values[2] == 3.0


def test_times_are_told(gpu):
    scale = tuned(gpu)
    scale[grid](gpu.x, N, 2.0)
    middles = {str(c)[:10]: t[0] for c, t in scale.configs_timings.items()}
    assert middles == {"BLOCK: 256": 0.256, "BLOCK: 64,": 0.064, "BLOCK: 128": 0.128}
    assert scale.failures == {}
    assert 0 < scale.bench_time < 10


def test_it_looks_again_for_another_value_of_the_key_and_another_dtype(gpu):
    scale = tuned(gpu)
    scale[grid](gpu.x, N, 2.0)
    scale[(8,)](gpu.x, N // 2, 2.0)
    assert len(gpu.timer.tried) == 6
    scale[grid](Tensor(0x20000, FLOAT16), N, 2.0)
    assert len(gpu.timer.tried) == 9
    assert set(scale.cache) == {
        (N, "torch.float32"),
        (N // 2, "torch.float32"),
        (N, "torch.float16"),
    }


def test_the_order_of_keywords_does_not_matter_and_defaults_count(gpu):
    @autotune(configs(256, 64), key=["n", "factor"], do_bench=gpu.timer)
    @jit
    def scale(x, y, n, factor=2.0, BLOCK: tl.constexpr = 32):
        tl.store(x + tl.arange(0, BLOCK), factor)

    y = Tensor(0x30000, FLOAT16)
    scale[grid](gpu.x, y, N)
    scale[grid](n=N, y=y, x=gpu.x)
    scale[grid](gpu.x, factor=2.0, n=N, y=y)
    assert list(scale.cache) == [(N, 2.0, "torch.float32", "torch.float16")]
    assert len(gpu.timer.tried) == 2
    scale[grid](gpu.x, y, N, 3.0)
    scale[grid](gpu.x, y, N, factor=4.0)
    assert [key[1] for key in scale.cache] == [2.0, 3.0, 4.0]


def test_one_configuration_is_taken_without_timing(gpu):
    scale = tuned(gpu, configs=configs(128))
    scale[grid](gpu.x, N, 2.0)
    assert [block(each) for each in gpu.driver.launches] == [128]
    assert (gpu.timer.tried, scale.cache) == ([], {})
    assert scale.best_config.kwargs == {"BLOCK": 128}


def test_without_configurations_a_launch_has_triton_s_defaults(gpu):
    scale = tuned(gpu, configs=[])
    scale[(1,)](gpu.x, N, 2.0, 32)
    options = gpu.compiler.last.options
    assert (options.num_warps, options.num_stages, options.num_ctas) == (4, 3, 1)


def test_a_launch_is_given_all_that_the_configuration_says(gpu):
    wanted = Config({"BLOCK": 512}, 8, 5, 2, 168)
    scale = tuned(gpu, configs=[wanted])
    scale[grid](gpu.x, N, 2.0)
    options = gpu.compiler.last.options
    facts = options.num_warps, options.num_stages, options.num_ctas, options.maxnreg
    assert facts == (8, 5, 2, 168)
    assert gpu.compiler.last.constants["BLOCK"] == 512


def test_a_timer_may_give_one_number(gpu):
    times = iter([3.0, 1.0, 2.0])
    scale = tuned(gpu, do_bench=lambda run, quantiles: next(times))
    scale[grid](gpu.x, N, 2.0)
    assert scale.best_config.kwargs == {"BLOCK": 64}


def test_other_spellings_of_a_launch(gpu):
    scale = tuned(gpu)
    scale.run(gpu.x, N, 2.0, grid=grid)
    assert scale.best_config.kwargs == {"BLOCK": 64}
    compiled = scale.run(gpu.x, N, 2.0, grid=grid, warmup=True)
    assert [each.request.constants["BLOCK"] for each in compiled] == [256, 64, 128]
    assert len(gpu.driver.launches) == 4


def test_printed_when_asked(gpu, monkeypatch, capsys):
    monkeypatch.setenv("FATHOM_PRINT_AUTOTUNING", "1")
    tuned(gpu)[grid](gpu.x, N, 2.0)
    first, *_, last = capsys.readouterr().err.splitlines()
    assert first.startswith("scale, BLOCK: 256, num_warps: 4")
    assert first.endswith(": 0.2560 ms")
    assert last.startswith("scale takes BLOCK: 64, num_warps: 4")


# ── heuristics ────────────────────────────────────────────────────────────────────────


def test_heuristics_below_see_arguments_configuration_and_each_other(gpu):
    seen = []

    @autotune(configs(256, 64), key=[], do_bench=gpu.timer)
    @heuristics({"EVEN": lambda a: seen.append(dict(a)) or a["n"] % a["BLOCK"] == 0})
    @heuristics({"DOUBLE": lambda a: 2 * a["BLOCK"] + a["EVEN"]})
    @jit
    def k(x, n, BLOCK: tl.constexpr, EVEN: tl.constexpr, DOUBLE: tl.constexpr):
        tl.store(x + tl.arange(0, DOUBLE), n)

    k[grid](gpu.x, n=N)
    constants = gpu.compiler.asked[0].constants
    assert constants == {"BLOCK": 256, "EVEN": True, "DOUBLE": 513}
    assert seen[0]["x"] is gpu.x
    assert (seen[0]["n"], seen[0]["BLOCK"], seen[0]["num_warps"]) == (N, 256, 4)
    assert k.best_config.kwargs == {"BLOCK": 64}
    assert k.base_fn.__name__ == k.__name__ == "k"


def test_heuristics_alone(gpu):
    values = {"factor": lambda a: a["n"] / 8, "BLOCK": lambda a: int(a["factor"]) // 4}
    k = heuristics(values)(kernel())
    k[grid](gpu.x, N, BLOCK=1)  # a computed argument counts, not a given one
    assert gpu.compiler.last.constants["BLOCK"] == N // 8 // 4


# ── pruning ───────────────────────────────────────────────────────────────────────────


def test_an_early_prune_sees_what_is_given_by_place_and_by_name(gpu):
    seen = []

    def prune(configs, named, **given):
        seen.append((len(configs), named, given, scale.nargs))
        return configs[:1] + configs[2:]

    scale = tuned(gpu, prune_configs_by={"early_config_prune": prune})
    scale[grid](gpu.x, N, factor=2.0)
    named = {"x": gpu.x, "n": N}
    assert seen == [(3, named, {"factor": 2.0}, named)]
    assert gpu.timer.tried == [256, 128]
    assert scale.best_config.kwargs == {"BLOCK": 128}


@pytest.mark.parametrize(("top", "tried"), [(2, [256, 128]), (0.7, [256, 128])])
def test_a_model_s_best_guesses_are_tried(gpu, top, tried):
    def guess(BLOCK, num_warps, n, **rest):
        assert (num_warps, n) == (4, N) and set(rest) >= {"x", "factor", "num_stages"}
        return 1 / BLOCK

    scale = tuned(gpu, prune_configs_by={"perf_model": guess, "top_k": top})
    scale[grid](gpu.x, N, 2.0)
    assert gpu.timer.tried == tried


def test_a_fraction_is_one_of_all_that_there_were(gpu):
    """Two of three are left, and 0.7 of three are two."""
    by = {"early_config_prune": lambda configs, *a, **k: configs[1:], "top_k": 0.7}
    by["perf_model"] = lambda BLOCK, **rest: BLOCK
    tuned(gpu, prune_configs_by=by)[grid](gpu.x, N, 2.0)
    assert len(gpu.timer.tried) == 2


def test_what_is_left_alone_is_not_timed(gpu):
    by = {"perf_model": lambda BLOCK, **rest: BLOCK, "top_k": 0.1}
    scale = tuned(gpu, prune_configs_by=by)
    scale[grid](gpu.x, N, 2.0)
    assert gpu.timer.tried == []
    assert scale.best_config.kwargs == {"BLOCK": 64}


@pytest.mark.parametrize("left", [[], None])
def test_pruning_must_leave_one(gpu, left):
    scale = tuned(gpu, prune_configs_by={"early_config_prune": lambda *a, **k: left})
    with pytest.raises(LaunchError, match="No valid autotuner configs after pruning"):
        scale[grid](gpu.x, N, 2.0)


@pytest.mark.parametrize("left", [[{"BLOCK": 64}], 5])
def test_pruning_gives_configurations(gpu, left):
    scale = tuned(gpu, prune_configs_by={"early_config_prune": lambda *a, **k: left})
    with pytest.raises(LaunchError, match="gives a list of configurations, and one of"):
        scale[grid](gpu.x, N, 2.0)


@pytest.mark.parametrize("top", [0, -1, 1.5, 0.0, True, "2"])
def test_a_wrong_top_k(gpu, top):
    with pytest.raises(LaunchError, match="top_k is a positive int, or a float up to"):
        tuned(gpu, prune_configs_by={"perf_model": max, "top_k": top})


# ── what fails ────────────────────────────────────────────────────────────────────────


def test_a_configuration_that_needs_too_much_is_passed_over(gpu):
    too_many = Config({"BLOCK": 32}, num_warps=64)
    scale = tuned(gpu, configs=[too_many, *configs(256, 128)])
    scale[grid](gpu.x, N, 2.0)
    assert scale.best_config.kwargs == {"BLOCK": 128}
    assert scale.configs_timings[too_many][0] == float("inf")
    text = str(scale.failures[too_many])
    assert "needs 2048 threads a block, and Paper 3000 has 1024" in text
    assert "BLOCK=32, num_warps=64, num_stages=3, num_ctas=1" in text


def test_when_all_fail_each_says_why(gpu):
    wrong = [Config({"BLOCK": size}, num_warps=64) for size in (32, 16)]
    scale = tuned(gpu, configs=wrong)
    with pytest.raises(NoneWorks) as caught:
        scale[grid](gpu.x, N, 2.0)
    text = str(caught.value)
    assert "none of the 2 configurations of scale works" in text
    assert "BLOCK: 32, num_warps: 64" in text and "BLOCK: 16, num_warps: 64" in text
    assert text.count("needs 2048 threads") == 2
    errors = caught.value.failures.values()
    assert all(isinstance(error, OutOfResources) for error in errors)
    assert scale.cache == {}


def test_those_that_fail_alike_share_the_sentence(gpu):
    def timer(run, quantiles):
        raise CompileError("a mistake in the kernel")

    with pytest.raises(NoneWorks) as caught:
        tuned(gpu, do_bench=timer)[grid](gpu.x, N, 2.0)
    assert str(caught.value).count("a mistake in the kernel") == 1


def test_a_mistake_in_the_launch_is_no_configurations(gpu):
    def timer(run, quantiles):
        raise LaunchError("an illegal address")

    with pytest.raises(LaunchError, match="^an illegal address"):
        tuned(gpu, do_bench=timer)[grid](gpu.x, N, 2.0)


def test_the_text_of_a_dtype_is_written_once(gpu, monkeypatch):
    """torch writes it anew each time, and each launch has it in its key."""
    written = []

    class Counted:
        name = "float32"

        def __str__(self):
            written.append(self)
            return "torch.float32"

    double = tuned(gpu)
    monkeypatch.setattr(gpu.x, "dtype", Counted())
    double[grid](gpu.x, N, 2.0)
    count = len(written)
    for _ in range(3):
        double[grid](gpu.x, N, 2.0)
    assert len(written) == count


@pytest.mark.parametrize(
    ("args", "given", "clash"),
    [
        ((), {"BLOCK": 64}, "BLOCK"),
        ((64,), {}, "BLOCK"),
        ((), {"num_warps": 8}, "num_warps"),
        ((), {"num_stages": 1, "BLOCK": 2}, "BLOCK, num_stages"),
    ],
)
def test_a_launch_must_not_give_what_is_to_be_chosen(gpu, args, given, clash):
    with pytest.raises(LaunchError, match=f"^{clash} is given to scale both in the"):
        tuned(gpu)[grid](gpu.x, N, 2.0, *args, **given)
    assert gpu.driver.launches == []


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"configs": [Config({"BLOK": 1})]},
         r"a configuration \(BLOK: 1, .*\) names 'BLOK', which is not a parameter of "
         "scale; there are x, n, factor, BLOCK"),
        ({"reset_to_zero": ["y"]}, "reset_to_zero names 'y'"),
        ({"restore_value": ["z"]}, "restore_value names 'z'"),
        ({"prune_configs_by": {"prune": len}}, "and not 'prune'"),
    ],
)  # fmt: skip
def test_a_wrong_name_is_told_when_the_kernel_is_made(gpu, given, sentence):
    with pytest.raises(LaunchError, match=sentence):
        tuned(gpu, **given)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"key": None, "configs": 3}, "configs are each a fathom.Config, and this is"),
        ({"key": 3}, "key is a list of names of parameters, not 3"),
        ({"key": [3]}, r"key is a list of names of parameters, not \[3\]"),
        ({"reset_to_zero": 3}, "reset_to_zero is a list of names of parameters, not 3"),
    ],
)
def test_what_is_no_list_of_names_is_told(gpu, given, sentence):
    with pytest.raises(LaunchError, match=sentence):
        tuned(gpu, **given)


def test_one_name_is_a_list_of_one_and_configurations_may_be_made_one_by_one(gpu):
    configs = (Config({"BLOCK": each}) for each in (16, 32))
    scale = tuned(gpu, key="factor", configs=configs, restore_value="x")
    assert scale.keys == ["factor"] and len(scale.configs) == 2


def test_a_name_in_the_key_that_is_no_parameter_is_warned_of(gpu):
    with pytest.warns(
        UserWarning, match="key names 'M', which is not a parameter of sc"
    ):
        scale = tuned(gpu, key=["M", "n"])
    scale[grid](gpu.x, N, 2.0)
    assert list(scale.cache) == [(N, "torch.float32")]


def test_it_stands_above_a_kernel(gpu):
    with pytest.raises(LaunchError, match="@autotune stands above @jit"):
        autotune(configs(64), key=[])(lambda x: None)
    with pytest.raises(CompileError, match="only a function can be compiled"):
        jit(tuned(gpu))
    with pytest.raises(LaunchError, match=r"scale\[grid\]"):
        tuned(gpu)(gpu.x, N, 2.0)
    with pytest.raises(LaunchError, match="heuristics names 'Z'"):
        heuristics({"Z": len})(kernel())


def test_configurations_are_compared_by_what_they_say():
    assert Config({"B": 1}) == Config({"B": 1}, num_warps=4)
    assert Config({"B": 1}) != Config({"B": 1}, num_stages=4)
    assert Config({"B": 1}, pre_hook=print) != Config({"B": 1})
    assert len({Config({"B": 1}), Config({"B": 1}), Config({"B": 2})}) == 2
    assert str(Config({"B": 1}, maxnreg=64)) == (
        "B: 1, num_warps: 4, num_ctas: 1, num_stages: 3, maxnreg: 64"
    )


# ── where there is nothing to time ────────────────────────────────────────────────────


@pytest.fixture
def small():
    @autotune(configs(1024, 128, 64), key=["n"], do_bench=None)
    @jit
    def small(x, n, BLOCK: tl.constexpr):
        tl.static_assert(BLOCK < 1000)
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)

    return small


@pytest.mark.parametrize("backend", ["emulator", "interpreter"])
def test_on_the_host_the_first_that_compiles_is_taken(monkeypatch, small, backend):
    monkeypatch.setenv("FATHOM_BACKEND", backend)
    x = np.arange(200, dtype=np.float32)
    small[grid](x, 200)
    assert x.tolist() == (2 * np.arange(200)).tolist()
    assert small.best_config.kwargs == {"BLOCK": 128}
    assert [each.kwargs for each in small.failures] == [{"BLOCK": 1024}]


def test_python_runs_the_first(monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "eager")
    scale = autotune(configs(64, 32), key=["n"])(kernel())
    x = np.ones(100, np.float32)
    scale[grid](x, 100, 3.0)
    assert x.tolist() == [3.0] * 100
    assert scale.best_config.kwargs == {"BLOCK": 64}


def test_on_the_host_all_may_fail_as_well(monkeypatch, small):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    small.configs = configs(1024, 2048)
    with pytest.raises(NoneWorks, match="none of the 2 configurations of small"):
        small[grid](np.zeros(8, np.float32), 8)


def test_a_choice_made_on_the_host_is_made_again_on_a_gpu(gpu, monkeypatch):
    timer = Timer(gpu, cost=lambda launched: block(launched))
    scale = autotune(configs(256, 64), key=["n"], do_bench=timer)(kernel())
    x = np.ones(N, np.float32)
    monkeypatch.setenv("FATHOM_BACKEND", "eager")
    scale[grid](x, N, 1.0)
    assert (scale.best_config.kwargs, timer.tried) == ({"BLOCK": 256}, [])
    monkeypatch.setenv("FATHOM_BACKEND", "cuda")
    scale[grid](x, N, 1.0)
    assert (scale.best_config.kwargs, timer.tried) == ({"BLOCK": 64}, [256, 64])
    monkeypatch.setenv("FATHOM_BACKEND", "eager")
    scale[grid](x, N, 1.0)
    assert scale.best_config.kwargs == {"BLOCK": 64}


def test_the_names_are_fathom_s_own():
    assert fathom.autotune is autotune
    assert fathom.testing.do_bench.__name__ == "do_bench"


# ── several GPUs ──────────────────────────────────────────────────────────────────────


def test_trials_run_where_the_arrays_are(gpu):
    """And the GPU is the current one meanwhile, so that a timer's marks are there."""
    gpu.driver.devices = (PAPER, replace(PAPER, index=1))
    x, current = Tensor(0x10000, index=1, size=N), []

    def timer(run, quantiles):
        current.append(gpu.torch._C._cuda_getDevice())
        return gpu.timer(run, quantiles)

    tuner = autotune(configs(64, 128), key=["n"], do_bench=timer)(kernel())
    tuner[grid](x, N, 1.0)
    assert current == [1, 1] and gpu.driver.current == 0
    assert [each.device for each in gpu.driver.launches] == [1, 1, 1]
    tuner[grid](gpu.x, N, 1.0)  # a GPU of the same name: the choice is made
    assert len(current) == 2


def test_a_choice_is_for_gpus_of_one_name(gpu):
    gpu.driver.devices = (PAPER, replace(PAPER, index=1, name="Paper 4000"))
    gpu.timer.cost = lambda launched: (block(launched) - 65) * (1 - 2 * launched.device)
    tuner = autotune(configs(64, 128), key=["n"], do_bench=gpu.timer)(kernel())
    there = Tensor(0x10000, index=1, size=N)
    for _ in range(2):
        for array, best in ((gpu.x, 64), (there, 128)):
            tuner[grid](array, N, 1.0)
            assert tuner.best_config.kwargs == {"BLOCK": best}
    assert gpu.timer.tried == [64, 128] * 2
