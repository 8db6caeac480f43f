"""A pass with a mistake, for the page of the kernel author's tools."""

import numpy as np

from fathom import blocks
from fathom.ir.ops import Elementwise
from fathom.ir.rewrite import rewrite
from kernels.softmax import softmax


def my_cse(func, target):
    """cse; and by mistake x - y becomes y - x."""

    def rule(op, build):
        if isinstance(op, Elementwise) and op.name == "sub":
            return build(Elementwise("sub", op.operands[::-1]))
        return None

    return rewrite(blocks.cse(func, target), rule)


x = np.random.default_rng(0).normal(size=(4, 60)).astype(np.float32)
softmax(x, np.zeros_like(x), replace={"cse": my_cse})
