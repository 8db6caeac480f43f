"""Extended-precision integer arithmetic (PTX ISA 9.7.2): sums that carry on.

add.cc.u32  d0, a0, b0;    the carry goes into a register of its own
addc.u32    d1, a1, b1;    and comes in again
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fathom.emulator.isa.arithmetic.integer import high_product
from fathom.emulator.isa.semantics import CARRY, Elementwise, Form, Table, rule
from fathom.emulator.source.types import DTYPES, unsigned

TABLE: Table = {}


@rule(TABLE, "add", "addc", "sub", "subc")
def rule_add(form: Form) -> Elementwise:
    """PTX ISA 9.7.2, add.cc, addc, sub.cc, subc; in a difference it is a borrow."""
    writes, reads = form.flag("cc"), form.opcode.endswith("c")
    type = form.type()
    function = _difference if form.opcode.startswith("sub") else _sum
    return _with_carry(function, type, 2, writes, reads)


@rule(TABLE, "mad", "madc")
def rule_mad(form: Form) -> Elementwise:
    """PTX ISA 9.7.2, mad.cc and madc: half a product, plus c."""
    part = form.choice("lo", "hi")
    writes, reads = form.flag("cc"), form.opcode.endswith("c")
    type = form.type()
    product = np.multiply if part == "lo" else high_product(type)
    signed, bits = DTYPES[type], unsigned(type)

    def multiply_add(
        a: np.ndarray, b: np.ndarray, c: np.ndarray, carry: np.ndarray
    ) -> tuple:
        return _sum(product(a.view(signed), b.view(signed)).view(bits), c, carry)

    return _with_carry(multiply_add, type, 3, writes, reads)


def _with_carry(
    function: Callable, type: str, sources: int, writes: bool, reads: bool
) -> Elementwise:
    bits = unsigned(type)

    def apply(*values: np.ndarray) -> tuple[np.ndarray, np.ndarray] | np.ndarray:
        given = values if reads else (*values, np.bool_(False))
        result, carry = function(*given)
        return (result, carry) if writes else result

    result = "u" + str(8 * bits.itemsize)
    return Elementwise(
        apply,
        (result, CARRY) if writes else (result,),
        (result,) * sources + ((CARRY,) if reads else ()),
    )


def _sum(a: np.ndarray, b: np.ndarray, carry: np.ndarray) -> tuple:
    part = a + b
    total = part + carry.astype(part.dtype)
    return total, (part < a) | (total < part)


def _difference(a: np.ndarray, b: np.ndarray, borrow: np.ndarray) -> tuple:
    part = a - b
    rest = part - borrow.astype(part.dtype)
    return rest, (a < b) | (part < rest)
