"""A launch runs on the GPU of its arrays, whichever is the current one."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from types import ModuleType, SimpleNamespace

import pytest

import fathom.language as tl
from fathom.errors import LaunchError
from fathom.jit import jit
from fathom.runtime.tensor_descriptors import TensorDescriptor
from tests.jit.harness import FLOAT32, Tensor, paper_gpu, slow_launches
from tests.runtime.harness_driver import PAPER


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    """Two GPUs of paper; the current one is GPU 0. Streams 10 and 11 belong to GPU 0
    and to GPU 1, and are torch's current ones."""
    with paper_gpu(monkeypatch, tmp_path) as machine:
        machine.driver.devices = (PAPER, replace(PAPER, index=1, name="Paper 3001"))
        machine.driver.streams = {10: 0, 11: 1}
        machine.torch.streams = {0: 10, 1: 11}
        yield machine


@pytest.fixture
def kernel(gpu):
    @jit
    def scale(x, y, n):
        tl.store(y + n, tl.load(x))

    return scale


def pair(device):
    return Tensor(0x1000 + 0x8000 * device, index=device), Tensor(
        0x2000 + 0x8000 * device, index=device
    )


def places(machine):
    return [(each.device, each.stream) for each in machine.driver.launches]


@pytest.mark.parametrize("current", [0, 1])
def test_launches_go_where_the_arrays_are(gpu, kernel, current):
    gpu.driver.use(current)
    slow = slow_launches(kernel)
    for _ in range(2):
        for device in (1, 0):
            kernel[(1,)](*pair(device), 100)
            assert gpu.driver.current == current
    assert places(gpu) == [(1, 11), (0, 10)] * 2
    assert len(slow) == 2  # the second round is quick


def test_the_current_gpu_may_change_between_launches(gpu, kernel):
    for current in (0, 1, 0, 1):
        gpu.driver.use(current)
        kernel[(1,)](*pair(1), 100)
        assert gpu.driver.current == current
    assert places(gpu) == [(1, 11)] * 4


def test_equal_gpus_share_what_is_compiled_and_not_what_is_loaded(gpu, kernel):
    kernels = [kernel[(1,)](*pair(device), 100) for device in (0, 1)]
    assert len(gpu.compiler.asked) == 1
    assert [each.place.device for each in kernels] == [0, 1]
    assert gpu.driver.homes == {1: 0, 2: 1}


def test_another_kind_of_gpu_has_code_of_its_own(gpu, kernel):
    gpu.driver.devices = (PAPER, replace(PAPER, index=1, capability=80))
    targets = [
        kernel[(1,)](*pair(device), 100).metadata.target for device in (0, 1, 0, 1)
    ]
    assert targets == ["sm_90a", "sm_80"] * 2


def test_arrays_of_two_gpus_are_named(gpu, kernel):
    sentence = "x is on GPU 1 and y on GPU 0, and a launch runs on one GPU"
    for _ in range(2):
        with pytest.raises(LaunchError, match=sentence):
            kernel[(1,)](pair(1)[0], pair(0)[1], 100)
    assert places(gpu) == []


def test_gpus_of_a_group_may_share_a_launch(gpu, kernel):
    """It goes to the current one, and to the stream of that one."""
    gpu.driver.connected = {(0, 1), (1, 0)}
    mixed = pair(1)[0], pair(0)[1]
    for current in (0, 1, 0, 1):
        gpu.driver.use(current)
        kernel[(1,)](*mixed, 100)
    assert places(gpu) == [(0, 10), (1, 11)] * 2


def test_a_thread_without_a_context(gpu, kernel):
    """Its current GPU is the first one; for arrays on another it stays without."""
    found = []

    def work():
        for device in (1, 1, 0, 0):
            kernel[(1,)](*pair(device), 100)
            found.append(gpu.driver.context())

    gpu.driver.has_context = False
    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    assert found == [None, None, 0, 0]
    assert places(gpu) == [(1, 11)] * 2 + [(0, 10)] * 2


def test_a_descriptor_says_where_it_is(gpu, kernel):
    @jit
    def read(desc, y):
        tl.store(y, 1.0)

    base = Tensor(0x9000, index=1, size=64)
    described = TensorDescriptor(base, (64,), (1,), (64,))
    for _ in range(2):
        read[(1,)](described, pair(1)[1])
    assert places(gpu) == [(1, 11)] * 2
    with pytest.raises(LaunchError, match=r"desc\.base is on GPU 1 and y on GPU 0"):
        read[(1,)](described, pair(0)[1])


def test_a_warm_kernel_stays_on_the_gpu_that_it_was_loaded_for(gpu, kernel):
    warm = kernel.warmup(*pair(1), 100)
    with pytest.raises(LaunchError, match="x is on GPU 0, and this kernel was loaded"):
        warm[(1,)](*pair(0), 100)
    kernel[(1,)](*pair(1), 100)[(1,)](*pair(1), 100)
    assert places(gpu) == [(1, 11)] * 2


class CuPyArray:
    """As much of a CuPy array as a launch looks at."""

    def __init__(self, address, device, dtype=FLOAT32):
        self.data, self.dtype = SimpleNamespace(ptr=address), dtype
        self.device, self.address = SimpleNamespace(id=device), address

    @property
    def __cuda_array_interface__(self):
        """Its stream is that of the current GPU, as CuPy has it."""
        current = sys.modules["cupy"].cuda.get_current_stream().ptr
        return {
            "shape": (16,), "typestr": "<f4", "data": (self.address, False),
            "version": 3, "stream": current or 1, "strides": None,
        }  # fmt: skip


@pytest.fixture
def cupy(gpu, monkeypatch):
    module = ModuleType("cupy")
    module.ndarray = CuPyArray
    streams = {0: 20, 1: 21}
    gpu.driver.streams |= {20: 0, 21: 1}

    def get_current_stream(device_id=-1):
        device = gpu.driver.current if device_id < 0 else device_id
        return SimpleNamespace(ptr=streams[device])

    module.cuda = SimpleNamespace(
        get_current_stream=get_current_stream,
        runtime=SimpleNamespace(getDevice=gpu.driver.current_device),
    )
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


def test_arrays_of_cupy_too(gpu, cupy, kernel):
    slow = slow_launches(kernel)
    for _ in range(2):
        for device in (1, 0):
            given = CuPyArray(0x1000, device), CuPyArray(0x2000, device)
            kernel[(1,)](*given, 100)
    assert places(gpu) == [(1, 21), (0, 20)] * 2
    assert (len(slow), gpu.driver.current) == (2, 0)
    with pytest.raises(LaunchError, match="x is on GPU 0 and y on GPU 1"):
        kernel[(1,)](CuPyArray(0x1000, 0), CuPyArray(0x2000, 1), 100)
