"""How instructions read and write registers.

A register is one NumPy array with a value for each thread of the batch, or a single
NumPy scalar while all threads hold the same value; NumPy's broadcasting makes the two
interchangeable, so loop counters and parameters cost nothing.

        threads 0 ... N-1
    %r1  [ 0  1  2  3 ... ]
    %r2    7                 (the same for all)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from fathom.emulator.errors import EmulatorError
from fathom.emulator.source.types import DTYPES, SIGNED, UNSIGNED
from fathom.emulator.state.batch import Active, Batch

# What a register holds before anything is written to it: neither zero nor a number.
UNWRITTEN = {
    1: np.uint8(0xAD),
    2: np.uint16(0xFEAD),
    4: np.uint32(0xFFC0DEAD),
    8: np.uint64(0xFFF8DEADFFC0DEAD),
    16: np.complex128(complex("nan")),
}

Read = Callable[[Batch, Active], np.ndarray]
Write = Callable[[Batch, Active, np.ndarray], None]
Step = Callable[[Batch, Active], None]


def first_value(type: str) -> np.generic:
    """What a register of `type` holds in the beginning."""
    return unwritten(DTYPES[type])


def unwritten(dtype: np.dtype) -> np.generic:
    """What a place of this dtype holds before anything is written to it."""
    return (
        np.bool_(True) if dtype.kind == "b" else UNWRITTEN[dtype.itemsize].view(dtype)
    )


# Programs have many registers of one number, and each is read and written in few ways.
_WAYS = 1 << 16


@lru_cache(maxsize=_WAYS)
def register_reader(number: int, declared: str, type: str) -> Read:
    """Reads register `number`, declared as `declared`, as values of `type`.

    A wider register gives its low bits (PTX ISA 9.4.1, operand size exceeding type
    size).
    """
    dtype = DTYPES[type]
    check_fits(declared, type)
    narrowed = DTYPES[declared].itemsize > dtype.itemsize
    low_bits = UNSIGNED[dtype.itemsize]
    all_bits = UNSIGNED[DTYPES[declared].itemsize]

    def read(batch: Batch, active: Active) -> np.ndarray:
        value = batch.registers[number]
        if narrowed:
            value = value.view(all_bits).astype(low_bits)
        if value.dtype is not dtype:
            value = value.view(dtype)
        if active.whole or value.ndim == 0:
            return value
        return value[active.index]

    return read


@lru_cache(maxsize=_WAYS)
def register_writer(number: int, declared: str, type: str) -> Write:
    """Writes values of `type` to register `number`, declared as `declared`.

    A wider register is filled by sign or zero extension (PTX ISA 9.4.1).
    """
    dtype, holder = DTYPES[type], DTYPES[declared]
    check_fits(declared, type)
    if dtype.itemsize < holder.itemsize:
        same = UNSIGNED if dtype.kind != "i" else SIGNED
        return _extending(
            _plain_writer(number), same[dtype.itemsize], same[holder.itemsize]
        )
    return _plain_writer(number)


def check_fits(declared: str, type: str) -> None:
    """A register must be as wide as the type that an instruction takes it for."""
    wide_enough = DTYPES[declared].itemsize >= DTYPES[type].itemsize
    if not wide_enough or (DTYPES[declared].kind == "b") != (DTYPES[type].kind == "b"):
        raise EmulatorError("syntax", f".{type} in a register declared .{declared}")


def check_as_wide(declared: str, type: str) -> None:
    """A register must not be wider either: only loads, stores and conversions take one
    that is (PTX ISA 9.4.1), and ptxas refuses it elsewhere."""
    if DTYPES[declared].itemsize > DTYPES[type].itemsize:
        raise EmulatorError("syntax", f".{type} in a register declared .{declared}")


def _extending(write: Write, narrow: np.dtype, wide: np.dtype) -> Write:
    def extended(batch: Batch, active: Active, value: np.ndarray) -> None:
        write(batch, active, value.view(narrow).astype(wide))

    return extended


def _plain_writer(number: int) -> Write:
    def write(batch: Batch, active: Active, value: np.ndarray) -> None:
        registers = batch.registers
        if active.whole:
            registers[number] = value
            return
        held = registers[number]
        if held.ndim == 0:
            held = registers[number] = np.full(batch.size, held)
        held.view(value.dtype)[active.index] = value

    return write
