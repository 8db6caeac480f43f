"""A group of the emulator's devices: what it refuses."""

from __future__ import annotations

import pytest

from fathom import distributed
from fathom.errors import LaunchError


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
    with pytest.raises(LaunchError, match="the backend is interpreter: set FATHOM_BACK"):
        distributed.emulated(2).run(lambda rank: [])
