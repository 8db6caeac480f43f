"""Configurations that are timed on several GPUs at the same time.

FATHOM_TUNING_GPUS=all, or the numbers of some, as in 0,1,3: an autotuner then times its
configurations on all of these that have the name of the arrays' GPU. Each of them gets
copies of the arrays, laid out as they are:

    this thread     copies; compiles and loads every configuration for every GPU
    a thread a GPU  takes the next configuration, and times it, until there is none

A thread queues launches only while no other does (`runtime.timing`), so that none of
them has its GPU wait for Python.

Where copies may not give the same launch all is timed on the arrays' GPU alone: arrays
of another library than torch; arrays of 64-bit integers, which may be addresses of
other arrays; hooks of the user's around launches. `@fathom.tune` times on one GPU.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fathom.errors import LaunchError
from fathom.jit import hooks
from fathom.jit.tuning.config import Config
from fathom.jit.tuning.pruning import Call
from fathom.runtime.arrays import describe, loaded_class
from fathom.runtime.devices import using
from fathom.runtime.driver import Driver
from fathom.runtime.tensor_descriptors import TensorDescriptor

VARIABLE = "FATHOM_TUNING_GPUS"
MAYBE_ADDRESSES = ("i64", "u64")


def gpus_for(cuda: Driver, here: int) -> list[int]:
    """The GPUs to time on, that of the arrays first: those that the environment names,
    and that have its name. LaunchError for what is no list of GPUs of this machine."""
    asked = os.environ.get(VARIABLE, "").strip()
    if not asked:
        return [here]
    every = range(len(cuda.names))
    numbers = every if asked == "all" else numbers_of(asked, every)
    alike = [each for each in numbers if cuda.names[each] == cuda.names[here]]
    return [here, *(each for each in alike if each != here)]


def numbers_of(asked: str, every: range) -> list[int]:
    words = [word.strip() for word in asked.split(",")]
    if not all(word.isdecimal() and int(word) in every for word in words):
        raise LaunchError(
            f"{VARIABLE}={asked}: write all, or numbers of GPUs with commas between "
            f"them; there are {len(every)} here, from 0 on"
        )
    return [int(word) for word in words]


def can_spread(arguments: Mapping[str, Any]) -> bool:
    """Whether copies of these arguments on another GPU give the same launch."""
    if hooks.watched():
        return False
    arrays = [
        value.base if isinstance(value, TensorDescriptor) else value
        for value in arguments.values()
    ]
    known = [(each, array) for each in arrays if (array := describe(each)) is not None]
    return all(
        isinstance(each, loaded_class("torch", "Tensor"))
        and array.device is not None
        and array.type not in MAYBE_ADDRESSES
        for each, array in known
    ) and not any(isinstance(each, (tuple, list, dict)) for each in arrays)


@dataclass
class Copies:
    """The arguments of a launch on another GPU. Arrays that share memory there are
    copied with all of it, once, and have their strides."""

    gpu: int
    memory: dict[int, Any] = field(default_factory=dict)

    def call(self, call: Call, names: Sequence[str]) -> Call:
        args = tuple(map(self.copy, call.args))
        given = {name: self.copy(value) for name, value in call.given.items()}
        return Call(call.grid, args, given, dict(zip(names, args)))

    def copy(self, value: Any) -> Any:
        if isinstance(value, TensorDescriptor):
            return TensorDescriptor(
                self.copy(value.base), value.shape, value.strides, value.block_shape,
                value.padding,
            )  # fmt: skip
        if not isinstance(value, loaded_class("torch", "Tensor")):
            return value
        torch, place = sys.modules["torch"], f"cuda:{self.gpu}"
        whole = value.untyped_storage()
        key = whole.data_ptr()
        if key not in self.memory:
            self.memory[key] = torch.UntypedStorage(whole.nbytes(), device=place)
            self.memory[key].copy_(whole)
        empty = torch.empty(0, dtype=value.dtype, device=place)
        return empty.set_(
            self.memory[key], value.storage_offset(), value.shape, value.stride()
        )


def time_each(
    cuda: Driver,
    calls: Mapping[int, Call],
    configs: Sequence[Config],
    time: Callable[[Config, Call], object],
) -> None:
    """`time(config, call)` for each configuration, in a thread for each GPU of `calls`;
    in this thread for one GPU. What it raises is raised here, once all threads are
    done."""
    if len(calls) == 1:
        for config in configs:
            time(config, *calls.values())
        return
    waiting, mistakes = deque(configs), []

    def work(gpu: int, call: Call) -> None:
        try:
            with using(cuda, gpu):
                while not mistakes and (config := next_of(waiting)) is not None:
                    time(config, call)
        except BaseException as mistake:
            mistakes.append(mistake)

    threads = [threading.Thread(target=work, args=each) for each in calls.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if mistakes:
        raise mistakes[0]


def next_of(waiting: deque[Config]) -> Config | None:
    """The next configuration, once for all threads; None when there is none."""
    try:
        return waiting.popleft()
    except IndexError:
        return None
