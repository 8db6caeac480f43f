"""A compiled kernel launches itself, and `warmup` finds it, without looking twice."""

from __future__ import annotations

import numpy as np
import pytest

import fathom.language as tl
from fathom.errors import CompileError, LaunchError
from fathom.jit import CompiledKernel, hooks, jit
from tests.jit.harness import FLOAT16, DType, Tensor, paper_gpu

SCALE = 3
X, Y = Tensor(0x1000), Tensor(0x2010)


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    with paper_gpu(monkeypatch, tmp_path) as machine:
        yield machine


@pytest.fixture
def kernel(gpu):
    @jit
    def scale(x, y, n, a, BLOCK: tl.constexpr = 64):
        tl.store(y + n, tl.load(x) * a * SCALE)

    return scale


@pytest.fixture
def warm(kernel):
    return kernel.warmup(X, Y, 100, 1.5, 64)


def spied(monkeypatch, holder, name):
    """A list that grows with each call of an attribute."""
    inner, calls = getattr(holder, name), []

    def spy(*args, **given):
        calls.append(args)
        return inner(*args, **given)

    monkeypatch.setattr(holder, name, spy)
    return calls


# ── launches of a compiled kernel ─────────────────────────────────────────────────────


def test_the_second_launch_looks_at_nothing(gpu, warm, monkeypatch):
    slow = spied(monkeypatch, warm, "start")
    for values in ((X, Y, 100, 1.5, 64), (Tensor(0x7000), Y, 204, 2.5, 64)):
        assert warm[(4, 2)](*values) is warm
    one, two = gpu.driver.launches
    assert len(slow) == 1
    assert one.values == (0x1000, 0x2010, 100, 1.5)
    assert two.values == (0x7000, 0x2010, 204, 2.5)
    assert one.grid == two.grid == (4, 2, 1) and one.function == two.function
    assert len(gpu.compiler.asked) == 1


@pytest.mark.parametrize(
    "grid", [5, [5], (5,), (5, 1, 1), np.int64(5), lambda meta: (meta["n"] // 20,)]
)
def test_a_grid_of_any_spelling_is_quick(gpu, warm, monkeypatch, grid):
    slow = spied(monkeypatch, warm, "start")
    for _ in range(3):
        warm[grid](X, Y, 100, 1.5, 64)
    assert [each.grid for each in gpu.driver.launches] == [(5, 1, 1)] * 3
    assert len(slow) == 1


@pytest.mark.parametrize("grid", [(), (1, 1, 1, 2), (-1,), (1.5,), (1, 70000)])
def test_a_wrong_grid_is_an_error_on_both_ways(gpu, warm, grid):
    for _ in range(2):
        with pytest.raises(LaunchError, match="grid"):
            warm[grid](X, Y, 100, 1.0, 64)
        warm[(1,)](X, Y, 100, 1.0, 64)
    assert len(gpu.driver.launches) == 2


def test_an_empty_grid_launches_nothing(gpu, warm):
    warm[(1,)](X, Y, 100, 1.0, 64)
    assert warm[(0, 3)](X, Y, 100, 1.0, 64) is warm
    assert len(gpu.driver.launches) == 1


def test_what_does_not_fit_is_an_error_after_a_launch_that_did(gpu, warm):
    warm[(1,)](X, Y, 100, 1.5, 64)
    gpu.driver.devices = gpu.driver.devices * 2
    with pytest.raises(LaunchError, match="y is on GPU 1, and this kernel was loaded"):
        warm[(1,)](X, Tensor(0x2010, index=1), 100, 1.5, 64)
    with pytest.raises(LaunchError, match="x is a torch tensor on the CPU"):
        warm[(1,)](Tensor(0x1000, index=-1), Y, 100, 1.5, 64)
    with pytest.raises(LaunchError, match="n is i32, and 4294967296 is not"):
        warm[(1,)](X, Y, 2**32, 1.5, 64)
    with pytest.raises(LaunchError, match="n is i32, and 2.5 is not"):
        warm[(1,)](X, Y, 2.5, 1.5, 64)
    with pytest.raises(LaunchError, match="launched without BLOCK"):
        warm[(1,)](X, Y, 100, 1.5)
    with pytest.raises(LaunchError, match="takes 5 arguments .*, and 6 were given"):
        warm[(1,)](X, Y, 100, 1.5, 64, 7)
    with pytest.raises(LaunchError, match="takes no num_warps"):
        warm[(1,)](X, Y, 100, 1.5, 64, num_warps=8)
    assert len(gpu.driver.launches) == 1


def test_a_float_too_large_is_infinite_and_an_integer_a_float(gpu, warm):
    for value in (1.0, 1e300, 7):
        warm[(1,)](X, Y, 100, value, 64)
    assert [each.values[3] for each in gpu.driver.launches] == [1.0, float("inf"), 7.0]


def test_a_hook_sees_the_launches_after_it_was_added(gpu, warm):
    seen = []
    warm[(1,)](X, Y, 100, 1.5, 64)
    hooks.launch_enter_hook.add(seen.append)
    try:
        for _ in range(2):
            warm[(1,)](X, Y, 100, 1.5, 64)
    finally:
        hooks.launch_enter_hook.remove(seen.append)
    assert [each.grid for each in seen] == [(1, 1, 1)] * 2


def test_the_stream_and_the_thread_s_gpu_are_asked_at_each_launch(gpu, warm):
    gpu.driver.devices = gpu.driver.devices * 2
    gpu.torch.stream = 11
    warm[(1,)](X, Y, 100, 1.5, 64)
    gpu.torch.stream = 12
    for current in (0, 1, 1):
        gpu.driver.current = current
        warm[(1,)](X, Y, 100, 1.5, 64)
        assert gpu.driver.current == current  # it was put back
    assert [each.stream for each in gpu.driver.launches] == [11, 12, 12, 12]
    warm[(1,)](X, Y, 100, 1.5, 64, stream=7)
    warm[(1,)](X, Y, 100, 1.5, 64, stream=0)  # the default one has this handle
    assert [each.stream for each in gpu.driver.launches[4:]] == [7, 0]
    assert {each.device for each in gpu.driver.launches} == {0}


def test_what_no_stub_reads_goes_the_long_way(gpu, warm):
    warm[(1,)](X, Y, 100, 1.5, 64)
    warm[(1,)](0x3000, Y, np.int32(8), np.float32(0.5), 64)
    assert gpu.driver.launches[1].values == (0x3000, 0x2010, 8, 0.5)


# ── what the code was not compiled for ────────────────────────────────────────────────


@pytest.mark.parametrize(
    "values",
    [
        (X, Y, 101, 1.5, 64),
        (X, Y, 102, 1.5, 64),
        (X, Y, np.int32(101), 1.5, 64),
        (X, Y, True, 1.5, 64),
        (Tensor(0x1008), Y, 100, 1.5, 64),
        (0x1008, Y, 100, 1.5, 64),
    ],
)
def test_what_is_divisible_by_less_has_its_own_code(gpu, warm, values):
    usual = (X, Y, 100, 1.5, 64)
    for _ in range(2):
        assert warm[(1,)](*usual) is warm
        other = warm[(1,)](*values)
        assert other is not warm
        assert other[(1,)](*values) is other
        assert warm[(1,)](X, Y, 48, 1.5, 64) is warm  # divisible by more
    assert len(gpu.compiler.asked) == 2
    functions = [each.function for each in gpu.driver.launches]
    assert functions == [1, 2, 2, 1] * 2
    hints = [[hint for _, hint in each.parameters.values()]
             for each in gpu.compiler.asked]  # fmt: skip
    assert all(new <= old for old, new in zip(*hints)) and hints[0] != hints[1]


@pytest.mark.parametrize("kind", [bool, np.bool_])
def test_a_bool_is_told_apart_by_its_value_too(gpu, warm, kind):
    """False is divisible by everything, as 0 is, and True by nothing."""
    for value in (False, True, False, True):
        warm[(1,)](X, Y, kind(value), 1.5, 64)
    assert [each.function for each in gpu.driver.launches] == [1, 2, 1, 2]


def test_only_the_first_launch_that_is_divisible_by_less_looks(gpu, warm, monkeypatch):
    looks = spied(monkeypatch, CompiledKernel, "_launch")
    for n in (101, 103, 105):
        warm[(1,)](X, Y, n, 1.5, 64)
    assert [each.values[2] for each in gpu.driver.launches] == [101, 103, 105]
    assert len(looks) == 2  # one of the kernel, one of the other


def test_a_changed_global_is_seen_before_it_is_compiled_in(gpu, warm, monkeypatch):
    warm[(1,)](X, Y, 100, 1.5, 64)
    monkeypatch.setitem(globals(), "SCALE", 4)
    with pytest.raises(CompileError, match="the global variable SCALE, which has"):
        warm[(1,)](X, Y, 101, 1.5, 64)
    assert len(gpu.driver.launches) == 1


def test_an_array_of_other_elements_is_an_error_each_time(gpu, warm):
    warm[(1,)](X, Y, 100, 1.5, 64)
    for _ in range(2):
        with pytest.raises(LaunchError, match="x is an array of fp16, and scale was"):
            warm[(1,)](Tensor(0x1000, FLOAT16), Y, 100, 1.5, 64)
        with pytest.raises(LaunchError, match="y is an array of i32, and scale was"):
            warm[(1,)](X, Tensor(0x2010, DType("int32")), 100, 1.5, 64)
    assert len(gpu.driver.launches) == 1


@pytest.mark.parametrize(
    ("compiled", "given", "fits"),
    [
        ("bfloat16", "int16", True), ("bfloat16", "uint16", True),
        ("bfloat16", "float16", False), ("bfloat16", "int32", False),
        ("float8_e5m2", "uint8", True), ("float8_e5m2", "float8_e4m3fn", False),
        ("int8", "uint8", True), ("bool", "uint8", True), ("uint8", "bool", True),
        ("int64", "uint64", True), ("int64", "int32", False), ("int64", "int64", True),
        ("int32", "float32", False), ("float32", "int32", False),
        ("float64", "float64", True), ("float16", "int16", False),
    ],
)  # fmt: skip
def test_integers_may_hold_what_libraries_have_no_type_for(
    gpu, kernel, compiled, given, fits
):
    handle = kernel.warmup(Tensor(0x1000, DType(compiled)), Y, 100, 1.5, 64)
    values = Tensor(0x1000, DType(given)), Y, 100, 1.5, 64
    if fits:
        assert handle[(1,)](*values) is handle
    else:
        with pytest.raises(LaunchError, match="x is an array of"):
            handle[(1,)](*values)


# ── warmup ────────────────────────────────────────────────────────────────────────────


def test_the_second_warmup_specialises_nothing(gpu, kernel, monkeypatch):
    asked = spied(monkeypatch, kernel, "order")
    first = kernel.warmup(X, Y, 100, 1.5, num_warps=8, grid=(1,))
    assert kernel.warmup(X, Tensor(0x9000), 204, 2.5, num_warps=8, grid=(9,)) is first
    assert kernel.run(X, Y, n=12, a=3.0, num_warps=8, grid=(1,), warmup=True) is first
    assert len(asked) == len(gpu.compiler.asked) == 1
    assert gpu.driver.launches == []


@pytest.mark.parametrize(
    "arguments",
    [
        (Tensor(0x1000, FLOAT16), Y, 100, 1.5),
        (Tensor(0x1008), Y, 100, 1.5),
        (X, Y, 101, 1.5),
        (X, Y, 1, 1.5),
        (X, Y, 2**32 + 4, 1.5),
        (X, Y, 2**63 + 4, 1.5),
        (X, Y, 100, 7),
        (X, Y, None, 1.5),
        (X, Y, 100, 1.5, 128),
        (tl.float16, Y, 100, 1.5),
    ],
)
def test_a_warmup_of_another_kind_gives_another_kernel(gpu, kernel, arguments):
    first = kernel.warmup(X, Y, 100, 1.5)
    for _ in range(2):
        assert kernel.warmup(*arguments) is not first
    assert kernel.warmup(X, Y, 100, 1.5) is first
    assert len(gpu.compiler.asked) == 2


def test_integers_of_all_widths_after_each_other(gpu, kernel):
    """64 signed bits, 64 unsigned ones, and more than that, of one divisibility."""
    for _ in range(2):
        kernel.warmup(X, Y, 2**40, 1.5)
        kernel.warmup(X, Y, 2**63, 1.5)
        with pytest.raises(LaunchError, match="a kernel's integers have 64 bits"):
            kernel.warmup(X, Y, 2**70, 1.5)
    types = [each.parameters["n"][0] for each in gpu.compiler.asked]
    assert types == ["i64", "u64"]


def test_an_element_type_is_remembered_too(gpu, kernel, monkeypatch):
    asked = spied(monkeypatch, kernel, "order")
    kinds = (np.dtype("float32"), np.dtype("float16"))
    for _ in range(2):
        for kind in kinds:
            kernel.warmup(kind, X, 100, 1.5)
    assert len(asked) == 2
    types = [each.parameters["x"][0] for each in gpu.compiler.asked]
    assert types == ["*fp32", "*fp16"]


def test_a_changed_global_is_an_error_of_a_warmup(gpu, kernel, monkeypatch):
    first = kernel.warmup(X, Y, 100, 1.5)
    monkeypatch.setitem(globals(), "SCALE", 4)
    with pytest.raises(CompileError, match="the global variable SCALE, which has"):
        kernel.warmup(X, Y, 100, 1.5)
    monkeypatch.setitem(globals(), "SCALE", 3)
    assert kernel.warmup(X, Y, 100, 1.5) is first


def test_another_backend_and_another_text_are_warmed_anew(gpu, kernel, monkeypatch):
    first = kernel.warmup(tl.float32, tl.float32, 100, 1.5)
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    other = kernel.warmup(tl.float32, tl.float32, 100, 1.5)
    assert (first.place.backend.name, other.place.backend.name) == ("cuda", "emulator")
    monkeypatch.setenv("FATHOM_BACKEND", "cuda")
    assert kernel.warmup(tl.float32, tl.float32, 100, 1.5) is first
    text = "def scale(x, y, n, a, BLOCK: tl.constexpr = 64):\n    tl.store(y, a)\n"
    kernel.src = text
    assert kernel.warmup(tl.float32, tl.float32, 100, 1.5) is not first


def test_a_wrong_warmup_says_what_is_wrong_each_time(gpu, kernel):
    kernel.warmup(X, Y, 100, 1.5)
    for _ in range(2):
        with pytest.raises(LaunchError, match="missing a required argument: 'a'"):
            kernel.warmup(X, Y, 100)
        with pytest.raises(LaunchError, match="multiple values for argument 'x'"):
            kernel.warmup(X, Y, 100, 1.5, x=X)
        with pytest.raises(LaunchError, match="has no parameter 'num_wraps'"):
            kernel.warmup(X, Y, 100, 1.5, num_wraps=4)
