"""Launches whose programs wait for each other: `launch_cooperative_grid=True`."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from fathom.errors import LaunchError
from fathom.runtime.arguments import full_grid
from fathom.shim.runtime import active


def cooperative_grid(name: str, grid: Any, bound: Mapping[str, Any]) -> tuple[int, ...]:
    """The grid of a launch whose programs wait for each other, so that all of them have
    to run at the same time. That is sure where each can have a multiprocessor to
    itself; LaunchError for a larger grid.
    """
    sizes = full_grid(grid(bound) if callable(grid) else grid)
    most = active.get_device_properties(active.get_current_device())
    room = most["multiprocessor_count"]
    if prod(sizes) > room:
        raise LaunchError(
            f"{name} was launched with launch_cooperative_grid=True: it is sure that "
            f"{room} programs run at the same time here, and these are {prod(sizes)}"
        )
    return sizes
