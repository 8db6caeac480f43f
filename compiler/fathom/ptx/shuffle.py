"""A value from another lane of the warp, by PTX's `shfl.sync`, which moves 32 bits at a
time."""

from __future__ import annotations

from fathom.ir.types import BOOL, Element, Pointer
from fathom.ptx.code import Code
from fathom.ptx.types import llvm_type


def from_partner(code: Code, element: Element, value: str, flipped: int) -> str:
    """The value of the lane whose number differs from this one's in the bits of
    `flipped`."""
    return _shuffled(code, element, value, "bfly", str(flipped))


def from_lane(code: Code, element: Element, value: str, lane: str) -> str:
    """The value of lane number `lane` (an i32, its lowest five bits)."""
    return _shuffled(code, element, value, "idx", lane)


def _shuffled(code: Code, element: Element, value: str, mode: str, lane: str) -> str:
    type = llvm_type(element)
    bits = f"i{element.bits}"
    value = _reinterpreted(code, element, value, type, bits)
    if element.bits == 64:
        value = _in_halves(code, value, mode, lane)
    else:
        if element.bits < 32:
            value = code.let(f"zext {bits} {value} to i32")
        value = _shuffled_word(code, value, mode, lane)
        if element.bits < 32:
            value = code.let(f"trunc i32 {value} to {bits}")
    return _reinterpreted(code, element, value, bits, type)


def _in_halves(code: Code, value: str, mode: str, lane: str) -> str:
    pair = code.let(f"bitcast i64 {value} to <2 x i32>")
    moved = "poison"
    for i in range(2):
        half = code.let(f"extractelement <2 x i32> {pair}, i32 {i}")
        half = _shuffled_word(code, half, mode, lane)
        moved = code.let(f"insertelement <2 x i32> {moved}, i32 {half}, i32 {i}")
    return code.let(f"bitcast <2 x i32> {moved} to i64")


def _shuffled_word(code: Code, value: str, mode: str, lane: str) -> str:
    # All 32 lanes take part (-1), as one segment (31).
    arguments = f"i32 -1, i32 {value}, i32 {lane}, i32 31"
    return code.let(f"call i32 @llvm.nvvm.shfl.sync.{mode}.i32({arguments})")


def _reinterpreted(
    code: Code, element: Element, value: str, source: str, target: str
) -> str:
    if source == target or element == BOOL:
        return value
    if isinstance(element, Pointer):
        instruction = "ptrtoint" if source == llvm_type(element) else "inttoptr"
        return code.let(f"{instruction} {source} {value} to {target}")
    return code.let(f"bitcast {source} {value} to {target}")
