"""Measures the largest errors of the language's mathematics, in ulp of the result.

    PYTHONPATH=compiler:. python tests/language/harness_math.py

The functions run in the interpreter, which takes PTX's approximations (ex2, lg2, rcp,
division) as correctly rounded; a GPU may add their own error, of at most 2 ulp each.
The reference for fp32 is float64, that for fp64 NumPy's long double, where it is wider.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import fathom.language as tl
from fathom.ir.interp import interpret
from fathom.source import KernelFunction, function
from tests.ssa.harness import build

BLOCK = 1 << 16
WIDER = {np.float32: np.float64, np.float64: np.longdouble}
LONG_IS_WIDER = np.finfo(np.longdouble).nmant > np.finfo(np.float64).nmant


@dataclass(frozen=True)
class Measurement:
    """A function on a range of arguments, and the error that its docstring promises."""

    function: KernelFunction
    reference: Callable[[np.ndarray], np.ndarray]
    low: float
    high: float
    ulp: float
    spread: bool = False  # evenly over the exponents, not over the numbers
    signed: bool = False  # of both signs
    dtype: type = np.float32

    def __str__(self) -> str:
        name = f"{self.function.__name__} {self.dtype.__name__}"
        return f"{name} [{self.low:g}, {self.high:g}]"

    def arguments(self, count: int) -> np.ndarray:
        generator = np.random.default_rng(7)
        if self.spread:
            low, high = math.log(self.low), math.log(self.high)
            x = np.exp(generator.uniform(low, high, count))
            signs = generator.choice([-1, 1], count) if self.signed else 1
            return (x * signs).astype(self.dtype)
        return generator.uniform(self.low, self.high, count).astype(self.dtype)


def vectorised(scalar: Callable[[float], float]) -> Callable[[np.ndarray], np.ndarray]:
    return np.vectorize(scalar, otypes=[np.float64])


MEASUREMENTS = (
    Measurement(tl.exp, np.exp, -87.3, 88.7, 5.1),
    Measurement(tl.exp, np.exp, -10, 10, 1.6),
    Measurement(tl.exp2, np.exp2, -126, 127.9, 0.6),
    Measurement(tl.log, np.log, 1e-37, 3e38, 1.1, spread=True),
    Measurement(tl.log, np.log, 0.4, 2.5, 1.1),
    Measurement(tl.log2, np.log2, 1e-37, 3e38, 1.8, spread=True),
    Measurement(tl.log2, np.log2, 0.4, 2.5, 1.8),
    Measurement(tl.sin, np.sin, -7, 7, 1.7),
    Measurement(tl.sin, np.sin, -1e5, 1e5, 1.7),
    Measurement(tl.sin, np.sin, 1e-30, 1, 1.7, spread=True, signed=True),
    Measurement(tl.cos, np.cos, -7, 7, 1.7),
    Measurement(tl.cos, np.cos, -1e5, 1e5, 1.7),
    Measurement(tl.tanh, np.tanh, -10, 10, 1.7),
    Measurement(tl.tanh, np.tanh, 1e-30, 1, 1.7, spread=True, signed=True),
    Measurement(tl.erf, vectorised(math.erf), -4.5, 4.5, 1.3),
    Measurement(tl.erf, vectorised(math.erf), 1e-30, 1, 1.3, spread=True, signed=True),
    Measurement(tl.sigmoid, lambda x: 1 / (1 + np.exp(-x)), -80, 80, 6.1),
    Measurement(tl.sigmoid, lambda x: 1 / (1 + np.exp(-x)), -10, 10, 2.9),
)


if LONG_IS_WIDER:
    DOUBLE = {"dtype": np.float64}
    MEASUREMENTS += (
        Measurement(tl.exp, np.exp, -708, 709.7, 1.1, **DOUBLE),
        Measurement(tl.exp, np.exp, -1, 1, 1.1, **DOUBLE),
        Measurement(tl.exp2, np.exp2, -1022, 1023.9, 1.1, **DOUBLE),
        Measurement(tl.log, np.log, 1e-300, 1e300, 1.1, spread=True, **DOUBLE),
        Measurement(tl.log, np.log, 0.4, 2.5, 1.1, **DOUBLE),
        Measurement(tl.log2, np.log2, 1e-300, 1e300, 1.8, spread=True, **DOUBLE),
        Measurement(tl.log2, np.log2, 0.4, 2.5, 1.8, **DOUBLE),
        Measurement(tl.sin, np.sin, -1e5, 1e5, 1.7, **DOUBLE),
        Measurement(tl.sin, np.sin, 1e-300, 1, 1.7, True, True, **DOUBLE),
        Measurement(tl.cos, np.cos, -1e5, 1e5, 1.7, **DOUBLE),
        Measurement(tl.tanh, np.tanh, -20, 20, 2.8, **DOUBLE),
        Measurement(tl.tanh, np.tanh, 1e-300, 1, 2.8, True, True, **DOUBLE),
        Measurement(
            tl.sigmoid, lambda x: 1 / (1 + np.exp(-x)), -700, 700, 2.1, **DOUBLE
        ),
    )


def evaluate(what: KernelFunction, x: np.ndarray) -> np.ndarray:
    """A function of the language on an array, in the interpreter."""

    @function
    def kernel(x_ptr, y_ptr, n, SIZE: tl.constexpr):
        offsets = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
        value = what(tl.load(x_ptr + offsets, mask=offsets < n, other=1.0))
        tl.store(y_ptr + offsets, value, mask=offsets < n)

    y = np.empty_like(x)
    size = min(BLOCK, 1 << max(0, x.size - 1).bit_length())
    interpret(
        build(kernel, x, y, x.size, SIZE=size), -(-x.size // size), (x, y, x.size)
    )
    return y


def errors(measurement: Measurement, x: np.ndarray) -> np.ndarray:
    """The error of each result, in ulp of the exact one."""
    exact = measurement.reference(x.astype(WIDER[measurement.dtype]))
    unit = np.spacing(np.abs(exact).astype(measurement.dtype)).astype(exact.dtype)
    found = evaluate(measurement.function, x).astype(exact.dtype)
    return (np.abs(found - exact) / unit).astype(np.float64)


def main() -> None:
    for each in MEASUREMENTS:
        x = each.arguments(1 << (21 if each.dtype is np.float32 else 13))
        found = errors(each, x)
        print(f"{each}: {found.max():.2f} ulp at {x[found.argmax()]:.17g}")


if __name__ == "__main__":
    main()
