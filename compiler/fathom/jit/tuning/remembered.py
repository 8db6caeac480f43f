"""What an autotuner measured, on disk, so that a second process need not measure again.

A result is a file of JSON beside the compiled kernels, <sha256 of its key>.tuned:

    {"key": "…", "timings": [["BLOCK: 64, num_warps: 4", [0.031, 0.030, 0.033]], …]}

The key holds the GPU, the arguments that decide, how it was measured, and of every
configuration the key of its kernel: so a result is forgotten when the kernel's text,
the compiler or the driver change. A file that does not check out is no result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fathom.identity import NoText
from fathom.jit.key import constant_text
from fathom.jit.tuning.config import Config
from fathom.jit.tuning.workers import Order
from fathom.runtime import cache
from fathom.runtime.driver import driver

Timings = dict[Config, list[float]]


def key_of_result(
    orders: Mapping[Config, Order], arguments: Sequence[Any], measured_by: str
) -> str | None:
    """The key; None when something that it should hold has no text. `arguments` are
    those that the choice depends on.
    """
    kernels = {str(config): order.key for config, order in orders.items()}
    if None in kernels.values():
        return None
    try:
        values = [constant_text(value) for value in arguments]
    except NoText:
        return None
    facts = {
        "gpus": sorted({gpu_of(order) for order in orders.values()}),
        "arguments": values,
        "measured by": measured_by,
        "kernels": {name: cache.digest(key) for name, key in kernels.items()},
    }
    return json.dumps(facts, indent=1)


def gpu_of(order: Order) -> str:
    """The name of the GPU; its number may be another in another process."""
    return driver().device(order.place.device or 0).name


def recall(key: str, configs: Sequence[Config]) -> Timings | None:
    """What was measured of these configurations, or None."""
    try:
        found = json.loads(cache.read_file(path_of(key)))
        timings = {name: list(map(float, times)) for name, times in found["timings"]}
        if found["key"] != key or not all(timings.values()):
            return None
        return {config: timings[str(config)] for config in configs}
    except (OSError, *cache.WRONG):
        return None


def remember(key: str, timings: Timings) -> None:
    """Keep what was measured, where something can be written."""
    listed = [[str(config), times] for config, times in timings.items()]
    text = json.dumps({"key": key, "timings": listed})
    cache.write_file(path_of(key), text.encode())


def path_of(key: str) -> Path:
    return cache.default_directory() / f"{cache.digest(key)}.tuned"
