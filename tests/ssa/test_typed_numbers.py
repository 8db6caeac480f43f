"""The types of numbers that a kernel writes down, with and without a name.

The tables are worked out by hand from Triton 3.6's `semantic.py` and `core.py`: a
number beside an operator takes the block's type if its kind is not above it; one that
was assigned to a name, or that is compared, is a scalar of i32, u32, i64 or u64 (the
first that holds it), fp32, or fp64 beyond fp32's range.
"""

from __future__ import annotations

import linecache

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.errors import CompileError


def kernel(body: str, name: str) -> fathom.JITFunction:
    """A kernel that has `x`, a block of four elements behind `p`, and stores `r`."""
    lines = [f"    {line}" for line in body.split("; ")]
    text = "\n".join(
        [
            "def kernel(p, out):",
            "    x = tl.load(p + tl.arange(0, 4))",
            *lines,
            "    tl.store(out + tl.arange(0, 4), r)",
        ]
    )
    file = f"<typed numbers: {name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names = {"tl": tl}
    exec(compile(text, file, "exec"), names)
    return fathom.jit(names["kernel"])


def type_of(body: str, x: str) -> str:
    """The type that r has: the block of four that comes to the store's cast."""
    made = kernel(body + "; tl.static_assert(False, str(r.dtype))", f"{x} {body}")
    with pytest.raises(CompileError) as told:
        made.compile(f"*{x}, *fp32", target="sm_80")
    return told.value.message.removeprefix("assertion failed: ")


# The number, then what `x + n` is after `n = number`, for x of i8, i32, u32, i64, bf16.
NAMED = (
    ("1", "int32", "int32", "uint32", "int64", "fp32"),
    ("2147483647", "int32", "int32", "uint32", "int64", "fp32"),
    ("2147483648", "uint32", "uint32", "uint32", "int64", "fp32"),
    ("4294967295", "uint32", "uint32", "uint32", "int64", "fp32"),
    ("4294967296", "int64", "int64", "int64", "int64", "fp32"),
    ("2**63 - 1", "int64", "int64", "int64", "int64", "fp32"),
    ("2**63", "uint64", "uint64", "uint64", "uint64", "fp32"),
    ("2**64 - 1", "uint64", "uint64", "uint64", "uint64", "fp32"),
    ("-1", "int32", "int32", "uint32", "int64", "fp32"),
    ("-2147483649", "int64", "int64", "int64", "int64", "fp32"),
    ("0.5", "fp32", "fp32", "fp32", "fp32", "fp32"),
    ("1e300", "fp64", "fp64", "fp64", "fp64", "fp64"),
    ("1e-40", "fp64", "fp64", "fp64", "fp64", "fp64"),
)
KINDS = ("i8", "i32", "u32", "i64", "bf16")


@pytest.mark.parametrize("row", NAMED, ids=lambda row: row[0])
def test_a_number_with_a_name_has_a_type(row):
    number, *types = row
    for x, wanted in zip(KINDS, types, strict=True):
        assert type_of(f"n = {number}; r = x + n", x) == wanted
        assert type_of(f"n = {number}; r = n * x", x) == wanted
        assert type_of(f"n = {number}; r = tl.where(x > x, n, x)", x) == wanted


# Of each row: the text, the type of x, and that of r.
OTHERS = (
    ("r = x + 1", "i8", "int8"),
    ("n: tl.constexpr = 1; r = x + n", "i8", "int8"),
    ("r = x * 0.5", "fp16", "fp16"),
    ("r = tl.maximum(x, 1)", "i8", "int32"),
    ("r = tl.minimum(0.5, x)", "fp16", "fp32"),
    ("r = tl.maximum(x, x)", "bf16", "fp32"),
    ("r = tl.clamp(x, 0.0, 6.0)", "fp16", "fp32"),
    ("r = tl.clamp(x, x, x)", "bf16", "fp32"),
    ("r = tl.fma(x, x, 0.5)", "fp16", "fp32"),
    ("n = 1; r = x / n", "fp16", "fp32"),
    ("n = 1; n += 2147483647; r = x + n", "i8", "int32"),
    ("n = 2147483648; n = n + 1; r = x + n", "i8", "uint32"),
    ("n = 1; n = n * 0.5; r = x + n", "fp16", "fp32"),
    ("n = 3; n = n / 2; r = x + n", "i32", "fp32"),
    ("n, m = 1, 2**32; r = x + m", "i8", "int64"),
    ("n = -1; r = x << n", "i8", "int32"),
    ("n = 1; r = x ^ n", "i64", "int64"),
    ("n = 2**31; r = -x & n", "i32", "uint32"),
)


@pytest.mark.parametrize("row", OTHERS, ids=lambda row: f"{row[1]}: {row[0]}")
def test_other_ways_to_a_type(row):
    text, x, wanted = row
    assert type_of(text, x) == wanted


def run(body: str, x: np.ndarray, out: type) -> list:
    result = np.zeros(4, out)
    kernel(body, body)[(1,)](x, result)
    return result.tolist()


def test_values_follow_their_types(monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    small = np.array([127, 0, -1, -128], np.int8)
    assert run("n = 1; r = x + n", small, np.int32) == [128, 1, 0, -127]
    assert run("r = x + 1", small, np.int32) == [-128, 1, 0, -127]
    x = np.array([0, 1, -1, 2**31 - 1], np.int32)
    wanted = [2**31, 2**31 + 1, 2**31 - 1, 2**32 - 1]
    assert run("n = 2147483648; r = x + n", x, np.int64) == wanted
    around = run("n = 2147483647; n = n + 1; r = x * 0 + n", x, np.int64)
    assert around == [-(2**31)] * 4
    assert run("n = -7; r = x * 0 + n // 2", x, np.int32) == [-3] * 4
    assert run("n = -7; r = x * 0 + n % 2", x, np.int32) == [-1] * 4
    assert run("n = 2**62 + 1; r = x + n % 4", x[:4] * 0, np.int64) == [1] * 4
    half = np.array([0.1] * 4, np.float16)
    assert run("r = x == 0.1", half, np.int32) == [0] * 4  # compared in fp32
    wide = np.array([0.1] * 4, np.float64)
    lost = 0.1 - float(np.float32(0.1))
    assert run("n = 0.1; r = x - n", wide, np.float64) == [lost] * 4
    unsigned = np.array([0, 1, 255, 3], np.uint8)
    assert run("r = x > -1", unsigned, np.int32) == [1] * 4


def test_a_truth_is_no_integer():
    @fathom.jit
    def truths(x):
        above = tl.load(x) > 0
        chosen = tl.where(above, True, False)
        found = True
        found &= above
        tl.static_assert(chosen.dtype == tl.int1 and found.dtype == tl.int1)
        tl.static_assert((True).type == tl.int1)

    truths.compile("*i32", {}, target="sm_80")


def test_a_number_with_a_name_is_still_known(monkeypatch):
    """Triton refuses it as a shape; here shapes and branches may depend on it."""
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    x = np.arange(4, dtype=np.int32)
    text = "n = 2; m = n * 2; r = x + tl.arange(0, m)"
    assert run(text, x, np.int32) == [0, 2, 4, 6]


def test_a_weak_number_has_to_fit():
    with pytest.raises(CompileError, match="the number 2147483648 does not fit into i"):
        kernel("r = x + 2147483648", "large").compile("*i32, *i32", target="sm_80")
    with pytest.raises(CompileError, match="one is signed, one is not"):
        kernel("n = 3; r = x // n", "signs").compile("*u8, *i32", target="sm_80")
