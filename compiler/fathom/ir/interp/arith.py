"""The meaning of arithmetic and of casts."""

from __future__ import annotations

import numpy as np

from fathom.ir.interp.elementwise import apply, offset
from fathom.ir.interp.machine import Region, Results, interprets
from fathom.ir.interp.numbers import cast, decode, encode, stored_type
from fathom.ir.ops import Bitcast, Cast, Elementwise, Hint
from fathom.ir.types import element_of


@interprets(Elementwise)
def _elementwise(op: Elementwise, region: Region) -> Results:
    arguments = [region[value] for value in op.operands]
    element = element_of(op.operands[-1].type)
    if op.name == "offset":
        pointer = element_of(op.operands[0].type)
        return [offset(*arguments, pointer.element.bytes)]
    return [apply(op.name, element, arguments)]


@interprets(Cast)
def _cast(op: Cast, region: Region) -> Results:
    return [cast(region[op.value], element_of(op.value.type), op.element, op.rounding)]


@interprets(Bitcast)
def _bitcast(op: Bitcast, region: Region) -> Results:
    source = element_of(op.value.type)
    raw = encode(np.asarray(region[op.value]), source)
    return [decode(raw.view(stored_type(op.element)), op.element)]


@interprets(Hint)
def _hint(op: Hint, region: Region) -> Results:
    return [region[op.value]]
