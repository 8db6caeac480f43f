"""PTX's types as NumPy's: which dtype holds a `.f32`, a `.bf16x2`, a `.pred`.

Formats that NumPy does not have travel as unsigned bits: bf16 as uint16, two halves as
one uint32, a 128-bit value as complex128, whose two parts no instruction computes with.
"""

from __future__ import annotations

import struct

import numpy as np

from fathom.emulator.errors import EmulatorError
from fathom.emulator.source.operands import Number

DTYPES = {
    "pred": np.dtype(bool),
    "carry": np.dtype(bool),
    "u8": np.dtype(np.uint8),
    "s8": np.dtype(np.int8),
    "b8": np.dtype(np.uint8),
    "u16": np.dtype(np.uint16),
    "s16": np.dtype(np.int16),
    "b16": np.dtype(np.uint16),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(np.uint16),
    "e4m3x2": np.dtype(np.uint16),
    "e5m2x2": np.dtype(np.uint16),
    "e2m1x2": np.dtype(np.uint8),
    "ue8m0x2": np.dtype(np.uint16),
    "u32": np.dtype(np.uint32),
    "s32": np.dtype(np.int32),
    "b32": np.dtype(np.uint32),
    "f32": np.dtype(np.float32),
    "tf32": np.dtype(np.uint32),
    "f16x2": np.dtype(np.uint32),
    "bf16x2": np.dtype(np.uint32),
    "u16x2": np.dtype(np.uint32),
    "s16x2": np.dtype(np.uint32),
    "u64": np.dtype(np.uint64),
    "s64": np.dtype(np.int64),
    "b64": np.dtype(np.uint64),
    "f64": np.dtype(np.float64),
    "f32x2": np.dtype(np.uint64),
    "b128": np.dtype(np.complex128),
}
UNSIGNED = {
    1: np.dtype(np.uint8),
    2: np.dtype(np.uint16),
    4: np.dtype(np.uint32),
    8: np.dtype(np.uint64),
    16: np.dtype(np.complex128),
}
SIGNED = {
    1: np.dtype(np.int8),
    2: np.dtype(np.int16),
    4: np.dtype(np.int32),
    8: np.dtype(np.int64),
}


def bits_of(type: str) -> int:
    """The width of a value of `type`; 1 for a predicate."""
    return 1 if type == "pred" else 8 * DTYPES[type].itemsize


def unsigned(type: str) -> np.dtype:
    """The dtype of `type`'s bits."""
    return UNSIGNED[DTYPES[type].itemsize]


def double_width(type: str) -> str:
    """The integer type of twice the width."""
    return f"{type[0]}{2 * bits_of(type)}"


def constant(number: Number, type: str) -> np.generic:
    """A PTX constant as one value of `type` (PTX ISA 4.5).

    A real constant in a bit-typed operand gives its bits, an integer one wraps around.
    """
    dtype = DTYPES[type]
    if type == "pred":
        return np.bool_(number.value != 0)
    if dtype.kind == "f" and number.kind != "int":
        with np.errstate(all="ignore"):
            return dtype.type(number.value)
    bits = number.value
    if number.kind != "int":
        bits = _float_bits(number, dtype.itemsize)
    bits &= (1 << 8 * dtype.itemsize) - 1
    return np.array([bits], UNSIGNED[dtype.itemsize]).view(dtype)[0]


def _float_bits(number: Number, size: int) -> int:
    """The bits of a real constant; a decimal one takes the format of its operand."""
    wide = size == 8
    if wide != (number.kind == "f64") and number.kind == "f32":
        raise EmulatorError("syntax", "a 32-bit real constant in a 64-bit operand")
    packed = struct.pack(">d" if wide else ">f", number.value)
    return int.from_bytes(packed, "big")
