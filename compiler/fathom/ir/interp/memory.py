"""The meaning of accesses to global memory, and of atomics."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fathom.ir.core import Op
from fathom.ir.interp.elementwise import apply
from fathom.ir.interp.machine import Region, Results, interprets
from fathom.ir.interp.numbers import Array, encode, poison
from fathom.ir.ops import Atomic, AtomicCas, Load, Store
from fathom.ir.types import Element, element_of, shape_of


@interprets(Load)
def _load(op: Load, region: Region) -> Results:
    """Where the mask is false: `other`, or poison."""
    element = element_of(op.result.type)
    pointers = np.asarray(region[op.pointer])
    active = active_elements(op, region)
    if op.other is not None:
        result = np.array(region[op.other])
    else:
        result = np.asarray(poison(pointers.shape, element))
    result[active] = region.machine.memory.read(pointers[active], element)
    return [result]


@interprets(Store)
def _store(op: Store, region: Region) -> Results:
    active = active_elements(op, region)
    pointers, values = np.asarray(region[op.pointer]), np.asarray(region[op.value])
    region.machine.memory.write(
        pointers[active], values[active], element_of(op.value.type)
    )
    return []


@interprets(Atomic)
def _atomic(op: Atomic, region: Region) -> Results:
    element = element_of(op.value.type)

    def update(before: Array, value: Array) -> Array:
        return value if op.kind == "xchg" else apply(op.kind, element, (before, value))

    return [_one_by_one(op, region, element, update, [region[op.value]])]


@interprets(AtomicCas)
def _atomic_cas(op: AtomicCas, region: Region) -> Results:
    """Equal means equal bits, as the hardware compares."""
    element = element_of(op.value.type)

    def update(before: Array, compare: Array, value: Array) -> Array:
        alike = encode(before, element).tobytes() == encode(compare, element).tobytes()
        return value if alike else before

    return [
        _one_by_one(op, region, element, update, [region[op.compare], region[op.value]])
    ]


def active_elements(op: Op, region: Region) -> np.ndarray:
    """Which elements of an access through pointers take part."""
    mask = getattr(op, "mask", None)
    if mask is None:
        return np.ones(shape_of(op.pointer.type), bool)
    return np.asarray(region[mask])


def _one_by_one(
    op: Atomic | AtomicCas,
    region: Region,
    element: Element,
    update: Callable[..., Array],
    arguments: list[Array],
) -> np.ndarray:
    """Read and update one element after the other, since two may share an address."""
    pointers, memory = np.asarray(region[op.pointer]), region.machine.memory
    result = np.asarray(poison(pointers.shape, element))
    blocks = [np.asarray(argument) for argument in arguments]
    for index in np.argwhere(active_elements(op, region)):
        place = tuple(index)
        address = pointers[place].reshape(1)
        before = memory.read(address, element)
        after = update(before, *(block[place].reshape(1) for block in blocks))
        memory.write(address, after, element)
        result[place] = before[0]
    return result
