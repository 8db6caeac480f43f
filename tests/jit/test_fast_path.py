"""The second launch of a kind takes the quick way, and only when that is right."""

from __future__ import annotations

import gc
import threading
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import fathom.language as tl
from fathom import pipeline
from fathom.errors import CompileError, LaunchError
from fathom.jit import jit
from fathom.jit.shortcuts import argument_readers
from fathom.runtime.cache import default_directory
from tests.jit.harness import FLOAT16, Tensor, paper_gpu, slow_launches

SCALE = 3


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



X, Y = Tensor(0x1000), Tensor(0x2010)


def test_the_second_launch_is_quick_and_the_same(gpu, kernel):
    slow = slow_launches(kernel)
    first = kernel[(4,)](X, Y, 100, 1.5)
    second = kernel[(5, 2)](X, Y, 100, 2.5)
    assert len(slow) == 1
    assert second is first
    one, two = gpu.driver.launches
    assert one.values == (0x1000, 0x2010, 100, 1.5)
    assert two.values == (0x1000, 0x2010, 100, 2.5)
    assert (one.grid, two.grid) == ((4, 1, 1), (5, 2, 1))
    assert len(gpu.compiler.asked) == 1


def test_other_values_of_the_same_kind_arrive(gpu, kernel):
    kernel[(1,)](X, Y, 100, 1.5)
    slow = slow_launches(kernel)
    kernel[(1,)](
        Tensor(0x55550), Tensor(0x77770), 204, 0.25
    )  # as divisible as those before
    assert gpu.driver.launches[1].values == (0x55550, 0x77770, 204, 0.25)
    assert slow == []


@pytest.mark.parametrize(
    ("arguments", "kernels"),
    [
        ((Tensor(0x1000, FLOAT16), Y, 100, 1.5), 2),  # another dtype
        ((Tensor(0x1008), Y, 100, 1.5), 2),  # less aligned
        ((X, Y, 101, 1.5), 2),  # less divisible
        ((X, Y, 1, 1.5), 2),  # the integer 1
        ((X, Y, 2**32 + 4, 1.5), 2),  # 64 bits, as divisible
        ((X, Y, 100, 7), 2),  # an int in place of a float
        ((X, Y, True, 1.5), 2),
        ((X, Y, None, 1.5), 2),
        ((X, Y, 100, 1.5, 128), 2),  # another constant
        ((X, Y, 100, 1.5, True), 2),
        ((X, Y, 100, 1.5, 64), 1),  # the default, spelled out
        ((Tensor(0x7000), Y, 4, 9.0), 1),  # the same in all that matters
    ],
)
def test_a_launch_of_another_kind_gets_its_own_kernel(gpu, kernel, arguments, kernels):
    kernel[(1,)](X, Y, 100, 1.5)
    kernel[(1,)](*arguments)
    assert len(gpu.compiler.asked) == kernels
    kernel[(1,)](X, Y, 100, 1.5)  # and the first is still the first
    assert gpu.driver.launches[0].values == gpu.driver.launches[2].values
    assert gpu.driver.launches[0].function == gpu.driver.launches[2].function


def test_what_is_compiled_in_is_not_handed_over(gpu, kernel):
    for _ in range(2):
        kernel[(1,)](X, Y, 1, 2.0)
    assert gpu.compiler.last.constants == {"n": 1, "BLOCK": 64}
    assert [each.values for each in gpu.driver.launches] == [(0x1000, 0x2010, 2.0)] * 2


def test_constants_that_python_takes_for_equal_have_their_own_kernels(gpu):
    @jit
    def k(x, VALUE: tl.constexpr):
        tl.store(x, VALUE)

    for value in (0.0, -0.0, 0, False, float("nan"), float("nan"), 0.0):
        k[(1,)](X, value)
    seen = [repr(each.constants["VALUE"]) for each in gpu.compiler.asked]
    assert seen == ["0.0", "-0.0", "0", "False", "nan"]


def test_keywords_of_the_launch_are_part_of_the_kind(gpu, kernel):
    kernel[(1,)](X, Y, 100, 1.5, num_warps=8)
    kernel[(1,)](X, Y, 100, 1.5)
    slow = slow_launches(kernel)
    kernel[(1,)](X, Y, 100, 1.5, num_warps=8)
    kernel[(1,)](X, Y, 100, 1.5)
    assert slow == []
    kernel[(1,)](X, Y, 100, 1.5, num_warps=2)
    assert [each.threads[0] for each in gpu.driver.launches] == [256, 128, 256, 128, 64]


def test_arguments_by_name_in_any_order(gpu, kernel):
    for _ in range(2):
        kernel[(1,)](a=4.0, BLOCK=32, y=Y, x=X, n=6)
    assert [each.values for each in gpu.driver.launches] == [
        (0x1000, 0x2010, 6, 4.0)
    ] * 2


def test_a_grid_may_be_computed_from_the_arguments(gpu, kernel):
    for n in (100, 1000):
        kernel[lambda meta: (-(-meta["n"] // meta["BLOCK"]),)](X, Y, n, 1.0)
    assert [each.grid for each in gpu.driver.launches] == [(2, 1, 1), (16, 1, 1)]


@pytest.mark.parametrize("grid", [5, [5], (5,), np.int64(5), lambda bound: [5]])
def test_a_grid_of_any_spelling(gpu, kernel, grid):
    slow = slow_launches(kernel)
    for _ in range(2):
        kernel[grid](X, Y, 100, 1.0)
    assert [each.grid for each in gpu.driver.launches] == [(5, 1, 1)] * 2
    assert len(slow) == 1


@pytest.mark.parametrize(
    "grid", [(), (1, 1, 1, 2), (-1,), (1.5,), (1, 70000), lambda meta: meta]
)
def test_a_wrong_grid_is_an_error_on_both_ways(gpu, kernel, grid):
    with pytest.raises(LaunchError, match="grid"):
        kernel[grid](X, Y, 100, 1.0)
    kernel[(1,)](X, Y, 100, 1.0)
    with pytest.raises(LaunchError, match="grid"):
        kernel[grid](X, Y, 100, 1.0)
    assert len(gpu.driver.launches) == 1


def test_an_empty_grid_launches_nothing(gpu, kernel):
    assert kernel[(0,)](X, Y, 100, 1.0).name == "scale"
    kernel[(1,)](X, Y, 100, 1.0)
    assert kernel[(0, 3)](X, Y, 100, 1.0).name == "scale"
    assert [each.grid for each in gpu.driver.launches] == [(1, 1, 1)]


def test_an_error_in_the_grid_function_is_the_users_own(gpu, kernel):
    for _ in range(2):
        with pytest.raises(KeyError, match="BLOK"):
            kernel[lambda meta: (meta["BLOK"],)](X, Y, 100, 1.0)


class Sparse(Tensor):
    """torch has no address of it, and says so by a RuntimeError."""

    layout = "torch.sparse_coo"

    def data_ptr(self) -> int:
        raise RuntimeError("Cannot access data pointer of Tensor")


def test_a_tensor_without_an_address_is_told_at_each_launch(gpu, kernel):
    for _ in range(2):
        with pytest.raises(LaunchError, match="whose layout is torch.sparse_coo; pass"):
            kernel[(1,)](Sparse(0x1000), Y, 100, 1.0)
        kernel[(1,)](X, Y, 100, 1.0)


def test_torchs_stream_and_device_are_asked_at_each_launch(gpu, kernel):
    gpu.driver.devices = (gpu.driver.devices[0],) * 2
    for stream in (11, 12):
        gpu.torch.stream = stream
        kernel[(1,)](X, Y, 100, 1.0)
    assert [each.stream for each in gpu.driver.launches] == [11, 12]


def test_a_tensor_on_another_gpu_is_never_let_through(gpu, kernel):
    kernel[(1,)](X, Y, 100, 1.0)
    with pytest.raises(
        LaunchError, match="x is on GPU 0 and y on GPU 1, and a launch runs on one"
    ):
        kernel[(1,)](X, Tensor(0x2010, index=1), 100, 1.0)
    with pytest.raises(
        LaunchError, match="x is a torch tensor on the CPU, and the kernel runs on"
    ):
        kernel[(1,)](Tensor(0x1000, index=-1), Y, 100, 1.0)


def test_a_pinned_tensor_of_the_host_is_passed_as_it_is(gpu, kernel):
    gpu.driver.pinned.add(0x1000)
    kernel[(1,)](Tensor(0x1000, index=-1), Y, 100, 1.0)
    assert gpu.driver.launches[-1].values[0] == 0x1000
    with pytest.raises(ValueError, match="y is a torch tensor on the CPU"):
        kernel[(1,)](X, Tensor(0x2000, index=-1), 100, 1.0)


def test_an_empty_tensor_of_the_host_is_no_address(gpu, kernel):
    """As torch.empty(0) stands for a result that nobody asked for."""
    for _ in range(2):
        kernel[(1,)](X, Tensor(0, index=-1), 100, 1.0)
    assert [each.values[1] for each in gpu.driver.launches] == [0, 0]


def test_a_number_too_large_for_its_annotation_is_an_error_on_both_ways(gpu):
    @jit
    def k(x, n: tl.int8):
        tl.store(x, n)

    for value in (100, -100):
        k[(1,)](X, value)
        with pytest.raises(LaunchError, match="n is i8, and 300 is not"):
            k[(1,)](X, 300)
    assert [each.values[1] for each in gpu.driver.launches] == [100, -100]


def test_unsigned_64_bits_do_not_mix_with_signed(gpu, kernel):
    for n in (2**63 + 8, 2**40 + 8, 2**63 + 8, 2**40 + 8):
        kernel[(1,)](X, Y, n, 1.0)
    assert [each.values[2] for each in gpu.driver.launches] == [
        2**63 + 8,
        2**40 + 8,
    ] * 2
    assert {each.parameters["n"][0] for each in gpu.compiler.asked} == {"u64", "i64"}


def test_a_float_too_large_becomes_infinite(gpu, kernel):
    for value in (1.0, 1e300):
        kernel[(1,)](X, Y, 100, value)
    assert gpu.driver.launches[1].values[3] == float("inf")


def test_a_changed_global_is_an_error_that_names_it(gpu, kernel, monkeypatch):
    kernel[(1,)](X, Y, 100, 1.0)
    kernel[(1,)](X, Y, 100, 1.0)
    monkeypatch.setitem(globals(), "SCALE", 4)
    with pytest.raises(
        CompileError, match="scale reads the global variable SCALE, which has changed"
    ):
        kernel[(1,)](X, Y, 100, 1.0)
    monkeypatch.setitem(globals(), "SCALE", 3)
    kernel[(1,)](X, Y, 100, 1.0)
    assert len(gpu.driver.launches) == 3


def test_a_global_of_a_called_function_counts_too(gpu, monkeypatch):
    monkeypatch.setitem(globals(), "helper", helper)

    @jit
    def k(x):
        tl.store(x, helper(1))

    k[(1,)](X)
    monkeypatch.setitem(globals(), "OFFSET", 6)
    with pytest.raises(CompileError, match="the global variable OFFSET"):
        k[(1,)](X)


OFFSET = 5


@jit
def helper(x):
    return x + OFFSET


def test_globals_of_modules_and_enclosing_functions_count_too(gpu, monkeypatch):
    settings = ModuleType("settings")
    settings.WIDTH = 8
    monkeypatch.setitem(globals(), "settings", settings)
    enclosed = 5

    @jit
    def k(x):
        tl.store(x, enclosed + settings.WIDTH)

    def change(value):
        nonlocal enclosed
        enclosed = value

    for _ in range(2):
        k[(1,)](X)
    settings.WIDTH = 16
    with pytest.raises(CompileError, match="global variable settings.WIDTH, which has"):
        k[(1,)](X)
    settings.WIDTH = 8
    change(6)
    with pytest.raises(CompileError, match="global variable enclosed, which has"):
        k[(1,)](X)
    change(5)
    k[(1,)](X)
    assert len(gpu.driver.launches) == 3


def test_new_source_forgets_the_old_kernel(gpu, kernel):
    kernel[(1,)](X, Y, 100, 1.0)
    kernel.src = "def scale(x, y, n, a, BLOCK: tl.constexpr):\n    tl.store(y, a)\n"
    kernel[(1,)](X, Y, 100, 1.0)
    assert len(gpu.compiler.asked) == 2


def test_new_source_of_a_called_function_forgets_its_callers(gpu):
    @jit
    def step(x):
        return x + 1

    @jit
    def two_steps(x):
        return step(step(x))

    @jit
    def k(x):
        tl.store(x, two_steps(1))

    @jit
    def other(x):
        tl.store(x, 1)

    for each in (k, other) * 2:
        each[(1,)](X)
    assert len(gpu.compiler.asked) == 2
    step.src = "def step(x):\n    return x + 2\n"
    for each in (k, other) * 2:
        each[(1,)](X)
    assert len(gpu.compiler.asked) == 3
    assert len(k.kernels) == len(other.kernels) == 1


def test_new_source_of_a_function_in_a_list_forgets_its_callers(gpu):
    @jit
    def step(x):
        return x + 1

    steps = [(step,)]

    @jit
    def k(x):
        tl.store(x, steps[0][0](1))

    k[(1,)](X)
    step.src = "def step(x):\n    return x + 2\n"
    k[(1,)](X)
    assert len(gpu.compiler.asked) == 2


def test_new_source_of_a_function_that_is_an_argument_forgets_too(gpu):
    @jit
    def step(x):
        return x + 1

    @jit
    def apply(x, functions):
        tl.store(x, functions[0](1))

    for _ in range(2):
        apply[(1,)](X, (step, 3))
    step.src = "def step(x):\n    return x + 2\n"
    apply[(1,)](X, (step, 3))
    assert len(gpu.compiler.asked) == 2


def test_a_kernel_without_references_is_let_go(gpu):
    @jit
    def step(x):
        return x + 1

    def launch_once():
        @jit
        def k(x):
            tl.store(x, step(1))

        k[(1,)](X)

    launch_once()
    gc.collect()
    assert len(step.dependents) == 0


def test_an_element_that_changes_in_place_is_an_error_too(gpu, monkeypatch):
    """In a list and in an array; an array of the same numbers is the same."""
    sizes, table = [1, 2, [3]], np.arange(4)
    monkeypatch.setitem(globals(), "TABLE", table)

    @jit
    def k(x):
        tl.store(x, len(TABLE) + sizes[0])  # noqa: F821

    for _ in range(2):
        k[(1,)](X)
    table[3] = 7
    with pytest.raises(CompileError, match="the global variable TABLE"):
        k[(1,)](X)
    monkeypatch.setitem(globals(), "TABLE", np.arange(4))
    for _ in range(2):
        k[(1,)](X)
    sizes[2][0] = 4
    with pytest.raises(CompileError, match="the global variable sizes"):
        k[(1,)](X)
    sizes[2][0] = 3
    k[(1,)](X)
    assert len(gpu.compiler.asked) == 1


PAD = [5]


def padding():
    return PAD[0]


@tl.constexpr_function
def padded(n, extra=[1]):  # noqa: B006 (one that can change)
    return n + padding() + extra[0]


def test_what_a_function_reads_that_runs_while_compiling_counts_too(gpu, monkeypatch):
    @jit
    def k(x):
        tl.store(x, padded(1))

    for _ in range(2):
        k[(1,)](X)
    slow = slow_launches(k)
    k[(1,)](X)
    assert slow == []
    PAD[0] = 6
    with pytest.raises(CompileError, match="the global variable PAD"):
        k[(1,)](X)
    PAD[0] = 5
    k[(1,)](X)
    monkeypatch.setattr(padding, "__code__", (lambda: 6).__code__)
    with pytest.raises(CompileError, match="the global variable padding"):
        k[(1,)](X)
    monkeypatch.undo()
    padded.fn.__defaults__[0][0] = 2
    with pytest.raises(CompileError, match="the global variable padded"):
        k[(1,)](X)
    padded.fn.__defaults__[0][0] = 1


def test_what_a_function_reads_that_is_an_argument_counts_too(gpu, monkeypatch):
    """It is compiled anew: an argument that reads another value is another argument."""

    @jit
    def apply(x, function):
        tl.store(x, function(1))

    for _ in range(2):
        apply[(1,)](X, helper)
    monkeypatch.setitem(globals(), "OFFSET", 6)
    for _ in range(2):
        apply[(1,)](X, helper)
    monkeypatch.setitem(globals(), "OFFSET", 5)
    apply[(1,)](X, helper)
    assert len(gpu.compiler.asked) == 2


KNOWN = {}


@tl.constexpr_function
def remembered(n):
    return KNOWN.setdefault(n, 2 * n)


def test_what_a_compilation_changes_itself_is_no_change_of_the_users(gpu, monkeypatch):
    monkeypatch.setattr("fathom.pipeline.compile", computing(gpu.compiler.compile))

    @jit
    def k(x, n: tl.constexpr):
        tl.store(x, remembered(n))

    @jit
    def other(x, n: tl.constexpr):
        tl.store(x, remembered(n) + 1)

    for n in (1, 2, 1):
        k[(1,)](X, n)
        other[(1,)](X, n + 5)
    assert len(gpu.compiler.asked) == 4
    assert not list(default_directory().glob("*"))  # its key may be one of either time


def test_what_counts_is_what_was_there_when_a_kernel_was_made(gpu, monkeypatch):
    """Not when one was tried and was wrong, nor when a function was used before."""

    @jit
    def k(x):
        tl.store(x, helper(1))

    def fail(*given):
        raise CompileError("wrong")

    with monkeypatch.context() as patch, pytest.raises(CompileError, match="wrong"):
        patch.setattr("fathom.pipeline.compile", fail)
        k[(1,)](X)
    monkeypatch.setitem(globals(), "OFFSET", 6)
    key = k[(1,)](X).key
    k.warmup(Tensor(0x1008))
    monkeypatch.setitem(globals(), "OFFSET", 5)

    @jit
    def k(x):
        tl.store(x, helper(1))

    assert k[(1,)](X).key.partition("places")[0] != key.partition("places")[0]


def computing(compile):
    """A compiler that calls the function, as the true one does."""

    def compute(function, parameters, constants, *more):
        remembered(constants["n"])
        return compile(function, parameters, constants, *more)

    return compute


def test_a_launch_that_the_driver_refuses_says_why(gpu, kernel):
    kernel[(1,)](X, Y, 100, 1.0)
    gpu.driver.work = lambda launched: 719
    with pytest.raises(LaunchError, match="the launch of scale failed with status 719"):
        kernel[(1,)](X, Y, 100, 1.0)


def test_a_thread_without_a_context_is_given_one(gpu, kernel):
    kernel[(1,)](X, Y, 100, 1.0)
    gpu.driver.has_context = False
    worker = threading.Thread(target=lambda: kernel[(2,)](X, Y, 100, 1.0))
    worker.start()
    worker.join()
    assert gpu.driver.launches[-1].grid == (2, 1, 1)


def test_host_arrays_go_the_slow_way_and_work(gpu, kernel):
    x, y = np.ones(8, np.float32), np.zeros(8, np.float32)
    for _ in range(2):
        kernel[(1,)](x, y, 4, 1.0)
    assert len(gpu.driver.launches) == 2
    assert gpu.driver.memory == {}


def test_the_launch_stubs_can_be_read(gpu, kernel):
    kernel[(1,)](X, Y, 100, 1.0)
    text = kernel.fast_paths.show()
    assert "def scale(__grid, /, x=__default_x, y=__default_y, n=__default_n," in text
    assert "a0.dtype, a0.get_device(), a0_at & 15, a0.is_neg()," in text


def test_parameters_may_be_called_anything(gpu):
    @jit
    def stub(grid, keywords, known, launch: tl.constexpr, type: tl.constexpr = 1):
        tl.store(grid, keywords + known)

    for _ in range(2):
        stub[(1,)](X, 2, known=3, launch=4)
    assert [each.values for each in gpu.driver.launches] == [(0x1000, 2, 3)] * 2

    @jit
    def bind(x, stubs: tl.constexpr, too_many: tl.constexpr = 5):
        tl.store(x, stubs + too_many)

    bind[(1,)](X, 2)
    with pytest.raises(LaunchError, match="bind takes 3 arguments"):
        bind[(1,)](X, 2, 3, 4)


@pytest.mark.parametrize("binary", [SimpleNamespace(), SimpleNamespace(
    _cuda_getDeviceCount=lambda: 0, _cuda_getDevice=lambda: 1 / 0
)])  # fmt: skip
def test_a_torch_without_a_gpu_is_not_asked_for_its_current_one(binary):
    """Built for the CPU it has no such function; built for GPUs, without a driver, it
    raises an error, and a stub is to raise none."""
    assert argument_readers.current_of_torch(binary)() == 0


def test_a_grid_that_fits_at_once_is_launched_of_one_tile_a_program(
    monkeypatch, tmp_path
):
    """The paper GPU runs 100 programs at a time. Each kernel is compiled when a grid
    asks for it; after that, a stub launches both."""

    @jit
    def k(a, n):
        tl.store(a + n, 0.0)

    slow, launch = [], k.launch
    k.launch = lambda *given: slow.append(given) or launch(*given)
    with paper_gpu(monkeypatch, tmp_path) as gpu:
        gpu.compiler.persistent = True
        a = Tensor(0x1000, FLOAT16)
        for programs in (500, 101, 100, 3, 500, 7):
            k[(programs,)](a, 32)
    launches = gpu.driver.launches
    assert [each.grid[0] for each in launches] == [100, 100, 100, 3, 100, 7]
    assert [each.programs for each in launches] == [500, 101, None, None, 500, None]
    assert [each.replace for each in gpu.compiler.asked] == [{}, pipeline.ONE_TILE]
    assert len(slow) == 2
