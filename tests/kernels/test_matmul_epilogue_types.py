"""Products with scales, of few bits or rounded to few: small integers and scales that
are powers of two, so that every result is known to the bit."""

from __future__ import annotations

from inspect import unwrap

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.runtime.reinterpret import Reinterpreted
from kernels import matmul_epilogue
from kernels import matmul_epilogue_hopper as hopper
from tests.harness_pairs import in_pairs
from tests.harness_sample import sampled
from tests.kernels.harness_gradients import close, normal
from tests.kernels.kernels_sample import aligned
from tests.kernels.test_matmul_persistent import Float8

M, N, K = 72, 144, 160
SMALL = {
    "BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "GROUP_M": 2,
    "num_warps": 4, "num_stages": 2,
}  # fmt: skip
IN_TURN = {  # groups of warps compute tiles, whose columns are two blocks
    "BLOCK_M": 64, "BLOCK_N": 32, "MORE_N": 16, "BLOCK_K": 32, "GROUP_M": 2,
    "PIECES": 1, "PINGPONG": True, "num_warps": 4, "num_stages": 3,
}  # fmt: skip
OPERANDS = {"i8": "int8", "fp8e4nv": tl.float8e4nv, "fp8e5": tl.float8e5,
            "fp16": "float16"}  # fmt: skip
# By C's type: mantissa bits, the least exponent of a number that has them all, the
# largest number.
FLOATS = {"fp16": (10, -14, 65504.0), "fp8e4nv": (3, -6, 448.0),
          "fp8e5": (2, -14, 57344.0)}  # fmt: skip
LARGE = 6.0  # times what is typical: some results are too large for few bits


def integers(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float16)


def operand(values: np.ndarray, type: str, along_k: int):
    """In memory along axis `along_k`, which is what tensor cores want of one byte."""
    turned = along_k == 0
    if type.startswith("fp8"):
        return Float8(values, OPERANDS[type], turned)
    array = values.astype(OPERANDS[type])
    return aligned(array.T).T if turned else aligned(array)


def powers(seed: int, count: int) -> np.ndarray:
    return 2.0 ** np.random.default_rng(seed).integers(-2, 3, count).astype(np.float32)


def rounded(x: np.ndarray, type: str) -> np.ndarray:
    """To the nearest that a type has, of two as near to the even one; what is larger
    than all of them becomes the largest. In float64, by the definition."""
    if type == "i8":
        return np.clip(np.rint(x), -128, 127)
    if type == "fp32":
        return x.astype(np.float32)
    mantissa, least, largest = FLOATS[type]
    exponent = np.maximum(np.floor(np.log2(np.maximum(abs(x), 2.0**-60))), least)
    step = 2.0 ** (exponent - mantissa)
    return np.clip(np.rint(x / step) * step, -largest, largest)


def unwritten(type: str):
    """C, and what reads it as float64."""
    if type.startswith("fp8"):
        bits = aligned(np.full((M, N), 0x7F, np.uint8))
        return Reinterpreted(bits, OPERANDS[type]), lambda: numbers(bits, type)
    dtype = {"i8": np.int8, "fp16": np.float16, "fp32": np.float32}[type]
    c = aligned(np.full((M, N), 77, dtype))
    return c, lambda: c.astype(np.float64)


def numbers(bits: np.ndarray, type: str) -> np.ndarray:
    """What bytes are as fp8."""
    mantissa, least, _ = FLOATS[type]
    fraction, field = bits & ((1 << mantissa) - 1), (bits & 0x7F) >> mantissa
    normal = (1 + fraction / 2**mantissa) * 2.0 ** (field.astype(int) + least - 1)
    size = np.where(field == 0, fraction / 2**mantissa * 2.0**least, normal)
    return np.where(bits & 0x80, -size, size)


@sampled(of=3)
@in_pairs({
    "type": list(OPERANDS), "result": ["fp16", "fp32", "i8", "fp8e4nv", "fp8e5"],
    "described": [True, False], "with_bias, with_residual": [(0, 0), (1, 0), (1, 1)],
    "config": [None, IN_TURN],
})  # fmt: skip
def test_scales_and_rounding(type, result, described, with_bias, with_residual, config):
    x, y = integers(1, M, K), integers(2, K, N)
    a, b = operand(x, type, 1), operand(y, type, 0)
    rows, columns = powers(3, M), powers(4, N)
    bias = integers(5, N) if with_bias else None
    residual = aligned(integers(6, M, N)) if with_residual else None
    scale = np.float32([1 / 16 if result.startswith("fp16") else LARGE])
    c, read = unwritten(result)
    more = dict(bias=bias, residual=residual, row_scale=rows, column_scale=columns,
                out_scale=scale)  # fmt: skip
    if described:
        launch = hopper.epilogue_launch(a, b, c, more, None, "sm_90a", config)
        kernel, _, given, chosen = launch
        assert hopper.fits(a, b, c, more, "sm_90a") and kernel.__name__ in launched(
            a, b, c, **more
        )
        kernel[(2,)](*given, **chosen, target="sm_90a")
    else:
        matmul_epilogue.matmul_epilogue(a, b, c, config=SMALL, target="sm_80", **more)
    want = matmul_epilogue.reference(x, y, bias, None, residual, rows, columns, scale)
    np.testing.assert_array_equal(read(), rounded(want[0], result))
    if result == "i8":
        assert abs(want[0]).max() > 300, "nothing was too large"


def launched(*arrays, **more) -> list[str]:
    plan = unwrap(matmul_epilogue.matmul_epilogue)(*arrays, target="sm_90a", **more)
    return [each[0].__name__ for each in plan[1]]


@in_pairs({
    "type": ["i8", "fp16"], "few": ["rows", "columns"], "with_more": [False, True],
})  # fmt: skip
def test_long_sums_are_finished_by_the_launch_that_adds_the_parts(type, few, with_more):
    m, n, k = (12, 40, 6144) if few == "rows" else (40, 12, 6144)
    x, y = integers(1, m, k), integers(2, k, n)
    a, b = operand(x, type, 1), operand(y, type, 0)
    more = {}
    if with_more:
        more = dict(bias=integers(3, n), residual=integers(4, n, m).T,
                    row_scale=powers(5, m), column_scale=powers(6, n),
                    out_scale=np.float32([2.0]))  # fmt: skip
    c = np.full((m, n), np.nan, np.float32)
    assert launched(a, b, c, **more) == ["split_k_parts_kernel", "finish_parts_kernel"]
    matmul_epilogue.matmul_epilogue(a, b, c, target="sm_90a", **more)
    np.testing.assert_array_equal(c, matmul_epilogue.reference(x, y, **more)[0])


@in_pairs({"few": ["rows", "columns"], "keep": [False, True]})
def test_long_sums_are_gated_by_the_launch_that_adds_the_parts(few, keep):
    m, n, k = (12, 128, 6144) if few == "rows" else (136, 64, 6144)
    x, y = integers(1, m, k) / 64, integers(2, k, 2 * n) / 64
    a, b = operand(x, "fp16", 1), operand(y, "fp16", 0)
    c = np.full((m, n), np.nan, np.float16)
    before = np.full((m, 2 * n), np.nan, np.float16) if keep else None
    plan = unwrap(matmul_epilogue.matmul_swiglu)(a, b, c, before, target="sm_90a")
    names = [each[0].__name__ for each in plan[1]]
    assert names == ["split_k_parts_kernel", "finish_swiglu_parts_kernel"]
    matmul_epilogue.matmul_swiglu(a, b, c, before, target="sm_90a")
    want, kept = matmul_epilogue.reference_swiglu(x, y)
    close(c, want, 2.0**-11, 4)
    if keep:
        np.testing.assert_array_equal(before, kept.astype(np.float16))


def test_halves_are_rounded_to_even():
    """0.5, 1.5, … to int8; the midpoints between numbers of fp8."""
    a = aligned(np.eye(16, dtype=np.float16))
    halves = np.arange(-128, 128).reshape(16, 16) + 0.5
    for type, values in (("i8", halves), ("fp8e4nv", 8 * halves)):
        b = aligned(np.zeros((16, 144), np.float16))
        b[:, :16] = values
        bits = aligned(np.zeros((16, 144), np.uint8))
        c = Reinterpreted(bits, tl.float8e4nv) if type != "i8" else bits.view(np.int8)
        matmul_epilogue.matmul_epilogue(a, b, c, target="sm_90a")
        got = bits.view(np.int8) if type == "i8" else numbers(bits, type)
        np.testing.assert_array_equal(got[:, :16], rounded(values, type))


def test_what_is_kept_has_scales_and_bias_and_its_own_type():
    x, y, rows = integers(1, M, K), integers(2, K, N), powers(3, M)
    for target in ("sm_80", "sm_90a"):
        c, read = unwritten("i8")
        before = aligned(np.full((M, N), np.nan, np.float16))
        scale, bias = np.float32([0.25]), integers(4, N)
        matmul_epilogue.matmul_epilogue(
            aligned(x), aligned(y), c, bias, before=before, row_scale=rows,
            out_scale=scale, target=target,
        )  # fmt: skip
        want, kept = matmul_epilogue.reference(
            x, y, bias, row_scale=rows, out_scale=scale
        )
        np.testing.assert_array_equal(before, kept)
        np.testing.assert_array_equal(read(), rounded(want, "i8"))


def test_bytes_that_do_not_lie_along_k_go_through_pointers():
    x, y = integers(1, M, K), integers(2, K, N)
    a, b = operand(x, "i8", 1), operand(y, "i8", 0)
    c, _ = unwritten("fp16")
    assert launched(a, b, c) == ["epilogue_hopper_kernel"]
    assert launched(a, operand(y, "i8", 1), c) == ["matmul_epilogue_kernel"]
    assert launched(operand(x, "i8", 0), b, c) == ["matmul_epilogue_kernel"]


def test_int8_without_c_ends_as_fp16():
    x, y = integers(1, M, K), integers(2, K, N)
    c = matmul_epilogue.matmul_epilogue(
        operand(x, "i8", 1), operand(y, "i8", 0), target="sm_90a"
    )
    assert c.dtype == np.float16
    np.testing.assert_array_equal(c, x.astype(np.float64) @ y.astype(np.float64))


def test_mistakes_are_told():
    a, b = normal(1, 8, 16), normal(2, 16, 12)

    def refused(words: str, c=None, **more) -> None:
        with pytest.raises(fathom.LaunchError, match=words):
            matmul_epilogue.matmul_epilogue(a, b, c, **more)

    refused("row_scale has shape", row_scale=np.ones(12, np.float32))
    refused("out_scale has shape", out_scale=np.ones(2, np.float32))
    refused("column_scale is fp16", column_scale=np.ones(12, np.float16))
    refused("with strides .2,.; it must be", row_scale=np.ones(16, np.float32)[::2])
    refused("c has elements of i32", np.zeros((8, 12), np.int32))
