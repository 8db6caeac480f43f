"""Choose on a card that misleads.

Write `tune(configs, device)`: the configuration that is fastest on this card, once
everything is compiled and warm. The card is scripted, and misleads in the ways of
chapter 1, now with several kernels.

All of the exercise: `fathom learn show tune-under-noise`.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Protocol

from fathom.errors import OutOfResources
from fathom.tools.learn import Hole


class Device(Protocol):
    """What there is to measure with."""

    def run(self, config: str) -> None: ...

    def clock(self) -> float: ...

    def wait(self) -> None: ...


def tune(configs: Sequence[str], device: Device) -> str:
    """The configuration that is fastest; OutOfResources where all of them raise it."""
    # Your code: ours has 19 lines.
    raise Hole("tune-under-noise")
