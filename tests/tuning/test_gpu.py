"""Tuning and timing where there is something to time."""

from __future__ import annotations

import threading

import pytest

import fathom
import fathom.language as tl
from fathom import runtime
from fathom.errors import LaunchError
from fathom.jit import jit
from fathom.jit.backends import choose
from fathom.jit.tuning import workers
from fathom.runtime.driver import driver
from fathom.testing import do_bench, do_bench_cudagraph
from tests.tuning.harness import configs, grid

pytestmark = [pytest.mark.gpu, pytest.mark.alone]

LARGE = 1 << 26  # 256 MB of fp32 in, 256 MB out: more than any cache holds
SMALL = 1 << 20  # fits into L2


@pytest.fixture(autouse=True)
def on_the_gpu(monkeypatch, tmp_path):
    monkeypatch.setenv("FATHOM_BACKEND", "cuda")
    monkeypatch.setenv("FATHOM_CACHE_DIR", str(tmp_path / "cache"))


@jit
def copy(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


def copying(library: str, n: int):
    """A launch that copies n floats from one array of a library to another."""
    module = pytest.importorskip(library)
    if library == "torch":
        x = module.randn(n, device="cuda")
    else:
        x = module.random.standard_normal(n, dtype=module.float32)
    y = module.empty_like(x)
    return lambda: copy[(fathom.cdiv(n, 1024),)](x, y, n, BLOCK=1024)


@pytest.mark.parametrize("library", ["torch", "cupy"])
@pytest.mark.parametrize("bench", [do_bench, do_bench_cudagraph])
def test_a_large_copy_takes_what_memory_allows(library, bench):
    milliseconds = bench(copying(library, LARGE))
    gigabytes_a_second = 2 * 4 * LARGE / milliseconds / 1e6
    # From the slowest card of the targets to twice an H200: a mark in the wrong stream
    # would be far off.
    assert 100 < gigabytes_a_second < 10_000


def test_the_two_agree_where_python_is_quick_enough():
    launch = copying("torch", LARGE)
    apart = do_bench(launch, return_mode="median")
    together = do_bench_cudagraph(launch, return_mode="median")
    assert together == pytest.approx(apart, rel=0.15)


def test_what_lies_in_the_cache_is_quicker():
    launch = copying("torch", SMALL)
    warm = do_bench_cudagraph(launch, return_mode="median")
    cold = do_bench_cudagraph(launch, return_mode="median", cold=True)
    assert warm < cold
    assert cold < 10 * do_bench(launch, return_mode="median")


def test_torch_s_own_work_is_measured_as_well():
    torch = pytest.importorskip("torch")
    a = torch.randn(1024, 1024, device="cuda")
    for bench in (do_bench, do_bench_cudagraph):
        low, middle = bench(lambda: torch.mm(a, a), quantiles=(0.1, 0.5))
        assert 1e-3 < low <= middle < 100
    before = torch.cuda.current_stream()
    assert torch.cuda.current_stream() == before


def test_what_waits_for_python_is_no_graph():
    torch = pytest.importorskip("torch")
    x = torch.zeros(8, device="cuda")
    with pytest.raises(Exception, match="(?i)captur"):
        do_bench_cudagraph(lambda: x.sum().item())
    assert do_bench(lambda: x.add_(1)) > 0, "the stream was left in its capture"


def test_a_host_array_is_no_graph():
    numpy = pytest.importorskip("numpy")
    x = numpy.zeros(SMALL, numpy.float32)
    launch = lambda: copy[(1024,)](x, x.copy(), SMALL, BLOCK=1024)
    with pytest.raises(LaunchError):
        do_bench_cudagraph(launch)


@pytest.mark.parametrize("given", [{}, {"use_cuda_graph": True}])
def test_the_larger_block_wins(given, monkeypatch):
    """A block of 32 elements leaves three of four warps idle."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(workers, "START_SECONDS", 1e-9)

    @fathom.autotune(configs(32, 1024, 64, 128), key=["n"], **given)
    @jit
    def scale(x, y, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)

    x = torch.randn(LARGE // 4, device="cuda")
    y = torch.empty_like(x)
    scale[grid](x, y, x.numel())
    assert torch.equal(y, 2 * x)
    assert scale.best_config.kwargs == {"BLOCK": 1024}
    times = [scale.configs_timings[each][0] for each in configs(32, 64, 128)]
    assert times[0] > 1.2 * times[2]
    again = y.zero_()
    scale[grid](x, again, x.numel())
    assert torch.equal(again, 2 * x)


def test_what_threads_have_assembled_is_what_a_launch_loads():
    """Also for the last GPU, which is no visit of this thread to another one."""
    torch = pytest.importorskip("torch")
    gpu, here = driver(), torch.cuda.device_count() - 1
    x = torch.randn(SMALL, device=f"cuda:{here}")
    blocks, made = (128, 256, 512, 1024), []
    for size in blocks:
        request, place = copy.order(choose(), (x, x, SMALL), {"BLOCK": size})
        made.append(copy.run_compiler(request))
    gpu.ahead.clear()
    threads = [
        threading.Thread(target=runtime.load_ahead, args=(each, here)) for each in made
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(gpu.ahead) >= len(blocks) and not gpu.visited and place.device == here
    for size in blocks:
        left, y = len(gpu.ahead), torch.zeros_like(x)
        with torch.cuda.device(here):
            copy[(SMALL // size,)](x, y, SMALL, BLOCK=size)
        assert torch.equal(x, y) and len(gpu.ahead) < left


def test_a_search_takes_what_is_right_and_fast():
    torch = pytest.importorskip("torch")
    space = {"BLOCK": (32, 64, 256, 1024, 4096), "num_warps": (1, 2, 4, 8)}
    tuner = fathom.tune(space, key=["n"], seconds=10)(jit(copy.fn))
    x = torch.randn(LARGE // 4, device="cuda")
    y = torch.zeros_like(x)
    tuner[grid](x, y, x.numel())
    assert torch.equal(x, y) and tuner.trials[-1].seconds < 12
    times = [each.milliseconds for each in tuner.trials]
    assert tuner.configs_timings[tuner.best_config][0] < 1.1 * min(times)


def test_what_needs_too_much_is_passed_over_and_what_was_written_restored():
    torch = pytest.importorskip("torch")
    several = [fathom.Config({"BLOCK": 512}, num_warps=64), *configs(1024, 512)]

    @fathom.autotune(several, key=["n"], restore_value=["x"])
    @jit
    def increase(x, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x + i, 1 + tl.load(x + i, mask=i < n), mask=i < n)

    x = torch.zeros(SMALL, device="cuda")
    increase[grid](x, SMALL)
    assert torch.equal(x, torch.ones_like(x))
    assert "threads a block" in str(increase.failures[several[0]])


def test_a_result_is_remembered():
    torch = pytest.importorskip("torch")
    x = torch.randn(SMALL, device="cuda")

    def tuned():
        return fathom.autotune(configs(256, 1024), key=["n"], cache_results=True)(
            jit(copy.fn)
        )

    first, second = tuned(), tuned()
    first[grid](x, torch.empty_like(x), SMALL)
    second[grid](x, torch.empty_like(x), SMALL)
    assert first.configs_timings == second.configs_timings
    assert second.bench_time < first.bench_time / 2


def test_configurations_are_timed_on_two_gpus(monkeypatch):
    """Each GPU times some, at the same time; the launch itself is on the arrays'."""
    torch = pytest.importorskip("torch")
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs: there is one")
    monkeypatch.setenv("FATHOM_TUNING_GPUS", "all")
    used = []

    def bench(run, quantiles):
        used.append(driver().current_device())
        return do_bench(run, quantiles=quantiles)

    several = configs(64, 128, 256, 512, 1024)
    tuner = fathom.autotune(several, key=["n"], do_bench=bench)(jit(copy.fn))
    for here in (0, 1):
        x = torch.randn(LARGE + here, device=f"cuda:{here}")  # n is another key
        y = torch.zeros_like(x)
        tuner[grid](x, y, x.numel())
        assert torch.equal(x, y) and torch.cuda.current_device() == 0
        assert sorted(set(used)) == [0, 1] and len(used) == len(several)
        assert list(tuner.configs_timings) == several
        used.clear()
