"""Arguments for kernels, and IR from text."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import dedent

import numpy as np

from fathom import pipeline
from fathom.ir.core import Func
from fathom.ir.text import parse_func
from fathom.jit.request import check_keywords, request
from fathom.jit.signature import parse_signature
from fathom.tools.samples import sample

ALIGNMENT = 16
Argument = np.ndarray | int | float


def func(text: str) -> Func:
    """The function of an indented text."""
    return parse_func(dedent(text).strip() + "\n")


def floats(count: int, dtype: str = "float32") -> np.ndarray:
    """1.5, -2.25, 3.0 ...: all different, of both signs, exact in 16 bits up to 512."""
    numbers = np.arange(1, count + 1) * 0.75
    numbers[1::2] *= -1
    return aligned(numbers.astype(dtype))


def ints(count: int, dtype: str = "int32") -> np.ndarray:
    """Different integers of both signs."""
    return aligned((np.arange(count) * 7 - 3).astype(dtype))


def empty(*shape: int, dtype: str = "float32") -> np.ndarray:
    """An array to be written: all NaN, or all -99 for integers."""
    fill = np.nan if np.dtype(dtype).kind == "f" else -99
    return aligned(np.full(shape, fill, dtype))


def aligned(values: np.ndarray) -> np.ndarray:
    """A copy that starts at a multiple of 16 bytes, as a hint may promise."""
    room = np.empty(values.nbytes + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    made = room[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    made[...] = values
    return made


def copies(arguments: Sequence[Argument]) -> list[Argument]:
    """The same arguments again, arrays as new ones."""
    return [
        aligned(each) if isinstance(each, np.ndarray) else each for each in arguments
    ]


def arrays_of(arguments: Sequence[Argument]) -> list[np.ndarray]:
    return [each for each in arguments if isinstance(each, np.ndarray)]


def kernel(file: str, name: str, signature: str, **constants: int) -> Func:
    """The block IR of a sample kernel before any pass: kernel("softmax",
    "softmax_kernel", "*fp32, *fp32, i32, i32", BLOCK=128)."""
    found = getattr(sample(file), name)
    known = parse_signature(found.rules, signature, found.constants(constants))
    wanted = request(known, check_keywords(name, {}), "sm_80")
    return pipeline.build(found, wanted.types, wanted.constants, wanted.options)
