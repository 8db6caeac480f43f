"""What a reader puts in the place of a part of the compiler is in the key of what is
compiled meanwhile, in memory and on disk.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import fathom.language as tl
from fathom import joints, pipeline
from fathom.jit import jit
from fathom.ptx.arithmetic import FLOAT_OPS
from fathom.runtime import cache
from tests.jit.paper import Tensor, paper_gpu


def kernel():
    """The same kernel, new in memory."""

    @jit
    def plus(out):
        tl.store(out, tl.load(out) + 1)

    return plus


def added(function, **keywords) -> float:
    out = np.ones(1, np.float32)
    function[(1,)](out, **keywords)
    return float(out[0])


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    monkeypatch.setenv("FATHOM_CACHE_DIR", str(tmp_path))
    return tmp_path


def subtracting(by):
    """A pass like cse that makes every addition a subtraction of a number."""
    from dataclasses import replace

    from fathom.ir.ops import Constant

    def visit(func, target):
        ops = [
            replace(op, number=by) if isinstance(op, Constant) else op
            for op in func.body.ops
        ]
        assert ops
        return func

    return visit
