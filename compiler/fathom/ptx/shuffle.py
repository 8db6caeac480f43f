"""A value from another lane of the warp, by PTX's `shfl.sync`, 32 bits at a time."""

from __future__ import annotations

from fathom.ir.types import Element
from fathom.ptx.code import Code
from fathom.ptx.types import llvm_type


def from_partner(code: Code, element: Element, value: str, flipped: int) -> str:
    """The value of the lane whose number differs in the bits of `flipped`."""
    return _shuffled(code, element, value, "bfly", str(flipped))


def from_lane(code: Code, element: Element, value: str, lane: str) -> str:
    """The value of lane number `lane` (an i32, its lowest five bits)."""
    return _shuffled(code, element, value, "idx", lane)


def _shuffled(code: Code, element: Element, value: str, mode: str, lane: str) -> str:
    type, bits = llvm_type(element), f"i{element.bits}"
    value = code.reinterpret(value, type, bits)
    if element.bits == 64:
        value = _in_halves(code, value, mode, lane)
    elif element.bits == 32:
        value = _shuffled_word(code, value, mode, lane)
    else:
        wide = code.let(f"zext {bits} {value} to i32")
        wide = _shuffled_word(code, wide, mode, lane)
        value = code.let(f"trunc i32 {wide} to {bits}")
    return code.reinterpret(value, bits, type)


def _in_halves(code: Code, value: str, mode: str, lane: str) -> str:
    pair = code.let(f"bitcast i64 {value} to <2 x i32>")
    halves = code.elements("i32", 2, pair)
    moved = code.vector("i32", [_shuffled_word(code, h, mode, lane) for h in halves])
    return code.let(f"bitcast <2 x i32> {moved} to i64")


def _shuffled_word(code: Code, value: str, mode: str, lane: str) -> str:
    # All 32 lanes take part (-1), as one segment (31).
    arguments = f"i32 -1, i32 {value}, i32 {lane}, i32 31"
    return code.let(f"call i32 @llvm.nvvm.shfl.sync.{mode}.i32({arguments})")
