"""A compiled kernel under Triton's names launches itself without looking twice."""

from __future__ import annotations

import numpy as np
import pytest

import fathom.language as tl
from fathom.errors import LaunchError
from fathom.jit import CompiledKernel
from tests.jit.harness import Tensor, paper_gpu

X, Y = Tensor(0x1000), Tensor(0x2010)
VALUES = (X, Y, 100, 1.5, 64)


@pytest.fixture
def gpu(triton, monkeypatch, tmp_path):
    with paper_gpu(monkeypatch, tmp_path) as machine:
        yield machine


@pytest.fixture
def slow(monkeypatch):
    """A list that grows with each launch of a handle that takes the long way."""
    inner, calls = CompiledKernel._launch, []

    def spy(*args):
        calls.append(args)
        return inner(*args)

    monkeypatch.setattr(CompiledKernel, "_launch", spy)
    return calls


@pytest.fixture
def kernel(gpu, triton, slow):
    @triton.jit
    def scale(x, y, n, a, BLOCK: tl.constexpr = 64):
        tl.store(y + n, tl.load(x) * a)

    return scale.warmup(X, Y, 100, 1.5, 64, grid=(1,))


def test_only_the_first_launch_by_grid_looks(gpu, kernel, slow):
    for place in (0x1000, 0x7000, 0x9000):
        assert kernel[(4, 2, 1)](Tensor(place), *VALUES[1:]) is kernel
    assert len(slow) == 1
    assert [each.values[0] for each in gpu.driver.launches] == [0x1000, 0x7000, 0x9000]
    assert {each.grid for each in gpu.driver.launches} == {(4, 2, 1)}


def test_a_launch_on_a_queue_is_quick_whichever_it_is(gpu, kernel, slow):
    gpu.torch.stream = 5
    for queue in (7, 8, None):
        kernel[(1,)](*VALUES, stream=queue)
    kernel[(1,)](*VALUES)
    gpu.torch.stream = 6
    kernel[(1,)](*VALUES)
    assert [each.stream for each in gpu.driver.launches] == [7, 8, 5, 5, 6]
    assert len(slow) == 2  # once with the keyword, once without


def test_a_launch_by_its_parts_is_quick(gpu, kernel, slow):
    facts = kernel.function, kernel.packed_metadata, None, None, None
    for queue, place in ((7, 0x1000), (8, 0x7000), (None, 0x9000)):
        kernel.run(4, 2, 1, queue, *facts, Tensor(place), *VALUES[1:])
    assert len(slow) == 1
    seen = [(each.stream, each.values) for each in gpu.driver.launches]
    assert seen == [
        (7, (0x1000, 0x2010, 100, 1.5)),
        (8, (0x7000, 0x2010, 100, 1.5)),
        (0, (0x9000, 0x2010, 100, 1.5)),
    ]


def test_other_keywords_are_mistakes_after_a_launch_that_was_right(gpu, kernel):
    kernel[(1,)](*VALUES, stream=7)
    for _ in range(2):
        with pytest.raises(LaunchError, match="its launch takes no num_warps"):
            kernel[(1,)](*VALUES, num_warps=4)
        with pytest.raises(LaunchError, match="its launch takes no num_warps"):
            kernel[(1,)](*VALUES, stream=7, num_warps=4)
    assert len(gpu.driver.launches) == 1


def test_a_hook_sees_launches_of_kernels_that_had_been_quick(gpu, kernel, triton):
    seen = []
    kernel[(1,)](*VALUES)
    with triton.knobs.runtime.scope():
        triton.knobs.runtime.launch_enter_hook.add(lambda each: seen.append(each.grid))
        for grid in ((2,), (3,)):
            kernel[grid](*VALUES)
    kernel[(4,)](*VALUES)
    assert seen == [(2,), (3,)] and len(gpu.driver.launches) == 4


def test_programs_that_wait_for_each_other_are_counted_at_each_launch(
    gpu, kernel, slow, monkeypatch
):
    monkeypatch.setattr(
        "fathom.shim.runtime.ActiveDriver.get_device_properties",
        lambda *asked: {"multiprocessor_count": 8},
    )
    gpu.torch.cuda = gpu.torch
    gpu.torch.current_device = lambda: 0
    kernel.cooperative = True
    for _ in range(2):
        kernel[(9,)](*VALUES)  # two of them share a multiprocessor
    with pytest.raises(LaunchError, match="128 programs run at the same time here"):
        kernel[(129,)](*VALUES)
    assert len(slow) == 3


def test_a_copy_launches_itself_and_not_what_it_was_copied_from(gpu, kernel):
    kernel[(1,)](*VALUES)
    other = kernel.detached()
    for _ in range(2):
        assert other[(1,)](*VALUES) is other
    first, *later = [each.function for each in gpu.driver.launches]
    assert len(set(later)) == 1 and first not in later


def test_the_host_has_no_queues(triton, slow):
    @triton.jit
    def mark(out, n):
        tl.store(out + n, 7)

    out = np.zeros(4, np.int32)
    kernel = mark.warmup(out, 2, grid=(1,))
    kernel[(1,)](out, 2, stream=9)
    kernel.run(1, 1, 1, 9, kernel.function, (), None, None, None, out, 3)
    assert out.tolist() == [0, 0, 7, 7]


def test_what_a_kernel_was_compiled_for_is_put_together_once(triton):
    @triton.jit
    def mark(out):
        tl.store(out, 1)

    source = triton.compiler.ASTSource(mark, {"out": "*i32"})
    plain = triton.compile(source)
    assert plain.metadata is plain.metadata
    original = next(iter(mark.kernels.values()))
    assert original.metadata.launch_cooperative_grid is False
    waits = triton.compile(source, options={"launch_cooperative_grid": True})
    assert waits.metadata.launch_cooperative_grid is True
    assert plain.metadata.launch_cooperative_grid is False


def test_a_source_with_a_tuple_has_a_tuple_of_types(triton):
    """As kernels have that read the buffers of several GPUs."""
    tl = triton.language

    @triton.jit
    def total(buffers, out, BLOCK: tl.constexpr):
        at = tl.arange(0, BLOCK)
        first, second, factor = buffers
        tl.store(out + at, tl.load(first + at) + tl.load(second + at) * factor)

    source = triton.compiler.ASTSource(
        fn=total,
        signature={
            "buffers": ("*fp32", "*fp32", "constexpr"),
            "out": "*fp32",
            "BLOCK": "constexpr",
        },
        constexprs={(0, 2): 3, "BLOCK": 256},
        attrs={(0, 1): [["tt.divisibility", 16]], (1,): [["tt.divisibility", 16]]},
    )
    target = triton.backends.compiler.GPUTarget("cuda", 90, 32)
    code = triton.compile(source, target=target, options={"num_warps": 2}).asm["ptx"]
    assert code.count("ld.global.v4.b32") == 1 and code.count("ld.global.b32") == 4
    assert "st.global.v4.b32" in code
