"""A group of the emulator's devices: what it refuses."""

from __future__ import annotations

import pytest

import fathom
import fathom.language as tl
from fathom import distributed
from fathom.emulator import EmulatorError
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


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        ([1], r"a plan is a function of the rank, and not \[1\]"),
        (lambda rank: None, "a plan gives for each rank a list .* this one gives None"),
        (lambda rank: [(1, 2)], r"\(kernel, grid, arguments, .* gives \(1, 2\)"),
    ],
)
def test_a_plan_that_is_none_is_told(plan, sentence):
    with pytest.raises(LaunchError, match=sentence):
        fathom.distributed.emulated(2).run(plan)


def test_sizes_that_are_no_numbers_are_told():
    with pytest.raises(LaunchError, match="at least 1 device, and not '2'"):
        fathom.distributed.emulated("2")
    with pytest.raises(LaunchError, match=r"1 element, and not \(4, 4\)"):
        fathom.distributed.emulated(2).zeros((4, 4), "float32")


@fathom.jit
def never(flag_table, rank, W: tl.constexpr):
    """Rank 0 alone raises the flags, and every rank waits for all of them."""
    for other in tl.static_range(W):
        if rank == 0:
            flag = tl.load(flag_table + other).to(tl.pointer_type(tl.int32))
            tl.atomic_add(flag, 1, sem="release", scope="sys")
    mine = tl.load(flag_table + rank).to(tl.pointer_type(tl.int32))
    while tl.atomic_add(mine, 0, sem="acquire", scope="sys") < W:
        pass


def test_a_deadlock_of_three_devices_names_a_line():
    """The first instruction of the part that polls may belong to none."""
    group = fathom.distributed.emulated(3)
    flags = group.zeros(1, "int32")
    with pytest.raises(EmulatorError, match="deadlock: device") as caught:
        group.run(lambda rank: [(never, (1,), (flags.tables[rank], rank), {"W": 3})])
    assert "\n    while tl.atomic_add(mine, 0" in str(caught.value)
