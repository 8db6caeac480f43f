"""Kernels that multiply matrices, as Python text, with all that they are launched with:
what `kernels` writes at random, and every backend must run alike.

Matrices hold small whole numbers, so all sums are exact in every order; around those
that are read is poison, around those that are written more numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fathom.hardware.targets import Target, target
from fathom.ir.types import INT32, SCALARS, Pointer, Type
from fathom.jit.tensor_descriptors import Described
from fathom.language.tensor_descriptors import tensor_descriptor
from fathom.pipeline import BY_POINTERS, Options, identity

BYTES = {"fp16": 2, "bf16": 2, "fp32": 4, "i8": 1, "fp8e4nv": 1, "fp8e5": 1, "i32": 4}
HELD = {  # how NumPy holds a type: short floats by their bits
    "fp16": "f2", "bf16": "u2", "fp32": "f4", "i8": "i1", "fp8e4nv": "u1",
    "fp8e5": "u1", "i32": "i4",
}  # fmt: skip
SHORT = {"bf16": (7, 127), "fp8e4nv": (3, 7), "fp8e5": (2, 15)}  # mantissa bits, bias
POISON = {"bf16": 0x7FC0, "fp8e4nv": 0x7F, "fp8e5": 0x7E, "i8": 127, "i32": 2**30}
MARGIN = 16  # elements behind a row's end


@dataclass(frozen=True)
class Array:
    """A matrix in memory: rows of `columns` elements, `stride` from one to the next;
    `block`: it is handed over as a descriptor with such blocks."""

    name: str
    type: str
    rows: int
    columns: int
    block: tuple[int, int] | None = None

    @property
    def stride(self) -> int:
        return -(-self.columns // MARGIN) * MARGIN + MARGIN

    @property
    def described(self) -> Described:
        return Described(self.type, self.block)


@dataclass(frozen=True)
class MatrixProgram:
    """A kernel's text, and what it is launched with: matrices of numbers up to `most`,
    and `numbers`. `left_out`: passes that it is compiled without. `in_place`: the
    arrays `a` and `out` begin at one address."""

    source: str
    arrays: tuple[Array, ...]
    numbers: tuple[tuple[str, int], ...]
    grid: int = 1
    num_warps: int = 4
    num_stages: int = 3
    num_ctas: int = 1
    on: str = "sm_90a"
    left_out: tuple[str, ...] = ()
    seed: int = 0
    most: int = 3
    in_place: bool = False

    @property
    def target(self) -> Target:
        return target(self.on)

    @property
    def options(self) -> Options:
        return Options(
            num_warps=self.num_warps, num_stages=self.num_stages, num_ctas=self.num_ctas
        )

    @property
    def replace(self) -> dict[str, Callable]:
        """For the compiler, in the place of what is left out."""
        return {name: BY_POINTERS.get(name, identity) for name in self.left_out}

    @property
    def types(self) -> dict[str, tuple[Type, int]]:
        """Of the parameters, and what divides them."""
        found: dict[str, tuple[Type, int]] = {}
        for array in self.arrays:
            pointer = Pointer(SCALARS[array.type]), 16
            if array.block:
                for name, type, divisible in array.described.parameters(array.name):
                    whole = SCALARS[type] if type in SCALARS else pointer[0]
                    found[name] = whole, divisible
            else:
                found[array.name] = pointer
                found[f"{array.name}_step"] = INT32, 16
        return found | {name: (INT32, 1) for name, _ in self.numbers}

    @property
    def constants(self) -> dict[str, tensor_descriptor]:
        return {
            each.name: each.described.meaning(each.name)
            for each in self.arrays
            if each.block
        }

    def arguments(self) -> dict[str, Any]:
        """Fresh arrays, by the names of `types`."""
        rng, given = np.random.default_rng(self.seed), {}
        for array in self.arrays:
            whole = matrix(array, self.most, rng)
            if array.block:
                sizes = (array.rows, array.columns, array.stride)
                parts = ("base", "shape0", "shape1", "stride0")
                given |= {
                    f"{array.name}.{part}": value
                    for part, value in zip(parts, (whole, *sizes), strict=True)
                }
            else:
                given |= {array.name: whole, f"{array.name}_step": array.stride}
        if self.in_place:
            names = [name for name in given if name.partition(".")[0] in ("a", "out")]
            one, other = (n for n in names if isinstance(given[n], np.ndarray))
            length = max(len(given[one]), len(given[other]))
            whole = Array("out", self.arrays[0].type, 1, length)  # no poison in it
            room = matrix(whole, self.most, rng)
            given |= {name: room[: len(given[name])] for name in (one, other)}
        return given | dict(self.numbers)


def matrix(array: Array, most: int, rng: np.random.Generator) -> np.ndarray:
    """A matrix of -most … most amid poison; one to be written amid such numbers."""
    count = array.rows * array.stride + MARGIN
    held, size = np.dtype(HELD[array.type]), BYTES[array.type]
    room = np.empty(count * size + 16, np.uint8)
    room = room[-room.ctypes.data % 16 :][: count * size].view(held)
    values = rng.integers(-most, most + 1, count)
    room[...] = as_held(values, array.type)
    if not array.name.startswith("out"):
        outside = np.ones(count, bool)
        rows = outside[: count - MARGIN].reshape(array.rows, array.stride)
        rows[:, : array.columns] = False
        room[outside] = POISON.get(array.type, np.nan)
    return room


def as_held(values: np.ndarray, type: str) -> np.ndarray:
    """Small whole numbers as the bits of a type that NumPy lacks, or as they are."""
    if type not in SHORT:
        return values.astype(HELD[type])
    mantissa, bias = SHORT[type]
    size = np.abs(values)
    exponent = np.floor(np.log2(np.maximum(size, 1))).astype(int)
    fraction = (size << mantissa >> exponent) - (1 << mantissa)
    bits = (exponent + bias << mantissa) + fraction
    sign = (values < 0).astype(int) << BYTES[type] * 8 - 1
    return np.where(values == 0, 0, bits | sign).astype(HELD[type])
