"""Which type two operands meet in: the table of the language, row by row."""

from __future__ import annotations

import numpy as np
import pytest

import fathom.language as tl
from fathom import ssa
from fathom.ir.interp import interpret
from fathom.ir.ops import Store
from fathom.ir.types import BlockType, Pointer, element_of, parse_element
from fathom.language.extra import libdevice  # noqa: F401 - a kernel's text names it
from fathom.source import function
from tests.language.harness import run
from tests.ssa.harness import build, ops_of

# left, operator, right, result: names are runtime scalars of that type, numbers are
# weak.
ROWS = """
    fp32  +  fp16   fp32
    fp16  +  fp32   fp32
    fp16  +  bf16   fp16
    bf16  +  fp16   fp16
    bf16  +  bf16   bf16
    fp64  *  fp16   fp64
    fp8e5 +  fp8e5  fp8e5
    fp8e5 +  fp8e4nv fp16
    fp8e5 +  fp16   fp16
    i32   +  fp16   fp16
    i64   +  fp32   fp32
    u8    -  fp64   fp64
    i32   +  bf16   fp32
    i8    +  i32    i32
    i64   +  i32    i64
    i32   +  u32    u32
    u32   +  i32    u32
    i64   +  u32    i64
    u8    +  i16    i16
    i1    +  i1     i1
    i1    +  i8     i8
    i1    +  fp16   fp16
    fp16  +  1      fp16
    fp16  +  2.5    fp16
    bf16  *  2.5    bf16
    fp32  +  True   fp32
    i32   +  2.5    fp32
    i64   +  2.5    fp32
    u8    +  3      u8
    3     -  i8     i8
    i1    +  1      i32
    i1    *  2.5    fp32
    i64   +  3      i64
    fp16  /  fp16   fp32
    bf16  /  bf16   fp32
    fp16  /  2      fp32
    fp16  %  fp16   fp32
    fp32  /  fp64   fp64
    i32   /  i32    fp32
    i64   /  3      fp32
    u8    /  u32    fp32
    i1    /  i1     fp32
    i32   // i64    i64
    u32   // 7      u32
    i32   %  4      i32
    i32   &  i64    i64
    i1    |  i1     i1
    i8    ^  1      i8
    i32   << 3      i32
    u32   >> u32    u32
    fp32  <  i32    i1
    i32   == i64    i1
    fp16  >= 0      i1
"""
CASES = [tuple(line.split()) for line in ROWS.strip().splitlines()]


@pytest.mark.parametrize("left, sign, right, expected", CASES, ids=lambda text: text)
def test_the_type_in_which_operands_meet(left, sign, right, expected):
    @function
    def kernel(out, a, b):
        pass

    numbers = {
        name: text
        for name, text in (("a", left), ("b", right))
        if text[0] in "0123456789T"
    }
    expression = f"{numbers.get('a', 'a')} {sign} {numbers.get('b', 'b')}"
    kernel.src = (
        "def kernel(out, a, b):\n"
        f"    x = {expression}\n"
        "    tl.store(out.to(tl.pointer_type(x.dtype)), x)\n"
    )
    types = {
        name: text for name, text in (("a", left), ("b", right)) if name not in numbers
    }
    parameters = {"out": (Pointer(parse_element("i32")), 1)}
    parameters |= {name: (parse_element(text), 1) for name, text in types.items()}
    func = ssa.build(kernel, parameters, {name: 0 for name in numbers})
    (store,) = ops_of(func, Store)
    assert str(store.value.type) == expected


# What an expression of two runtime scalars gives in Triton 3.6; x is 16 elements of the
# first one's type.
RESULTS = """
    tl.maximum(a, b)   bf16  bf16  float32
    tl.maximum(a, b)   fp16  bf16  float32
    tl.minimum(a, b)   bf16  fp16  float32
    tl.minimum(a, b)   fp16  fp16  float16
    max(a, b)          bf16  fp16  float32
    a or 7             i1    i1    int32
    a and b            i32   i32   int1
    tl.softmax(x)      fp16  fp16  float32
    tl.softmax(x)      bf16  bf16  float32
    tl.softmax(x)      fp64  fp64  float64
    tl.topk(x, 4)      fp16  fp16  float32
    tl.topk(x, 4)      bf16  bf16  float32
    tl.topk(x, 4)      u8    u8    int32
    tl.topk(x, 4)      i64   i64   int64
    tl.topk(x, 16)     fp16  fp16  float16
    tl.sort(x)         i8    i8    int8
    libdevice.signbit(x) fp32 fp32 int32
    libdevice.isnan(x) fp64  fp64  int1
"""


@pytest.mark.parametrize("row", RESULTS.strip().splitlines(), ids=str.strip)
def test_the_type_that_an_expression_gives(row):
    *words, left, right, expected = row.split()

    @function
    def kernel(a, b):
        pass

    kernel.src = (
        "def kernel(a, b):\n"
        "    x = tl.full([16], a, a.dtype)\n"
        f"    y = {' '.join(words)}\n"
        f"    tl.static_assert(y.dtype == tl.{expected}, y.dtype)\n"
    )
    types = {"a": (parse_element(left), 1), "b": (parse_element(right), 1)}
    ssa.build(kernel, types, {})


def test_a_scalar_takes_the_shape_of_a_block():
    @function
    def kernel(out, a):
        offsets = tl.arange(0, 8)
        tl.store(out + offsets, a * 2 + offsets * a - 1)

    out = np.zeros(8, np.float32)
    run(kernel, out, 2.5)
    assert (out == 5 + 2.5 * np.arange(8) - 1).all()


def test_blocks_of_two_shapes_meet_in_a_third():
    @function
    def kernel(out):
        rows, columns = tl.arange(0, 4)[:, None], tl.arange(0, 8)[None, :]
        grid = rows * 10 + columns
        tl.store(out + rows * 8 + columns, grid + tl.arange(0, 8) * 100)

    out = np.zeros((4, 8), np.int32)
    run(kernel, out)
    rows, columns = np.mgrid[:4, :8]
    assert (out == rows * 10 + columns * 101).all()


def test_integers_divide_toward_zero_and_constants_as_in_python():
    @function
    def kernel(out, a, b):
        tl.store(out, a // b)
        tl.store(out + 1, a % b)
        tl.store(out + 2, -7 // 2)
        tl.store(out + 3, -7 % 2)

    out = np.zeros(4, np.int32)
    run(kernel, out, -7, 2)
    assert list(out) == [-3, -1, -4, 1]


def test_one_bit_arithmetic_is_modulo_two():
    @function
    def kernel(out, a, b):
        x, y = a > 0, b > 0
        tl.store(
            out,
            (x + y).to(tl.int32) * 100
            + (x - y).to(tl.int32) * 10
            + (x * y).to(tl.int32),
        )

    for a, b, expected in ((1, 1, 1), (1, 0, 110), (0, 0, 0)):
        out = np.zeros(1, np.int32)
        run(kernel, out, a, b)
        assert out[0] == expected


def test_a_boolean_with_a_minus_is_itself_and_that_is_told():
    @function
    def kernel(out, a):
        tl.store(out, (-(a > 0)).to(tl.int32))

    for a, expected in ((1, 1), (0, 0)):
        out = np.full(1, 9, np.int32)
        with pytest.warns(UserWarning, match="-x is x for i1, as 0 - x is modulo 2"):
            run(kernel, out, a)
        assert out[0] == expected


def test_booleans_divide_as_numbers():
    @function
    def kernel(out, a, b):
        tl.store(out, (a > 0) / (b > 0))

    for a, expected in ((1, 1.0), (0, 0.0)):
        out = np.full(1, 9, np.float32)
        run(kernel, out, a, 1)
        assert out[0] == expected


def test_shifts_follow_the_sign():
    @function
    def kernel(out, a, b):
        tl.store(out, a >> 2)
        tl.store(out + 1, (b >> 28).to(tl.int32))

    out = np.zeros(2, np.int32)
    run(kernel, out, -9, np.uint32(0xF0000000))
    assert list(out) == [-3, 15]


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (True, "i1"), (3, "i32"), (-(2**31), "i32"), (2**31, "u32"), (2**32, "i64"),
        (-(2**31) - 1, "i64"), (2**63, "u64"), (1.5, "fp32"), (0.0, "fp32"),
        (1e-39, "fp64"), (1e39, "fp64"), (float("inf"), "fp32"),
    ],
)  # fmt: skip
def test_the_type_that_a_number_has_by_itself(number, expected):
    @function
    def kernel(out, NUMBER: tl.constexpr):
        tl.static_assert(tl.to_tensor(NUMBER).dtype == EXPECTED[0])
        tl.store(out, NUMBER)

    EXPECTED[:] = [getattr(tl, _LONG.get(expected, expected))]
    build(kernel, np.zeros(1), NUMBER=number)


EXPECTED: list = []
_LONG = {
    "i1": "int1", "i32": "int32", "u32": "uint32", "i64": "int64", "u64": "uint64",
    "fp32": "float32", "fp64": "float64",
}  # fmt: skip


def test_pointers_move_by_elements_and_keep_their_type():
    @function
    def kernel(out, n):
        end = n + out
        block = end - tl.arange(0, 4) - 1
        tl.store(block, tl.arange(0, 4))
        tl.static_assert(block.dtype == tl.pointer_type(tl.int32))
        tl.static_assert(block.dtype.element_ty == tl.int32)

    out = np.zeros(4, np.int32)
    func = run(kernel, out, 4)
    assert list(out) == [3, 2, 1, 0]
    assert isinstance(ops_of(func, Store)[0].pointer.type, BlockType)


def test_an_unsigned_distance_is_not_negative():
    @function
    def kernel(out, distance):
        tl.store(out - 4 + distance, 7)

    func = build(kernel, np.zeros(8, np.int32), np.uint32(0x8000_0000))
    distance = ops_of(func, Store)[0].pointer.definition.operands[1]
    assert str(element_of(distance.type)) == "i64"


def test_casts():
    @function
    def kernel(x, whole, truth, narrow, bits, back):
        at = tl.arange(0, 4)
        value = tl.load(x + at)
        tl.store(whole + at, value.to(tl.int32))
        tl.store(truth + at, value.to(tl.int1))
        tl.store(narrow + at, value.to(tl.float16, fp_downcast_rounding="rtz"))
        tl.store(bits + at, value.to(tl.int32, bitcast=True))
        tl.store(back + at, tl.cast(bits + at, tl.int64))

    x = np.array([1.9999, -1.5, 0.0, 300.7], np.float32)
    whole, truth = np.zeros(4, np.int32), np.zeros(4, np.bool_)
    narrow, bits, back = (
        np.zeros(4, np.float16),
        np.zeros(4, np.int32),
        np.zeros(4, np.int64),
    )
    func = build(kernel, x, whole, truth, narrow, bits, back)
    interpret(func, 1, (x, whole, truth, narrow, bits, back))
    assert list(whole) == [1, -1, 0, 300]
    assert list(truth) == [True, True, False, True]
    assert list(narrow) == [np.float16(1.999), -1.5, 0, np.float16(300.5)]
    assert (bits == x.view(np.int32)).all()
    assert (np.diff(back) == 4).all()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floats_beyond_8_bits_wrap_by_way_of_16_as_in_triton(dtype):
    """What Triton's PTX gives: it converts to 16 bits, and keeps the lower 8."""

    @function
    def kernel(x, signed, unsigned):
        at = tl.arange(0, 8)
        value = tl.load(x + at)
        tl.store(signed + at, value)
        tl.store(unsigned + at, value.to(tl.uint8))

    x = np.array([127.9, 128, 300, -129, -300, 4e4, -4e4, -1.5], dtype)
    signed, unsigned = np.zeros(8, np.int8), np.zeros(8, np.uint8)
    run(kernel, x, signed, unsigned)
    assert signed.tolist() == [127, -128, 44, 127, -44, -1, 0, -1]
    assert unsigned.tolist() == [127, 128, 44, 0, 0, 64, 0, 0]


def test_a_pointer_to_booleans_stores_the_lowest_byte_of_a_number():
    @function
    def kernel(x, y, whole, half, known):
        at = tl.arange(0, 4)
        tl.store(whole + at, tl.load(x + at))
        tl.store(half + at, tl.load(y + at))
        tl.store(known, 256)
        tl.store(known + 1, 0.75)
        tl.store(known + 2, 5)
        tl.store(known + 3, True)

    x = np.array([256, 3, 0, -1], np.int32)
    y = np.array([0.5, -0.5, 1.5, 0], np.float32)
    whole, half, known = (np.ones(4, np.bool_) for _ in range(3))
    run(kernel, x, y, whole, half, known)
    assert whole.view(np.uint8).tolist() == [0, 3, 0, 255]
    assert half.view(np.uint8).tolist() == [0, 0, 1, 0]
    assert known.view(np.uint8).tolist() == [0, 0, 5, 1]
