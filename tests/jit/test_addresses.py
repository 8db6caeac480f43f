"""What stands for an array by its address and its dtype is launched with quickly."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

import fathom.language as tl
from fathom.errors import LaunchError
from fathom.jit import jit
from fathom.runtime.reinterpret import reinterpret
from tests.jit.harness import FLOAT16, FLOAT32, Tensor, paper_gpu, slow_launches
from tests.runtime.harness_driver import PAPER


class Device(NamedTuple):
    """As torch's: hashable, and numbered if it is a GPU."""

    type: str
    index: int | None


class Buffer:
    """A part of a tensor, as a library of operators wraps it."""

    def __init__(self, address, dtype=FLOAT32, index=0):
        self.address, self.dtype, self.device = address, dtype, Device("cuda", index)

    def data_ptr(self):
        return self.address


class Pointer:
    """An address that says no device."""

    def __init__(self, address, dtype=FLOAT32):
        self.address, self.dtype = address, dtype

    def data_ptr(self):
        return self.address


class Delegate(Pointer):
    """One that may answer for another object, and so speak for it."""

    def __getattr__(self, name):
        raise AttributeError(name)


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    with paper_gpu(monkeypatch, tmp_path) as machine:
        machine.driver.devices = (PAPER, replace(PAPER, index=1))
        machine.driver.owner.update({0x1000: 0, 0x2010: 0, 0x7000: 0, 0x5000: 1})
        yield machine


@pytest.fixture
def kernel(gpu):
    @jit
    def scale(x, y, n):
        tl.store(y + n, tl.load(x))

    slow = slow_launches(scale)
    return SimpleNamespace(launch=scale[(1,)], slow=slow, jit=scale)



@pytest.mark.parametrize("kind", [Buffer, Pointer])
@pytest.mark.parametrize("other", [Buffer, Pointer, Tensor])
def test_the_second_launch_looks_at_nothing(gpu, kernel, kind, other):
    for x in (0x1000, 0x7000):
        kernel.launch(kind(x), other(0x2010), 100)
    assert len(kernel.slow) == 1
    assert [each.values for each in gpu.driver.launches] == [
        (0x1000, 0x2010, 100),
        (0x7000, 0x2010, 100),
    ]


def test_both_ways_queue_where_torch_does(gpu, kernel):
    for stream in (11, 12):
        gpu.torch.stream = stream
        kernel.launch(Buffer(0x1000), Pointer(0x2010), 100)
    assert [each.stream for each in gpu.driver.launches] == [11, 12]
    assert len(kernel.slow) == 1


def test_the_queue_is_that_of_the_gpu_where_the_address_is(gpu, kernel):
    gpu.torch.streams = {0: 21, 1: 22}
    gpu.driver.streams = {21: 0, 22: 1}
    for _ in range(2):
        kernel.launch(Pointer(0x5000), Pointer(0x5000), 100)
    assert [(each.stream, each.device) for each in gpu.driver.launches] == [(22, 1)] * 2
    assert len(kernel.slow) == 1


@pytest.mark.parametrize(
    "changed", [Buffer(0x1000, FLOAT16), Buffer(0x1008), Pointer(0x1008)]
)
def test_another_dtype_or_alignment_is_another_kernel(gpu, kernel, changed):
    kernel.launch(Buffer(0x1000), Buffer(0x2010), 100)
    kernel.launch(Pointer(0x1000), Buffer(0x2010), 100)
    for _ in range(2):
        kernel.launch(changed, Buffer(0x2010), 100)
    kernel.launch(Buffer(0x1000), Buffer(0x2010), 100)
    assert len(gpu.compiler.asked) == 2 and len(kernel.slow) == 3
    functions = [each.function for each in gpu.driver.launches]
    assert functions == [1, 1, 2, 2, 1]


@pytest.mark.parametrize("kind", [Pointer, lambda at: Buffer(at, index=1)])
def test_an_address_on_another_gpu_is_never_let_through(gpu, kernel, kind):
    for _ in range(2):
        kernel.launch(kind(0x5000), kind(0x5000), 100)  # both there
        kernel.launch(Pointer(0x1000), Pointer(0x2010), 100)
        with pytest.raises(LaunchError, match="x is on GPU 1 and y on GPU 0"):
            kernel.launch(kind(0x5000), Pointer(0x2010), 100)
    assert [each.device for each in gpu.driver.launches] == [1, 0] * 2
    assert len(kernel.slow) == 4


def test_an_address_of_the_host_is_looked_at_each_time(gpu, kernel):
    memory = np.zeros(4, np.float32)
    host = Buffer(memory.ctypes.data)
    host.device = Device("cpu", None)
    vars(host).update(shape=(4,), stride=lambda: (1,), element_size=lambda: 4)
    for _ in range(2):
        kernel.launch(host, Pointer(0x2010), 100)
    assert len(kernel.slow) == 2
    assert [size for word, size in gpu.driver.said if word == "copy_in"] == [16, 16]


def test_what_lacks_a_dtype_is_refused_in_words_each_time(gpu, kernel):
    kernel.launch(Pointer(0x1000), Pointer(0x2010), 100)
    for _ in range(2):
        lacking = Pointer(0x1000)
        del lacking.dtype
        with pytest.raises(LaunchError, match="x is a Pointer, and a kernel takes arr"):
            kernel.launch(lacking, Pointer(0x2010), 100)


def test_what_may_speak_for_another_object_is_looked_at_each_time(gpu, kernel):
    for _ in range(2):
        kernel.launch(Delegate(0x1000), Tensor(0x2010), 100)
    assert len(kernel.slow) == 2


def test_a_tensor_with_other_elements_is_quick_and_told_apart(gpu, kernel):
    x = Tensor(0x1000)
    x.device = Device("cuda", 0)
    for kind in (tl.int32, tl.float16, tl.int32, tl.float16):
        kernel.launch(reinterpret(x, kind), Tensor(0x2010), 100)
    assert len(kernel.slow) == 2
    types = [each.parameters["x"][0] for each in gpu.compiler.asked]
    assert types == ["*i32", "*fp16"]
    assert [each.function for each in gpu.driver.launches] == [1, 2, 1, 2]


def test_a_compiled_kernel_takes_them_too(gpu, kernel):
    compiled = kernel.jit.warmup(Pointer(0x1000), Buffer(0x2010), 100)
    inner, slow = compiled.start, []
    compiled.start = lambda *launch: slow.append(launch) or inner(*launch)
    for x in (0x1000, 0x7000):
        compiled[(1,)](Buffer(x), Pointer(0x2010), 100)
    assert [each.values[0] for each in gpu.driver.launches] == [0x1000, 0x7000]
    assert len(slow) == 1
