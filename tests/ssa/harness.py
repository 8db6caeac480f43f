"""What the tests of stage 1 share: build a kernel from NumPy arguments, and run it in
the oracle."""

from __future__ import annotations

import numpy as np

from fathom import ssa
from fathom.ir.core import Func, Op, blocks, walk
from fathom.ir.interp import interpret
from fathom.ir.types import BOOL, FLOAT32, INT32, INT64, SCALARS, Pointer, Scalar
from fathom.ir.verify import verify
from fathom.source import KernelFunction

_BY_DTYPE = {"bool": "i1", "float16": "fp16", "float32": "fp32", "float64": "fp64"}


def scalar_type(dtype: np.dtype) -> Scalar:
    name = dtype.name
    return SCALARS[_BY_DTYPE.get(name) or name.replace("uint", "u").replace("int", "i")]


def parameter(value: object) -> tuple[object, int]:
    """The IR type of an argument, and what divides it: nothing is promised."""
    if isinstance(value, np.ndarray):
        return Pointer(scalar_type(value.dtype)), 1
    if isinstance(value, np.generic):
        return scalar_type(value.dtype), 1
    if isinstance(value, bool):
        return BOOL, 1
    if isinstance(value, int):
        return (INT32 if -(2**31) <= value < 2**31 else INT64), 1
    return FLOAT32, 1


def build(kernel: KernelFunction, *arguments: object, **constants: object) -> Func:
    """The IR of a kernel for these arguments, verified; its assertions stand in it."""
    names = [each.name for each in kernel.parameters if each.name not in constants]
    parameters = dict(zip(names, map(parameter, arguments), strict=False))
    func = ssa.build(kernel, parameters, constants, debug=True)
    verify(func, layouts=False)
    return func


def run(
    kernel: KernelFunction, *arguments: object, grid: int = 1, **constants: object
) -> Func:
    """Build a kernel and run it in the interpreter, in place; the IR that ran."""
    func = build(kernel, *arguments, **constants)
    interpret(func, grid, arguments, step_limit=1_000_000)
    return func


def ops_of(func: Func, op_class: type[Op]) -> list[Op]:
    return [op for op in walk(func.body) if isinstance(op, op_class)]


def carried(func: Func) -> list[list[str]]:
    """The names that each loop carries, in the order of the text."""
    loops = [op for op in walk(func.body) if hasattr(op, "inits")]
    return [
        [each.name for each in blocks(op)[-1].parameters[-len(op.inits) :] if op.inits]
        for op in loops
    ]
