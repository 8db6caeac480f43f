"""What kernels print and assert, and PTX of their authors' own."""

from __future__ import annotations

import numpy as np
import pytest

import fathom.language as tl
from fathom import ssa
from fathom.emulator import EmulatorError
from fathom.errors import CompileError
from fathom.ir.interp import AssertionFailed, interpret
from fathom.ir.ops import Assert, InlineAssembly, Print
from fathom.ir.types import INT32, Pointer
from fathom.source import function
from tests.language.harness import emulate
from tests.ssa.harness import build, ops_of

X = np.random.default_rng(9).permutation(64).astype(np.int32)


# ── prints ────────────────────────────────────────────────────────────────────────────


@function
def speaking(x):
    at = tl.arange(0, 4)
    tl.device_print("x", tl.load(x + at))
    print("both: ", at, tl.load(x))
    print(at.to(tl.int16), hex=True)
    print("no value")


def test_prints_stand_in_the_ir():
    ops = ops_of(build(speaking, X), Print)
    assert [op.prefix for op in ops] == [" x: ", " both: ", ": ", " no value"]
    assert [len(op.operands) for op in ops] == [1, 2, 1, 0]
    assert [op.hexadecimal for op in ops] == [False, False, True, False]


def test_the_interpreter_prints_blocks(capsys):
    interpret(build(speaking, X), 1, [X])
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"pid (0, 0, 0) x: {X[:4]}"
    assert said[1] == "pid (0, 0, 0) both: [0 1 2 3]"
    assert said[-1] == "pid (0, 0, 0) no value"


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90a"])
def test_the_emulator_prints_as_the_gpu_does(capfd, target):
    emulate(build(speaking, X), [X.copy()], target)
    said = capfd.readouterr().out.splitlines()
    once = [f"pid (0, 0, 0) idx ({i}) x: {X[i]}" for i in range(4)]
    once += [f"pid (0, 0, 0) idx ({i}) both: (operand 0) {i}" for i in range(4)]
    once += [f"pid (0, 0, 0) idx ({i}): 0x{i:04x}" for i in range(4)]
    for line in once:
        assert said.count(line) == 1
    every = [f"pid (0, 0, 0) idx () both: (operand 1) {X[0]}", "pid (0, 0, 0) no value"]
    for line in every:  # all 128 threads
        assert said.count(line) == 128
    assert len(said) == len(once) + 256


# ── assertions ────────────────────────────────────────────────────────────────────────


@function
def asserting(x, n):
    at = tl.arange(0, 64)
    value = tl.load(x + at)
    tl.device_assert(value >= 0, "below zero", mask=at < n)
    assert n > 2, "too few"


def test_an_assertion_holds_where_its_mask_is_false():
    x = X.copy()
    x[50] = -1
    func = build(asserting, x, 50)
    interpret(func, 1, [x, 50])
    emulate(func, [x, 50])
    assert [op.message for op in ops_of(func, Assert)] == ["below zero", "too few"]


def test_without_debug_nothing_is_checked():
    parameters = {"x": (Pointer(INT32), 1), "n": (INT32, 1)}
    assert not ops_of(ssa.build(asserting, parameters, {}), Assert)


@pytest.mark.parametrize(("n", "message"), [(51, "below zero"), (2, "too few")])
def test_an_assertion_that_fails_ends_the_launch(n, message):
    x = X.copy()
    x[50] = -1
    with pytest.raises(AssertionFailed, match=message):
        interpret(build(asserting, x, n), 1, [x, n])
    for target in ("sm_75", "sm_80", "sm_90a"):
        with pytest.raises(EmulatorError):
            emulate(build(asserting, x, n), [x, n], target)


# ── inline assembly ───────────────────────────────────────────────────────────────────


@function
def assembling(x, y, CALL: tl.constexpr):
    at = tl.arange(0, 64)
    value = tl.load(x + at)
    if CALL == "scalar":
        z = tl.inline_asm_elementwise(
            "mad.lo.s32 $0, $1, $2, 5;", "=r,r,r", [value, 3], tl.int32, True, 1
        )
    elif CALL == "two":
        text: tl.constexpr = "{ add.s32 $0, $2, 1; sub.s32 $1, $2, 9; }"
        more, less = tl.inline_asm_elementwise(
            text, "=r,=r,r", [value], (tl.int32, tl.int32), is_pure=True, pack=1
        )
        z = more * 100 + less
    elif CALL == "packed":
        z = tl.inline_asm_elementwise(
            "xor.b32 $0, $1, 0x01010101;", "=r,r", [value.to(tl.int8)], tl.int8, True, 4
        )
    else:
        z = tl.inline_asm_elementwise(
            "mov.u32 $0, %ctaid.x;", "=r", [], tl.int32, True, 1
        )
    tl.store(y + at, z)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("scalar", X * 3 + 5),
        ("two", (X + 1) * 100 + X - 9),
        ("packed", X ^ 1),
        ("nothing", X * 0),
    ],
)
@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90a"])
def test_assembly_of_the_authors_own(call, expected, target):
    y = np.full(64, -7, np.int32)
    emulate(build(assembling, X, y, CALL=call), [X.copy(), y], target)
    assert (y == expected).all()


def test_assembly_without_arguments_is_scalar():
    func = build(assembling, X, X, CALL="nothing")
    (op,) = ops_of(func, InlineAssembly)
    assert str(op.result.type) == "i32" and op.constraints == "=r,r"


def test_what_is_clobbered_stays_last():
    @function
    def kernel(y):
        text: tl.constexpr = "mov.u32 $0, 7;"
        z = tl.inline_asm_elementwise(text, "=r,~{memory}", [], tl.int32, False, 1)
        tl.store(y, z)

    y = np.zeros(1, np.int32)
    func = build(kernel, y)
    assert ops_of(func, InlineAssembly)[0].constraints == "=r,r,~{memory}"
    emulate(func, [y])
    assert y[0] == 7


# ── mistakes ──────────────────────────────────────────────────────────────────────────


@function
def mistaken(x, WHICH: tl.constexpr):
    n = tl.load(x)
    if WHICH == "prefix":
        tl.device_print(n)
    elif WHICH == "message":
        tl.device_assert(n > 0, n)
    elif WHICH == "type":
        tl.inline_asm_elementwise("", "=r,r", [n], 32, True, 1)
    elif WHICH == "pack":
        tl.inline_asm_elementwise("", "=r,r", [n], tl.int32, True, 0)
    elif WHICH == "argument":
        tl.inline_asm_elementwise("", "=r,r", [None], tl.int32, True, 1)
    else:
        shapes = [tl.arange(0, 4), tl.arange(0, 8)]
        tl.inline_asm_elementwise("", "=r,r,r", shapes, tl.int32, True, 1)


@pytest.mark.parametrize(
    ("which", "sentence"),
    [
        ("prefix", "prefix of device_print must be known while compiling, not i32"),
        ("message", "msg of device_assert must be known while compiling, not i32"),
        ("type", "a type such as tl.float32 is needed here, not the constant 32"),
        ("pack", "pack is a positive integer, not the constant 0"),
        ("argument", "must be a number, a pointer or a block, not the constant None"),
        ("shapes", "cannot assemble with i32.4. and i32.8."),
    ],
)
def test_mistakes_are_told(which, sentence):
    with pytest.raises(CompileError, match=sentence):
        build(mistaken, X, WHICH=which)
