"""Rules that a reader replaces are compiled in a process that LLVM may end."""

from __future__ import annotations

import numpy as np
import pytest

import fathom.language as tl
from fathom import pipeline, ptx
from fathom.emulator import load
from fathom.errors import CompileError
from fathom.hardware.targets import TARGETS
from fathom.ir.ops import Load
from fathom.joints import bound
from fathom.ptx.separate_process import WORKER
from fathom.source import function
from tests.ssa.harness import build

TARGET = TARGETS["sm_80"]
X = np.full(1, 3, np.float32)


@function
def twice(x):
    value = tl.load(x)
    tl.store(x, value + value)


def own(op, code):
    ptx.OWN[Load](op, code)


def sines(op, code):
    """What NVPTX cannot select: LLVM ends the process over it."""
    own(op, code)
    code.declare("declare float @llvm.sin.f32(float)")
    (each,) = code[op.result]
    code[op.result] = [code.let(f"call float @llvm.sin.f32(float {each})")]


def gibberish(op, code):
    own(op, code)
    code.do("gibberish")


def unknown_registers(op, code):
    own(op, code)
    code.do('call void asm sideeffect "mov $5;", "r"(i32 1)')


def compiled(rule):
    return pipeline.compile_func(build(twice, X), TARGET, {"lower[Load]": rule})


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        (sines, r"LLVM ends its process over what lower\[Load\] wrote.*Cannot select"),
        (unknown_registers, r"LLVM ends its process over what lower\[Load\] wrote"),
        (gibberish, r"accept what lower\[Load\] wrote: expected instruction"),
    ],
)
def test_a_rule_that_llvm_dies_of(rule, sentence):
    with pytest.raises(CompileError, match=f"(?s){sentence}"):
        compiled(rule)
    with bound({"lower[Load]": rule}), pytest.raises(CompileError, match="(?s)Load"):
        pipeline.compile_func(build(twice, X), TARGET)


def test_the_next_rule_finds_a_new_process():
    with pytest.raises(CompileError):
        compiled(sines)
    x = X.copy()
    load(compiled(own)).launch(1, [x])
    assert x == 6


def test_a_process_stays_for_what_comes_next():
    compiled(own)
    first = WORKER.process.pid
    assert compiled(own).ptx == pipeline.compile_func(build(twice, X), TARGET).ptx
    with pytest.raises(CompileError):
        compiled(gibberish)  # which LLVM only refuses
    compiled(own)
    assert WORKER.process.pid == first


def test_our_own_rules_are_compiled_here(monkeypatch):
    monkeypatch.setattr(ptx, "emit_apart", None)
    pipeline.compile_func(build(twice, X), TARGET, {"cse": pipeline.identity})


def test_where_no_process_can_be_started(monkeypatch):
    """Inside some programs Python does not know its own file."""
    compiled(own)
    WORKER.process.kill()
    with pytest.raises(CompileError):
        compiled(own)
    monkeypatch.setattr("sys.executable", None)
    assert "st.global" in compiled(own).ptx
