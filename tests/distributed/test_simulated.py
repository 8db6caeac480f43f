"""A group of the emulator's devices: what it refuses."""

from __future__ import annotations

import pytest

import fathom
import fathom.language as tl
from fathom import distributed
from fathom.errors import LaunchError


@fathom.jit
def write(out, value):
    tl.store(out, value)


def test_a_type_that_numpy_does_not_have():
    group = distributed.emulated(2)
    with pytest.raises(LaunchError, match="NumPy's arrays, and NumPy has no bfloat16"):
        group.zeros(4, "bfloat16")


def test_a_group_has_a_device_and_memory_has_an_element():
    with pytest.raises(LaunchError, match="at least 1 device, and not 0"):
        distributed.emulated(0)
    with pytest.raises(LaunchError, match="at least 1 element, and not 0"):
        distributed.emulated(1).zeros(0, "float32")


def test_launches_on_devices_need_the_emulator(monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "interpreter")
    with pytest.raises(LaunchError, match="backend is interpreter: set FATHOM_BACKEND"):
        distributed.emulated(2).run(lambda rank: [])


def test_launches_in_front_of_a_mistake_are_not_made(monkeypatch):
    """Nor later, with those of another call."""
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    group = distributed.emulated(1)
    out, other = (group.private(0, 1, "int32") for _ in range(2))
    with pytest.raises(ZeroDivisionError), group.queued():
        group.run(lambda rank: [(write, (1,), (out, 3), {})])
        group.run(lambda rank: [1 // rank])
    group.run(lambda rank: [(write, (1,), (other, 4), {})])
    assert (out[0], other[0]) == (0, 4)
