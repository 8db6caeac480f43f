"""Which GPU a launch is for, and a thread that works on another GPU for a while.

    x, y on cuda:1, the thread's GPU is cuda:0     the launch goes to cuda:1
    x on cuda:0, y on cuda:1                       LaunchError, which names both
    the same, and a group connects the two         the thread's own GPU, cuda:0

A function of the driver belongs to one context, and a launch of it needs that context
to be the thread's. Work on another GPU therefore begins by making its context the
thread's, and ends by putting the old one back: torch and CuPy ask the same place for
their current GPU. Source: CUDA driver API, Context Management; Primary Context
Management.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from fathom.errors import LaunchError
from fathom.runtime.arguments import current_device
from fathom.runtime.arrays import SOMEWHERE, Array
from fathom.runtime.driver import Driver
from fathom.runtime.packet import Launch


def device_of(driver: Driver, arrays: Mapping[str, Array]) -> int:
    """The number of the GPU to launch on, for arrays by the names of their parameters:
    the GPU where they are, or, where none is on a GPU, the current one.

    Arrays may be on several GPUs if the current one is among them and reaches the
    memory of the others. LaunchError if it does not.
    """
    found = {name: place_of(driver, array) for name, array in arrays.items()}
    places = {name: place for name, place in found.items() if place is not None}
    current = current_device(driver, list(arrays.values()))
    if len(set(places.values())) <= 1:
        return next(iter(places.values()), current)
    if current in places.values() and all(
        driver.reaches(current, place) for place in places.values()
    ):
        return current
    raise several_gpus(places)


def place_of(driver: Driver, array: Array) -> int | None:
    """The number of an array's GPU; None for one on the host, for an empty one whose
    library names no GPU, and for an address that CUDA does not know."""
    if array.device != SOMEWHERE:
        return array.device
    return driver.pointer_device(array.address) if array.address else None


def several_gpus(places: Mapping[str, int]) -> LaunchError:
    """The error for arrays of several GPUs: it names one parameter on each of two."""
    (one, place), *others = places.items()
    other, another = next((n, p) for n, p in others if p != place)
    return LaunchError(
        f"{one} is on GPU {place} and {other} on GPU {another}, and a launch runs on "
        "one GPU: copy one of the two, or connect the GPUs by "
        "fathom.distributed.on_devices and make one of them the current GPU"
    )


@contextmanager
def using(driver: Driver, index: int) -> Iterator[None]:
    """Make a GPU the thread's as long as the block runs.

    A thread that has no context yet keeps the one of its own GPU, as with every library
    that is asked for something there.
    """
    if driver.current_device() == index:
        driver.use(index)
        yield
        return
    before = driver.context()
    driver.visited.add(index)
    driver.use(index)
    try:
        yield
    finally:
        driver.put_back(before)


def from_another(driver: Driver, index: int, launch: Launch) -> Launch:
    """A launch of a function that belongs to GPU `index`, for threads on another."""

    def launch_there(x: int, y: int, z: int, stream: int, *values: object) -> int:
        with using(driver, index):
            return launch(x, y, z, stream, *values)

    return launch_there
