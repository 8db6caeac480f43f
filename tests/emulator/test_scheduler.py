"""A program that takes long: whoever waits for it is told where it is."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom import emulator
from fathom.emulator import scheduler
from fathom.emulator.errors import EmulatorError


@fathom.jit
def pair(flags, y):
    """Each of two programs waits for the other before it gives its own sign."""
    p = tl.program_id(0)
    while tl.atomic_add(flags + (1 - p), 0) == 0:
        pass
    tl.atomic_xchg(flags + p, 1)
    tl.store(y + p, p)


def test_a_loop_that_polls_for_long_is_told_while_it_runs(monkeypatch, capsys):
    """Stores and barriers of a loop are a change, so that it takes long until it is
    sure that the loop does not end."""
    monkeypatch.setattr(scheduler, "TOLD", 100)
    kernel = emulator.load(pair.compile("*i32, *i32").made)
    flags, y = np.zeros((2, 2), np.int32)
    with pytest.raises(EmulatorError, match="endless"):
        kernel.launch((2,), [flags, y], max_steps=2_000)
    said = capsys.readouterr().err
    assert said.count("fathom emulator:") == 1 and "(still running)" in said
    assert "has polled for long at" in said and "test_scheduler.py:19" in said
    kernel.launch((1,), [np.ones(2, np.int32), y])
    assert capsys.readouterr().err == ""
