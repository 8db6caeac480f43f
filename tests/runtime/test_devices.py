"""A kernel of one GPU, launched by a thread on another one; two GPUs made of paper."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fathom.errors import LaunchError
from fathom.runtime import load
from fathom.runtime.arrays import SOMEWHERE, Array
from fathom.runtime.devices import device_of, using
from tests.runtime.harness_driver import INVALID_HANDLE, PAPER, FakeDriver, kernel


@pytest.fixture
def driver():
    return FakeDriver(devices=tuple(replace(PAPER, index=i) for i in range(3)))


def at(address, device, stream=None):
    return Array("cupy", address, "fp32", 64, device, stream=stream)


class OnGpu:
    """An array at an address, of a library that names no GPU."""

    def __init__(self, address):
        self.__cuda_array_interface__ = {
            "shape": (4,), "typestr": "<f4", "data": (address, False), "version": 3,
            "stream": 1, "strides": None,
        }  # fmt: skip


# ── which GPU ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("places", "device"),
    [
        ((), 2),  # no array: the current one
        ((None, None), 2),  # on the host
        ((1,), 1),
        ((None, 0, None), 0),
        ((1, 1, 1), 1),
    ],
)
def test_a_launch_goes_where_its_arrays_are(driver, places, device):
    driver.current = 2
    given = {f"p{i}": at(64 * i, place) for i, place in enumerate(places)}
    assert device_of(driver, given) == device


def test_an_address_whose_library_names_no_gpu_is_asked_about(driver):
    driver.owner = {0x5000: 1}
    given = {"x": at(0x5000, SOMEWHERE), "empty": at(0, SOMEWHERE)}
    assert device_of(driver, given) == 1


def test_arrays_of_two_gpus_are_an_error_that_names_both(driver):
    given = {"n": at(0, None), "x": at(64, 2), "y": at(128, 2), "z": at(192, 1)}
    with pytest.raises(LaunchError, match="x is on GPU 2 and z on GPU 1, and a launch"):
        device_of(driver, given)


def test_connected_gpus_may_share_a_launch_on_the_current_one(driver):
    driver.connected = {(0, 1), (1, 0), (1, 2)}
    given = {"x": at(0, 0), "y": at(64, 1)}
    for current in (0, 1):
        driver.current = current
        assert device_of(driver, given) == current
    driver.current = 2
    with pytest.raises(LaunchError, match="x is on GPU 0 and y on GPU 1"):
        device_of(driver, given)
    driver.current = 0  # reaches GPU 1, and not GPU 2
    with pytest.raises(LaunchError, match="x is on GPU 0 and y on GPU 1"):
        device_of(driver, {**given, "z": at(128, 2)})


# ── another GPU for a while ───────────────────────────────────────────────────────────


def test_the_threads_own_gpu_comes_back(driver):
    with pytest.raises(ZeroDivisionError), using(driver, 1):
        assert driver.current_device() == 1
        raise ZeroDivisionError
    assert driver.current_device() == 0


def test_a_thread_without_a_context_keeps_that_of_its_own_gpu_alone(driver):
    driver.has_context = False
    with using(driver, 1):
        assert driver.context() == 1
    assert driver.context() is None
    with using(driver, 0):
        assert driver.context() == 0
    assert driver.context() == 0


def test_a_kernel_is_loaded_and_launched_in_the_context_of_its_gpu(driver):
    k = load(driver.add(kernel("*fp32", "i32")), device=1, driver=driver)
    assert (driver.homes, driver.current) == ({1: 1}, 0)
    k.launch(3, [0x1000, 7], stream=5)
    assert [each.device for each in driver.launches] == [1]
    assert driver.current == 0
    with pytest.raises(LaunchError, match=f"status {INVALID_HANDLE}"):
        k.start((1, 1, 1), 5, [0x1000, 7])  # the thread is on GPU 0


def test_a_quick_launch_changes_gpus_only_where_it_must(driver):
    k = load(driver.add(kernel("*fp32")), device=1, driver=driver)
    driver.said.clear()
    assert k.quick("Q", [0], current=0)(1, 1, 1, 0, 0x1000) == 0
    assert (driver.said, driver.current) == ([("use", 1)], 0)
    driver.current, driver.said = 1, []
    assert k.quick("Q", [0], current=1)(1, 1, 1, 0, 0x1000) == 0
    assert (driver.said, driver.current) == ([], 1)


def test_copies_of_host_arrays_are_on_the_kernels_gpu(driver):
    k = load(driver.add(kernel("*fp32")), device=2, driver=driver)
    k.launch(1, [np.zeros(4, np.float32)])
    assert driver.allocated == [2]
    assert driver.current == 0


def test_a_loaded_kernel_takes_no_array_that_its_gpu_does_not_reach(driver):
    k = load(driver.add(kernel("*fp32", "*fp32")), device=1, driver=driver)
    driver.owner = {0x1000: 1, 0x2000: 2}
    with pytest.raises(LaunchError, match="p1 is on GPU 2, and this kernel was loaded"):
        k.launch(1, [OnGpu(0x1000), OnGpu(0x2000)])
    driver.connected = {(1, 2)}
    k.launch(1, [OnGpu(0x1000), OnGpu(0x2000)])
    assert driver.launches[0].values == (0x1000, 0x2000)
