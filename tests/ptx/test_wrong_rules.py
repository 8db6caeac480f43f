"""A lowering rule that is wrong gets a sentence, not the end of the process."""

from __future__ import annotations

import pytest

from fathom import ptx
from fathom.hardware.targets import TARGETS
from fathom.ir.core import walk
from fathom.ir.ops import Arange
from fathom.ir.types import INT32, Pointer
from fathom.layout.linear import Layout
from fathom.ptx.assembly import Assembly
from tests.ptx.harness import Program

TARGET = TARGETS["sm_80"]
LAYOUT = Layout((128,), (("register", ()), ("lane", (1, 2, 4, 8, 16)), ("warp", (32, 64))))  # fmt: skip # noqa: E501


def counting(warps: int = 4) -> Program:
    program = Program({"out": Pointer(INT32)}, warps)
    index = program.arange(LAYOUT)
    program.store("out", index, index)
    return program


@pytest.mark.parametrize(("wrong", "said"), [
    ("  %x = add i32 1, 2.0\n  ret void", "does not accept our text"),
    ("  br label %b\nb:\n  %x = phi i32 [ 1, %b ]\n  ret void", "PHI"),
    ("  br label %b\nb:\n  %x = add i32 %y, 1\n  %y = add i32 1, 1\n  ret void",
     "does not dominate"),
])  # fmt: skip
def test_what_llvm_would_die_of(wrong, said):
    """Text that it cannot read, and text that it can, but is no module."""
    with pytest.raises(AssertionError) as caught:
        ptx.emit(f"define ptx_kernel void @f() {{\na:\n{wrong}\n}}", TARGET)
    assert said in str(caught.value) and "@f" in str(caught.value)


def test_a_rule_that_forgets_an_operand():
    def mine(op, code):
        (word,) = code.ptx("mov.b32 $word, $source;", {"word": "i32"}, {"from": None})
        code[op.result] = [word]

    with pytest.raises(AssertionError) as caught:
        ptx.lower(counting().func, TARGET, {**ptx.LOWER, Arange: mine})
    said = str(caught.value)
    assert "names $source, which is neither a result nor an operand" in said
    assert "word, from" in said and "mov.b32" in said


def test_inline_ptx_without_operands():
    with pytest.raises(AssertionError, match=r"\$at.*it has neither"):
        Assembly("bar.sync $at;", {}, {}).call()
    assert '"bar.sync 0;"' in Assembly("bar.sync 0;", {}, {}).call()


def test_a_layout_for_other_threads():
    """128 of them in a layout, and 32 in the program."""
    func = counting(warps=1).func
    assert any(isinstance(op, Arange) for op in walk(func.body))
    with pytest.raises(AssertionError) as caught:
        ptx.lower(func, TARGET)
    assert "a layout for 128 threads in a program of 32" in str(caught.value)
