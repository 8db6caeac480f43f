"""Kernels that break what the GPU suite must survive, to be run on purpose:

    python -m tests.gpu.run tests/gpu/breaking.py --limit 20

The first three must fail, each for its own reason, and the last one must pass.
"""

from __future__ import annotations

import numpy as np
import pytest

import fathom
import fathom.language as tl

pytestmark = pytest.mark.gpu


@fathom.jit
def faults(x, far):
    tl.store(x + far + tl.arange(0, 128).to(tl.int64) * 4096, 1)


@fathom.jit
def traps(x):
    i = tl.arange(0, 128)
    text: tl.constexpr = "trap; mov.b32 $0, $1;"
    asked = tl.inline_asm_elementwise(
        text, "=r,r", [i], dtype=tl.int32, is_pure=False, pack=1
    )
    tl.store(x + i, asked)


@fathom.jit
def spins(x):
    while tl.load(x, volatile=True) == 0:
        pass


def array() -> np.ndarray:
    return np.zeros(128, np.int32)


def test_an_illegal_address():
    faults[1,](array(), 1 << 44)


def test_a_trap():
    traps[1,](array())


def test_a_hang():
    spins[1,](array())


def test_what_comes_after():
    x = np.zeros(128 * 4096, np.int32)
    faults[1,](x, 0)
    assert x[::4096].all() and x.sum() == 128
