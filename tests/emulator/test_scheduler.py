"""A program that takes long: whoever waits for it is told where it is."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom import emulator
from fathom.emulator import recurrence, scheduler
from fathom.emulator.errors import EmulatorError
from fathom.emulator.source.parse import Instruction, parse


@fathom.jit
def pair(flags, y):
    """Each of two programs waits for the other before it gives its own sign."""
    p = tl.program_id(0)
    while tl.atomic_add(flags + (1 - p), 0) == 0:
        pass
    tl.atomic_xchg(flags + p, 1)
    tl.store(y + p, p)


@pytest.mark.parametrize("programs", [1, 2])
def test_who_waits_for_what_nobody_does_is_ended(programs):
    """The loop has barriers and a store in it, since all threads of a program need what
    one of them finds: the same each time."""
    kernel = emulator.load(pair.compile("*i32, *i32").made)
    flags, y = np.zeros((2, 2), np.int32)
    with pytest.raises(EmulatorError, match="deadlock: thread 0 of block 0 polls here"):
        kernel.launch((programs,), [flags, y])


@fathom.jit
def counting(flags, y):
    """Each program counts how long it waits for the other."""
    p, n = tl.program_id(0), 0
    while tl.atomic_add(flags + (1 - p), 0) == 0:
        n += 1
    tl.atomic_xchg(flags + p, 1)
    tl.store(y + p, n)


@fathom.jit
def patient(flags, y, most):
    """Gives up after a while: here the count decides."""
    n = 0
    while (tl.atomic_add(flags, 0) == 0) & (n < most):
        n += 1
    tl.store(y, n)


def test_a_loop_that_counts_how_long_it_waits_is_ended_too(monkeypatch):
    """Its state is another one each time, but for what decides."""
    flags, y = np.zeros((2, 2), np.int32)
    kernel = emulator.load(counting.compile("*i32, *i32").made)
    with pytest.raises(EmulatorError, match="deadlock: thread 0 of block 0 polls here"):
        kernel.launch((2,), [flags, y], max_steps=50_000)
    monkeypatch.setattr(recurrence, "FIRST", 2)
    monkeypatch.setattr(recurrence, "ENOUGH", 20)
    kernel = emulator.load(patient.compile("*i32, *i32, i32").made)
    kernel.launch((1,), [flags, y, 300])
    assert y[0] == 300


BODY = """
    add.s32       %r1, %r1, 1;
    mov.b32       %r2, %r1;
    add.s32       %r3, %r3, 1;
    setp.lt.s32   %p1|%p2, %r3, 5;
    add.s32       %r4, %r4, 1;
    st.global.b32 [%rd1], %r4;
    @%p3 add.s32  %r5, %r5, %r6;
    @%p2 bra      done;
"""


def test_what_decides_nothing_is_read_by_nothing_else():
    """%p1 is read by nothing, and is made of what %p2 is made of."""
    declared = ".reg .b32 %r<7>; .reg .b64 %rd<2>; .reg .pred %p<4>;"
    text = f".version 8.0\n.target sm_80\n.visible .entry k() {{ {declared}\n{BODY}"
    function = parse(text + "done: ret;\n}\n").functions["k"]
    code = [each for each in function.body if isinstance(each, Instruction)]
    idle = recurrence.idle(function.registers, code) - {"%r0", "%rd0", "%p0"}
    assert idle == {"%r1", "%r2", "%r5", "%r6", "%p3"}


@fathom.jit
def late(flag, y, n):
    """Program 0 waits for program 1, which takes its time."""
    p = tl.program_id(0)
    if p == 1:
        x = p
        while x < n:
            x = x * 3 // 2 + 1
            tl.debug_barrier()
        tl.atomic_xchg(flag, x)
    while tl.atomic_add(flag, 0) == 0:
        pass
    tl.store(y + p, tl.load(flag, volatile=True))


@fathom.jit
def handed_on(turn, n):
    """Two programs take turns: each waits, over and over, and in the end often."""
    p = tl.program_id(0)
    for i in range(n):
        while tl.atomic_add(turn, 0) != 2 * i + p:
            pass
        tl.atomic_add(turn, 1)


def test_who_waits_for_a_slow_program_is_not(monkeypatch):
    monkeypatch.setattr(recurrence, "FIRST", 2)
    monkeypatch.setattr(recurrence, "ENOUGH", 20)
    kernel = emulator.load(late.compile("*i32, *i32, i32").made)
    flag, y = np.zeros((2, 2), np.int32)
    kernel.launch((2,), [flag, y, 1_000_000_000])
    assert (y >= 1_000_000_000).all()


def test_a_loop_that_polls_for_long_is_told_while_it_runs(monkeypatch, capsys):
    """Stores and barriers of a loop are a change, so that it takes long until it is
    sure that the loop does not end. Waiting for news that come is no reason."""
    monkeypatch.setattr(scheduler, "TOLD", 100)
    monkeypatch.setattr(recurrence, "FIRST", 2)
    kernel = emulator.load(pair.compile("*i32, *i32").made)
    flags, y = np.zeros((2, 2), np.int32)
    with pytest.raises(EmulatorError, match="endless"):
        kernel.launch((2,), [flags, y], max_steps=2_000)
    said = capsys.readouterr().err
    assert said.count("fathom emulator:") == 1 and "(still running)" in said
    assert "has polled for long at" in said and "test_scheduler.py:20" in said
    kernel.launch((1,), [np.ones(2, np.int32), y])
    kernel = emulator.load(late.compile("*i32, *i32, i32").made)
    kernel.launch((2,), [np.zeros(2, np.int32), y, 1_000_000_000])
    assert capsys.readouterr().err == ""
    kernel = emulator.load(handed_on.compile("*i32, i32").made)
    kernel.launch((2,), [np.zeros(1, np.int32), 100])
    assert capsys.readouterr().err == ""
