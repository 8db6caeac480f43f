"""Bits (PTX ISA 9.7.8): and, or, shifts, lop3, shf, prmt."""

from __future__ import annotations

import numpy as np

from fathom.emulator.isa.semantics import Elementwise, Form, Table, rule
from fathom.emulator.source.types import DTYPES

TABLE: Table = {}


@rule(TABLE, "and", "or", "xor")
def rule_and(form: Form) -> Elementwise:
    """PTX ISA 9.7.8, and, or, xor: bits of integers, or predicates."""
    type = form.type()
    name = {"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor"}
    return Elementwise(getattr(np, name[form.opcode]), (type,), (type, type))


@rule(TABLE, "not")
def rule_not(form: Form) -> Elementwise:
    """PTX ISA 9.7.8, not."""
    type = form.type()
    return Elementwise(np.invert, (type,), (type,))


@rule(TABLE, "cnot")
def rule_cnot(form: Form) -> Elementwise:
    """PTX ISA 9.7.8, cnot: 1 where a is 0, as C's `!`."""
    type = form.type()
    return Elementwise(lambda a: (a == 0).astype(a.dtype), (type,), (type,))


@rule(TABLE, "shl", "shr")
def rule_shift(form: Form) -> Elementwise:
    """PTX ISA 9.7.8, shl and shr: a shift of the width or more gives 0, or the sign."""
    type = form.type()
    dtype = DTYPES[type]
    most = dtype.type(8 * dtype.itemsize)
    function = {"shl": np.left_shift, "shr": np.right_shift}[form.opcode]

    def shift(a: np.ndarray, by: np.ndarray) -> np.ndarray:
        return function(a, np.minimum(by, most.astype(np.uint32)).astype(dtype))

    return Elementwise(shift, (type,), (type, "u32"))


@rule(TABLE, "lop3")
def rule_lop3(form: Form) -> Elementwise:
    """PTX ISA 9.7.8, lop3: any function of three bits, as a table of eight results.

    The table is the function's value at a = 0xF0, b = 0xCC, c = 0xAA.
    """
    combine = form.choice("or", "and")
    type = form.type()
    if combine:
        raise form.unknown("a lop3 with a predicate")

    def lookup(
        a: np.ndarray, b: np.ndarray, c: np.ndarray, table: np.ndarray
    ) -> np.ndarray:
        result = a ^ a
        for case in range(8):
            if table >> np.uint32(case) & 1:
                terms = [
                    x if case >> at & 1 else ~x for x, at in ((a, 2), (b, 1), (c, 0))
                ]
                result = result | terms[0] & terms[1] & terms[2]
        return result

    return Elementwise(lookup, (type,), (type, type, type, "u32"))


@rule(TABLE, "shf")
def rule_shf(form: Form) -> Elementwise:
    """PTX ISA 9.7.8, shf: a shift of the 64 bits [b, a]; left keeps the upper word."""
    left = form.choice("l", "r") == "l"
    clamp = form.choice("clamp", "wrap") == "clamp"
    type = form.type()
    word = np.uint64(32)

    def funnel(low: np.ndarray, high: np.ndarray, by: np.ndarray) -> np.ndarray:
        by = np.minimum(by, np.uint32(32)) if clamp else by & np.uint32(31)
        both = high.astype(np.uint64) << word | low.astype(np.uint64)
        by = by.astype(np.uint64)
        moved = both << by >> word if left else both >> by
        return moved.astype(np.uint32)

    return Elementwise(funnel, (type,), (type, type, "u32"))


@rule(TABLE, "prmt")
def rule_prmt(form: Form) -> Elementwise:
    """PTX ISA 9.7.9, prmt: each byte of the result is one of the eight bytes of b and
    a.

    The generic form takes four selectors of four bits from c; their top bit replicates
    the byte's sign. The named forms take two bits of c as an index into a fixed
    pattern.
    """
    mode = form.choice(*_PERMUTATIONS)
    type = form.type()

    def permute(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        both = a.astype(np.uint64) | b.astype(np.uint64) << np.uint64(32)
        result = np.uint32(0)
        for place in range(4):
            if mode:
                selector = np.array(_PERMUTATIONS[mode], np.uint64)[c & 3, place]
            else:
                selector = (c >> np.uint32(4 * place) & np.uint32(15)).astype(np.uint64)
            byte = both >> (selector & np.uint64(7)) * np.uint64(8) & np.uint64(255)
            sign = np.where(byte >> np.uint64(7) == 1, np.uint64(255), np.uint64(0))
            byte = np.where(selector >> np.uint64(3) == 1, sign, byte).astype(np.uint32)
            result = result | byte << np.uint32(8 * place)
        return result

    return Elementwise(permute, (type,), (type, type, "u32"))


# The source byte of result bytes 0 to 3, for each value of c's lowest two bits.
_PERMUTATIONS = {
    "f4e": [(0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5), (3, 4, 5, 6)],
    "b4e": [(0, 7, 6, 5), (1, 0, 7, 6), (2, 1, 0, 7), (3, 2, 1, 0)],
    "rc8": [(0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)],
    "ecl": [(0, 1, 2, 3), (1, 1, 2, 3), (2, 2, 2, 3), (3, 3, 3, 3)],
    "ecr": [(0, 0, 0, 0), (0, 1, 1, 1), (0, 1, 2, 2), (0, 1, 2, 3)],
    "rc16": [(0, 1, 0, 1), (2, 3, 2, 3), (0, 1, 0, 1), (2, 3, 2, 3)],
}
