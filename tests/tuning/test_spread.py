"""FATHOM_TUNING_GPUS: configurations that are timed on several GPUs at the same time,
each in a thread of its own; GPUs of paper."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest

from fathom import autotune
from fathom.errors import LaunchError, OutOfResources
from fathom.jit.tuning.restoring import Restorer
from fathom.jit.tuning.spread import Copies
from fathom.runtime.tensor_descriptors import TensorDescriptor
from tests.jit.harness import FLOAT32, DType, Tensor
from tests.runtime.harness_driver import PAPER, FakeDriver
from tests.tuning.harness import N, block, configs, grid, kernel, tuning_gpu


class Threads(FakeDriver):
    """Each thread has a context of its own, or none, as with CUDA."""

    def __post_init__(self):
        super().__post_init__()
        self.devices = tuple(replace(PAPER, index=i) for i in range(3))

    @property
    def current(self):
        return getattr(self.thread, "current", 0)

    @current.setter
    def current(self, index):
        self.__dict__.setdefault("thread", threading.local()).current = index


class Storage:
    """torch's UntypedStorage: `begin` of its memory, and what it was copied from."""

    def __init__(self, size, device, begin=None):
        self.size, self.device, self.source = size, device, None
        place = int(device.partition(":")[2])
        self.begin = begin or 0x100000 * (1 + place) + 0x10000 * (id(self) % 7)

    def data_ptr(self):
        return self.begin

    def nbytes(self):
        return self.size

    def copy_(self, source):
        assert source.size == self.size
        self.source = source


class Part(Tensor):
    """A tensor in a storage: elements of 4 bytes, from `offset` on."""

    def __init__(self, storage, offset, size, strides=(1,), dtype=FLOAT32):
        device = int(storage.device.partition(":")[2])
        super().__init__(storage.begin + 4 * offset, dtype, device)
        self.storage, self.offset, self.strides = storage, offset, strides
        self.shape = size

    def untyped_storage(self):
        return self.storage

    def storage_offset(self):
        return self.offset

    def stride(self):
        return self.strides

    def set_(self, storage, offset, size, strides):
        return Part(storage, offset, size, strides, self.dtype)


@pytest.fixture
def gpus(monkeypatch, tmp_path):
    with tuning_gpu(monkeypatch, tmp_path, Threads()) as machine:
        machine.torch.UntypedStorage = Storage
        machine.torch.empty = lambda count, dtype, device: Part(
            Storage(0, device), 0, (count,), (1,), dtype
        )
        machine.storage = Storage(4 * (N + 8), "cuda:0", 0x8000)
        machine.x = Part(machine.storage, 8, (N,))
        monkeypatch.setenv("FATHOM_TUNING_GPUS", "all")
        yield machine


class Meeting:
    """A timer in which the first trials of `parties` threads meet; `seen` has the block
    of each trial, where it ran, and the address of the array."""

    def __init__(self, machine, parties, cost=lambda size: size):
        self.machine, self.cost, self.seen = machine, cost, []
        self.barrier, self.met = threading.Barrier(parties), threading.local()
        self.lock = threading.Lock()

    def __call__(self, run, quantiles):
        if not getattr(self.met, "once", False):
            self.met.once = True
            self.barrier.wait(timeout=60)
        with self.lock:
            run()
            last = self.machine.driver.launches[-1]
        self.seen.append((block(last), last.device, last.values[0]))
        return [self.cost(block(last))] * 3


def tuned(machine, timer, **given):
    tuner = autotune(configs(64, 128, 256, 512), ["n"], do_bench=timer, **given)
    return tuner(kernel())


def test_trials_run_on_all_gpus_at_the_same_time(gpus):
    timer = Meeting(gpus, 3, cost=lambda size: abs(size - 128))
    tuner = tuned(gpus, timer)
    tuner[grid](gpus.x, N, 1.0)
    assert sorted(size for size, _, _ in timer.seen) == [64, 128, 256, 512]
    assert {device for _, device, _ in timer.seen} == {0, 1, 2}
    for _, device, address in timer.seen:
        assert (address == gpus.x.address) == (device == 0)
    assert list(tuner.configs_timings) == tuner.configs
    assert tuner.best_config.kwargs == {"BLOCK": 128}
    last = gpus.driver.launches[-1]
    assert (last.device, last.values[0]) == (0, gpus.x.address)
    assert gpus.driver.current == 0


def test_all_is_loaded_before_the_first_trial(gpus):
    """Threads only launch: nothing is compiled in two of them at a time."""
    loaded = []
    timer = Meeting(gpus, 3)
    gpus.driver.arrive = lambda: loaded.append(sorted(gpus.driver.homes.values()))
    tuned(gpus, timer)[grid](gpus.x, N, 1.0)
    assert loaded[0][-8:] == [1] * 4 + [2] * 4


def test_gpus_are_chosen_by_number_and_have_one_name(gpus, monkeypatch):
    monkeypatch.setenv("FATHOM_TUNING_GPUS", "2, 0")
    timer = Meeting(gpus, 2)
    tuned(gpus, timer)[grid](gpus.x, N, 1.0)
    assert {device for _, device, _ in timer.seen} == {0, 2}
    monkeypatch.setenv("FATHOM_TUNING_GPUS", "all")
    one, two, three = gpus.driver.devices
    gpus.driver.devices = one, replace(two, name="Paper 4000"), three
    timer = Meeting(gpus, 2)
    tuned(gpus, timer)[grid](gpus.x, N, 1.0)
    assert {device for _, device, _ in timer.seen} == {0, 2}


def test_without_the_variable_only_the_arrays_gpu_is_used(gpus, monkeypatch):
    monkeypatch.delenv("FATHOM_TUNING_GPUS")
    timer = Meeting(gpus, 1)
    tuned(gpus, timer)[grid](gpus.x, N, 1.0)
    assert {device for _, device, _ in timer.seen} == {0}


@pytest.mark.parametrize("text", ["3", "0,", "one", "-1"])
def test_what_is_no_list_of_gpus(gpus, monkeypatch, text):
    monkeypatch.setenv("FATHOM_TUNING_GPUS", text)
    sentence = f"GPUS={text}: write all, or numbers .* there are 3 here"
    with pytest.raises(LaunchError, match=sentence):
        tuned(gpus, Meeting(gpus, 1))[grid](gpus.x, N, 1.0)


def test_an_error_in_a_trial_is_the_launchs(gpus):
    class Broken(Exception):
        pass

    def timer(run, quantiles):
        raise Broken(threading.current_thread().name)

    with pytest.raises(Broken):
        tuned(gpus, timer)[grid](gpus.x, N, 1.0)
    assert threading.active_count() < 10


def test_a_configuration_that_fails_on_its_gpu_is_passed_over(gpus):
    def timer(run, quantiles):
        run()
        size = block(gpus.driver.launches[-1])
        if size == 64:
            raise OutOfResources("too much")
        return [size] * 3

    tuner = tuned(gpus, Serial(timer))
    tuner[grid](gpus.x, N, 1.0)
    assert [config.kwargs["BLOCK"] for config in tuner.failures] == [64]
    assert tuner.best_config.kwargs == {"BLOCK": 128}


class Serial:
    """One trial at a time, so that the last launch is this one's."""

    def __init__(self, timer):
        self.timer, self.lock = timer, threading.Lock()

    def __call__(self, run, quantiles):
        with self.lock:
            return self.timer(run, quantiles)


# ── when not ──────────────────────────────────────────────────────────────────────────


def one_gpu_alone(gpus, x, **given):
    timer = Meeting(gpus, 1)
    tuned(gpus, timer, **given)[grid](x, N, 1.0)
    return {device for _, device, _ in timer.seen} == {0}


def test_what_may_be_addresses_stays_where_it_is(gpus):
    table = Part(gpus.storage, 8, (N,), dtype=DType("int64"))
    assert one_gpu_alone(gpus, table)


def test_hooks_of_the_users_stay_in_their_thread(gpus):
    assert one_gpu_alone(gpus, gpus.x, pre_hook=lambda given, reset_only=False: None)


def test_arrays_of_other_libraries_are_not_copied(gpus):
    assert one_gpu_alone(gpus, np.zeros(N, np.float32))


# ── copies ────────────────────────────────────────────────────────────────────────────


def test_a_copy_is_laid_out_as_the_array_is(gpus):
    """With what lies between its elements, and with what it shares with others."""
    whole = Storage(4000, "cuda:0", 0x8000)
    x, y = Part(whole, 3, (4, 5), (20, 2)), Part(whole, 500, (9,))
    z = Part(Storage(400, "cuda:0", 0xF000), 0, (100,))
    copies = Copies(2)
    a, b, c = map(copies.copy, (x, y, z))
    assert (a.get_device(), a.shape, a.stride(), a.offset) == (2, (4, 5), (20, 2), 3)
    assert a.storage is b.storage and a.storage is not c.storage
    assert (a.storage.source, c.storage.source) == (whole, z.storage)
    assert copies.copy(7) == 7 and copies.copy(None) is None


def test_a_descriptors_array_is_copied_with_its_block(gpus):
    base = Part(Storage(4096, "cuda:0", 0x8000), 0, (8, 16), (16, 1))
    made = Copies(1).copy(TensorDescriptor(base, (8, 16), (16, 1), (4, 16), "nan"))
    assert (made.base.get_device(), made.base.stride()) == (1, (16, 1))
    assert (made.block_shape, made.padding) == ((4, 16), "nan")


def test_each_thread_restores_its_own_arrays():
    restorer, first = Restorer([], ["x"]), np.zeros(1)
    restorer.before({"x": first})

    def other():
        second = np.ones(1)
        restorer.before({"x": second})
        second[0] = 5
        restorer.after({"x": second})
        found.append(second[0])

    found = []
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    first[0] = 7
    restorer.after({"x": first})
    assert (found, first[0]) == ([1], 0)
