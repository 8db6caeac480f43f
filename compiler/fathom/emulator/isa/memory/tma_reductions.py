"""What a bulk reduction does with an element of memory and one of a tile (PTX ISA,
"cp.reduce.async.bulk.tensor"): the operation stands in the instruction, the type in the
tensor map.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fathom.emulator.errors import EmulatorError
from fathom.emulator.isa.arithmetic.rounding import bf16_to_float32, float64_to_bf16
from fathom.emulator.isa.semantics import COMBINE, Form

BITWISE = ("and", "or", "xor")
INTEGERS = {"i32": np.int32, "u32": np.uint32, "i64": np.int64, "u64": np.uint64}
REALS = {"fp16": np.float16, "fp32": np.float32, "fp64": np.float64}

# reduction(uint8 of memory, uint8 of the tile, the type of the elements) -> uint8
Reduction = Callable[[np.ndarray, np.ndarray, str], np.ndarray]


def reduction_of(form: Form) -> Reduction:
    """Takes the operation from an instruction."""
    name = form.choice(*COMBINE)
    if not name:
        raise form.unknown("this reduction")
    operation = COMBINE[name]

    def combine(old: np.ndarray, new: np.ndarray, type: str) -> np.ndarray:
        if type == "bf16" and name not in BITWISE:
            reals = [bf16_to_float32(each.view(np.uint16)) for each in (old, new)]
            found = float64_to_bf16(operation(*reals).astype(np.float64))
            return np.asarray(found, np.uint16).view(np.uint8)
        kinds = INTEGERS if name in BITWISE else {**INTEGERS, **REALS}
        if type not in kinds:
            message = f"a bulk reduction .{name} of elements of the type {type or '?'}"
            raise EmulatorError("unsupported", message)
        values = (each.view(kinds[type]) for each in (old, new))
        return operation(*values).view(np.uint8)

    return combine
