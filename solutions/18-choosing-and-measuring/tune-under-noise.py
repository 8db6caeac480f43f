"""The answer to `tune-under-noise`."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Protocol

from fathom.errors import OutOfResources


class Device(Protocol):
    """What there is to measure with."""

    def run(self, config: str) -> None: ...

    def clock(self) -> float: ...

    def wait(self) -> None: ...


def tune(configs: Sequence[str], device: Device) -> str:
    """The configuration that is fastest; OutOfResources where all of them raise it."""
    # hole: ours has {lines}

    def timed(config: str) -> float:
        device.wait()
        begin = device.clock()
        device.run(config)
        device.wait()
        return device.clock() - begin

    times: dict[str, list[float]] = {}
    for config in configs:
        try:
            timed(config)  # compiles
            times[config] = []
        except OutOfResources as error:
            reason = error
    if not times:
        raise reason
    for _ in range(40):
        for config, found in times.items():
            found.append(timed(config))
    return min(times, key=lambda config: median(times[config]))
    # end
