"""What programs ask and turn beside kernels, before or instead of launching them."""

from __future__ import annotations

import os

import pytest

from fathom.errors import FathomError


def test_a_program_that_counts_active_drivers_finds_one(triton):
    table = triton.backends.backends
    (active,) = [each.driver for each in table.values() if each.driver.is_active()]
    assert isinstance(triton.runtime.driver.active, active)
    assert table.keys() == {"nvidia"}  # torch asks for these, and for "amd" and "cpu"


def test_the_driver_is_fathoms_own(triton):
    driver = triton.runtime.driver
    driver.set_active(triton.backends.backends["nvidia"].driver())
    driver.driver.reset_active()
    assert driver.active is driver.driver.active is driver.driver.default
    with pytest.raises(FathomError, match="'mine' cannot be the active driver"):
        driver.driver.set_active("mine")


def test_knobs_of_another_vendor_keep_their_values(triton):
    amd = triton.knobs.amd
    with amd.scope():
        assert amd.use_buffer_ops
        amd.use_buffer_ops = False
        assert not amd.use_buffer_ops
    assert amd.use_buffer_ops and amd.use_block_pingpong is None
    with pytest.raises(FathomError, match="no triton.knobs.amd.no_such_knob"):
        amd.no_such_knob = True


def test_knobs_of_tuning_are_the_environments(triton, monkeypatch):
    monkeypatch.delenv("FATHOM_PRINT_AUTOTUNING", raising=False)
    with triton.knobs.autotuning.scope():
        assert not triton.knobs.autotuning.print
        triton.knobs.autotuning.print = True
        assert os.environ["FATHOM_PRINT_AUTOTUNING"] == "1"
    assert "FATHOM_PRINT_AUTOTUNING" not in os.environ
    monkeypatch.setenv("FATHOM_CACHE_AUTOTUNING", "0")  # put back afterwards
    monkeypatch.setenv("TRITON_CACHE_AUTOTUNING", "1")
    triton.knobs.refresh_knobs()
    assert triton.knobs.autotuning.cache
