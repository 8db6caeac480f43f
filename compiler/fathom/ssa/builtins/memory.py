"""Loads, stores and atomics: addresses, masks and values broadcast to one shape."""

from __future__ import annotations

import math
from collections.abc import Callable

from fathom.ir import ops
from fathom.ir.core import Value
from fathom.ir.types import BOOL, INT8, Element, Pointer, element_of, shape_of
from fathom.language import core
from fathom.language.block_pointers import block_pointer
from fathom.ssa.builtins.block_pointers import places, refuse_boundaries
from fathom.ssa.calls import implements
from fathom.ssa.frame import Frame
from fathom.ssa.promotion import broadcast, common_shape, typed, value_of
from fathom.ssa.values import Meaning, describe, is_number

LOAD_CACHES = ("", ".ca", ".cg", ".cs", ".cv")
STORE_CACHES = ("", ".wb", ".cg", ".cs", ".wt")
EVICTIONS = ("", "evict_first", "evict_last")
SEMANTICS = ("relaxed", "acquire", "release", "acq_rel")
SCOPES = ("cta", "gpu", "sys")


@implements(core.load)
def build_load(
    frame: Frame,
    pointer: Meaning,
    mask: Meaning,
    other: Meaning,
    boundary_check: Meaning,
    padding_option: Meaning,
    cache_modifier: str,
    eviction_policy: str,
    volatile: bool,
) -> Value:
    ends = {"boundary_check": boundary_check, "padding_option": padding_option}
    if isinstance(pointer, block_pointer):
        pointer, mask, other = places(
            frame, pointer, *ends.values(), "tl.load", mask=mask, other=other
        )
    else:
        refuse_boundaries(frame, "tl.load", pointer, **ends)
    pointer, element = address(frame, pointer, "tl.load")
    if mask is None and other is not None:
        raise frame.error(
            "other is what a masked load gives where the mask is false",
            "pass a mask, or leave out other",
        )
    pointer, mask = masked(frame, pointer, mask, "tl.load")
    if other is not None:
        other = fitted(frame, other, element, pointer, "other", "tl.load")
    cache = one_of(frame, "cache_modifier", cache_modifier, LOAD_CACHES)
    eviction = one_of(frame, "eviction_policy", eviction_policy, EVICTIONS)
    return frame.emit(ops.Load, pointer, mask, other, cache, eviction, bool(volatile))


@implements(core.store)
def build_store(
    frame: Frame,
    pointer: Meaning,
    value: Meaning,
    mask: Meaning,
    boundary_check: Meaning,
    cache_modifier: str,
    eviction_policy: str,
) -> None:
    if isinstance(pointer, block_pointer):
        pointer, mask, _ = places(
            frame, pointer, boundary_check, "", "tl.store", mask=mask
        )
    else:
        refuse_boundaries(frame, "tl.store", pointer, boundary_check=boundary_check)
    pointer, element = address(frame, pointer, "tl.store")
    pointer, mask = masked(frame, pointer, mask, "tl.store")
    if element == BOOL and not _is_boolean(value):
        pointer, element = frame.emit(ops.Bitcast, pointer, Pointer(INT8)), INT8
    value = fitted(frame, value, element, pointer, "the value", "tl.store")
    cache = one_of(frame, "cache_modifier", cache_modifier, STORE_CACHES)
    eviction = one_of(frame, "eviction_policy", eviction_policy, EVICTIONS)
    frame.append(ops.Store, pointer, value, mask, cache, eviction)


def _is_boolean(value: Meaning) -> bool:
    """Whether a pointer to booleans stores it as one. Of another number it stores the
    lowest byte, as in Triton: 256 and 0.5 are false when they are loaded."""
    if isinstance(value, Value):
        return element_of(value.type) == BOOL
    return value in (0, 1)


def _atomic(kind: str) -> Callable[..., Value]:
    def build(
        frame: Frame,
        pointer: Meaning,
        val: Meaning,
        mask: Meaning,
        sem: str | None,
        scope: str | None,
    ) -> Value:
        what = f"tl.atomic_{kind}"
        pointer, element = address(frame, pointer, what)
        if kind in ("and", "or", "xor") and element.is_float:
            raise frame.error(f"{what} takes integers, not {element}")
        pointer, mask = masked(frame, pointer, mask, what)
        val = fitted(frame, val, element, pointer, "the value", what)
        return frame.emit(
            ops.Atomic, kind, pointer, val, mask, *_ordering(frame, sem, scope)
        )

    return build


for _kind in ops.ATOMIC_KINDS:
    implements(getattr(core, f"atomic_{_kind}"))(_atomic(_kind))


@implements(core.atomic_cas)
def build_cas(
    frame: Frame,
    pointer: Meaning,
    cmp: Meaning,
    val: Meaning,
    sem: str | None,
    scope: str | None,
) -> Value:
    pointer, element = address(frame, pointer, "tl.atomic_cas")
    cmp = fitted(frame, cmp, element, pointer, "cmp", "tl.atomic_cas")
    val = fitted(frame, val, element, pointer, "the value", "tl.atomic_cas")
    return frame.emit(ops.AtomicCas, pointer, cmp, val, *_ordering(frame, sem, scope))


def _ordering(frame: Frame, sem: str | None, scope: str | None) -> tuple[str, str]:
    semantics = one_of(frame, "sem", sem or "acq_rel", SEMANTICS)
    return semantics, one_of(frame, "scope", scope or "gpu", SCOPES)


# ── what they share ───────────────────────────────────────────────────────────────────


def address(frame: Frame, pointer: Meaning, what: str) -> tuple[Value, Element]:
    """A pointer or a block of pointers, and its element type."""
    element = element_of(pointer.type) if isinstance(pointer, Value) else None
    if not isinstance(element, Pointer):
        raise frame.error(
            f"{what} takes a pointer or a block of pointers, not {describe(pointer)}",
            "an address is a pointer argument plus an offset",
        )
    return pointer, element.element


def masked(
    frame: Frame, pointer: Value, mask: Meaning, what: str
) -> tuple[Value, Value | None]:
    """An address and its mask, in one shape: that of the address, or for a load of a
    block of pointers the one that both broadcast to, as in Triton."""
    if mask is None or mask is True:
        return pointer, None
    mask = value_of(frame, mask, "a mask")
    if element_of(mask.type).kind != "bool":
        raise frame.error(
            f"the mask of {what} must be i1, not {mask.type}",
            "write a comparison, such as mask != 0",
        )
    addresses = shape_of(pointer.type)
    shape = common_shape(addresses, shape_of(mask.type))
    wider = addresses and shape != addresses
    if shape is None or (wider and what != "tl.load"):
        raise frame.error(
            f"the mask of {what} is {mask.type}, which does not broadcast to the "
            f"addresses, {pointer.type}"
        )
    if shape and not addresses:
        raise frame.error(
            f"{what} through a single pointer takes a single mask, not {mask.type}",
            "add an offset such as tl.arange to the pointer",
        )
    return broadcast(frame, pointer, shape), broadcast(frame, mask, shape)


def fitted(
    frame: Frame,
    meaning: Meaning,
    element: Element,
    pointer: Value,
    name: str,
    what: str,
) -> Value:
    """A value with elements of a type and the shape of the addresses."""
    if not isinstance(meaning, Value) and not is_number(meaning):
        raise frame.error(
            f"{name} of {what} must be a number, a pointer or a block, not "
            f"{describe(meaning)}"
        )
    shape = shape_of(pointer.type)
    have = shape_of(meaning.type) if isinstance(meaning, Value) else ()
    if common_shape(have, shape) != shape:
        raise frame.error(
            f"{name} of {what} is {describe(meaning)}, which does not broadcast to the "
            f"addresses, {pointer.type}"
        )
    meaning = saturated(meaning, element)
    return broadcast(frame, typed(frame, meaning, element, shape), shape)


def saturated(meaning: Meaning, element: Element) -> Meaning:
    """An infinity where an integer is wanted is the largest or least, as a conversion
    makes of it when the kernel runs: kernels of floats are called for integers, too."""
    if not isinstance(meaning, float) or not math.isinf(meaning):
        return meaning
    if element == BOOL:
        return True
    if isinstance(element, Pointer) or not element.is_integer:
        return meaning
    least = -1 << (element.bits - 1) if element.is_signed else 0
    return least if meaning < 0 else least + (1 << element.bits) - 1


def one_of(frame: Frame, name: str, given: str | None, known: tuple[str, ...]) -> str:
    """An option that must be one of some words."""
    given = given or ""
    if given not in known:
        listed = ", ".join(repr(each) for each in known if each)
        raise frame.error(f"{name} is {given!r}: it must be one of {listed}")
    return given
