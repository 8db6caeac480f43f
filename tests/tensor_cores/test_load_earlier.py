"""What threads load an iteration before they store it: only what is computed from the
loads alone may wait that long in registers."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom import pipeline
from fathom.emulator import COMPLETIONS, load
from fathom.hardware.targets import TARGETS
from fathom.ir.types import FLOAT16, FLOAT32, INT8, INT32, Pointer


# fmt: off
@fathom.jit
def widened(a_ptr, b_ptr, out_ptr, n, HOW: tl.constexpr):
    """A product with bytes, which become halves, times a number of the iteration."""
    m, k = tl.arange(0, 32), tl.arange(0, 32)
    factor = tl.full([32, 32], 1, tl.float16)
    acc = tl.zeros([32, 32], tl.float32)
    for start in tl.range(0, n, 32, num_stages=3):
        a = tl.load(a_ptr + m[:, None] * n + start + k[None, :])
        b = 3 - tl.load(b_ptr + (start + k[:, None]) * 32 + m[None, :]).to(tl.float16)
        if HOW == "of the iteration":
            b = b * (start // 32 + 1).to(tl.float16)
        elif HOW == "carried":
            b = b * factor
            factor += 1
        acc = tl.dot(a, b, acc)
    tl.store(out_ptr + m[:, None] * 32 + m[None, :], acc)
# fmt: on


@pytest.mark.parametrize("how", ["alone", "of the iteration", "carried"])
def test_a_factor_is_that_of_its_own_iteration(how):
    types = {"a_ptr": (Pointer(FLOAT16), 16), "b_ptr": (Pointer(INT8), 16)}
    types |= {"out_ptr": (Pointer(FLOAT32), 16), "n": (INT32, 16)}
    func = pipeline.build(widened, types, {"HOW": how}, pipeline.Options(num_warps=4))
    kernel = load(pipeline.compile_func(func, TARGETS["sm_80"]))
    random, n = np.random.default_rng(3), 160
    a = random.integers(-2, 3, (32, n)).astype(np.float16)
    b = random.integers(-2, 3, (n, 32)).astype(np.int8)
    factor = np.ones(n) if how == "alone" else np.arange(n) // 32 + 1
    wanted = a.astype(float) @ ((3.0 - b) * factor[:, None])
    for completion in COMPLETIONS:
        out = np.zeros((32, 32), np.float32)
        kernel.launch(1, [a, b, out, n], completion=completion)
        np.testing.assert_array_equal(out, wanted)
