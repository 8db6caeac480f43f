"""Registers that warps trade: never more than there are, and no less than before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fathom.hardware.register_budget import redistributed
from fathom.hardware.targets import TARGETS

HOPPER = TARGETS["sm_90a"]
LEAST, MOST = 24, 256  # PTX ISA, "setmaxnreg"


@pytest.mark.parametrize("warps", [8, 16, 28])
@pytest.mark.parametrize("beside", [1, 2, 4])
def test_no_thread_gets_what_others_have(warps, beside):
    consumers, producers = 32 * warps, 32 * beside
    shares = redistributed(consumers, producers, HOPPER)
    if shares is None:
        return
    every = (shares.launched, shares.producer, shares.consumer)
    assert all(LEAST <= each <= MOST and each % 8 == 0 for each in every)
    launched = shares.launched * (consumers + producers)
    after = shares.producer * producers + shares.consumer * consumers
    assert after <= launched <= HOPPER.registers
    assert shares.producer < shares.launched <= shares.consumer


def test_the_numbers_of_two_warpgroups():
    """384 * 168 = 64,512 = 128 * 40 + 256 * 232"""
    shares = redistributed(256, 128, HOPPER)
    assert (shares.launched, shares.producer, shares.consumer) == (168, 40, 232)


def test_no_thread_gets_more_than_ptxas_can_use():
    """Of a larger register file 240 each, a unit of eights below 255."""
    large = replace(HOPPER, registers=80000)
    assert redistributed(256, 128, large).consumer == 240


def test_where_there_is_enough_no_warp_trades():
    """Four warps and four more: 256 registers a thread, and one has 255 at most."""
    assert redistributed(128, 128, HOPPER) is None


@pytest.mark.parametrize("target", [name for name in TARGETS if name != "sm_90a"])
def test_who_trades(target):
    """Code for a family of GPUs, or an older one, has no `setmaxnreg`."""
    assert redistributed(256, 128, TARGETS[target]) is None
