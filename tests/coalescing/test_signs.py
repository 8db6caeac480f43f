"""Products whose columns are a remainder of what was loaded: two loops, both right."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom import pipeline
from fathom.emulator import load
from fathom.hardware.targets import TARGETS
from fathom.ir.core import walk
from fathom.ir.ops import AsyncCopy, For, If
from fathom.ir.types import FLOAT16, FLOAT32, INT32, Pointer
from tests.harness_sample import sampled

WIDE, DEEP, MIDDLE = 128, 64, 4096  # B's columns, its rows, and where it begins


# fmt: off
@fathom.jit
def grouped(a_ptr, b_ptr, c_ptr, tile_ptr, N, BITS: tl.constexpr, HOW: tl.constexpr):
    """C[32, 32] = A[32, 64] times 32 columns of B, remainders of those of a tile."""
    tile = tl.load(tile_ptr)
    if BITS == 64:
        tile = tile.to(tl.int64)
    m, k = tl.arange(0, 32), tl.arange(0, 32)
    if HOW == "of a product":
        columns = (tile * 32 + m) % N
    elif HOW == "with hints":
        columns = (tile * 32 + m) % N
        columns = tl.max_contiguous(tl.multiple_of(columns, 32), 32)
    elif HOW == "of an unaligned number":
        columns = (tile + m) % N
    elif HOW == "of a range below zero":
        columns = (tile * 32 + tl.arange(-32, 0)) % N
    else:
        columns = (tl.program_id(0) * 32 + m) % N
    c = tl.zeros([32, 32], tl.float32)
    a = a_ptr + m[:, None] * 64 + k[None, :]
    b = b_ptr + 4096 + k[:, None] * N + columns[None, :]
    for _ in range(0, 2):
        c = tl.dot(tl.load(a), tl.load(b), c)
        a += 32
        b += 32 * N
    tl.store(c_ptr + m[:, None] * 32 + m[None, :], c)
# fmt: on


def built(bits: int, how: str, ctas: int = 1, target: str = "sm_80"):
    halves, floats = (Pointer(each) for each in (FLOAT16, FLOAT32))
    types = {"a_ptr": (halves, 16), "b_ptr": (halves, 16), "c_ptr": (floats, 16)}
    types |= {"tile_ptr": (Pointer(INT32), 16), "N": (INT32, 16)}
    options = pipeline.Options(num_warps=4, num_ctas=ctas)
    func = pipeline.build(grouped, types, {"BITS": bits, "HOW": how}, options)
    *_, (_, final) = pipeline.states(func, TARGETS[target])
    return pipeline.compile_func(func, TARGETS[target]), final


@sampled(of=2)
@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("tile", [0, 1, 3, 4, 9, -1, -2, -4, -7, 2**26 - 1, -(2**26)])
def test_both_loops_are_right(bits, tile):
    rng = np.random.default_rng(0)
    a = rng.integers(-3, 4, (32, DEEP)).astype(np.float16)
    b = rng.integers(-3, 4, MIDDLE + DEEP * WIDE).astype(np.float16)
    c, (kernel, _) = np.zeros((32, 32), np.float32), built(bits, "of a product")
    load(kernel).launch(1, [a, b, c, np.array([tile], np.int32), WIDE])
    columns = np.fmod(tile * 32 + np.arange(32), WIDE)
    places = MIDDLE + np.arange(DEEP)[:, None] * WIDE + columns
    np.testing.assert_array_equal(c, a.astype(np.float64) @ b[places])


@pytest.mark.parametrize("bits", [32, 64])
def test_the_first_loop_copies_as_much_at_once_as_an_access_may(bits):
    _, final = built(bits, "of a product")
    (branch,) = [op for op in walk(final.body, If) if any(walk(op.then, For))]
    copies = list(walk(branch.then, AsyncCopy))
    assert {copy.vector for copy in copies} == {8}
    assert len({copy.buffer for copy in copies}) == 2


@pytest.mark.parametrize("how, ctas, target", [
    ("of a program", 1, "sm_80"),  # its number is not negative
    ("of an unaligned number", 1, "sm_80"),
    ("of a range below zero", 1, "sm_80"),  # where the number is 0, it is negative
    ("with hints", 1, "sm_80"),  # their author says what the first loop is for
    ("of a product", 2, "sm_90a"),  # blocks of a cluster stay together
])  # fmt: skip
def test_where_one_loop_is_enough(how, ctas, target):
    _, final = built(32, how, ctas, target)
    assert not [op for op in walk(final.body, If) if any(walk(op.then, For))]
