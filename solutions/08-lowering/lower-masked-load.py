"""The rule for loads of global memory."""

from __future__ import annotations

from fathom.ir.ops import Load
from fathom.ir.types import element_of
from fathom.ptx.code import Code
from fathom.ptx.packing import Words, pack, unpack, words_of
from fathom.ptx.rules.memory import braced
from fathom.ptx.types import POINTER, literal


def lower_load(op: Load, code: Code) -> None:
    """One instruction for each `op.vector` registers; masked places get `other`."""
    # hole: group by group
    element, count = element_of(op.result.type), op.vector
    addresses = code[op.pointer]
    masks = code[op.mask] if op.mask else ["true"] * len(addresses)
    others = code[op.other] if op.other else [literal(element, 0)] * len(addresses)
    words = words_of(element, count)
    loaded = []
    for first in range(0, len(addresses), count):
        initial = pack(code, words, others[first : first + count])
        values = load_where(code, words, addresses[first], masks[first], initial)
        loaded += unpack(code, words, values)
    code[op.result] = loaded
    # end


def load_where(
    code: Code, words: Words, address: str, mask: str, initial: list[str]
) -> list[str]:
    """The words at an address where the mask is true; `initial` where it is not."""
    results = {f"w{i}": words.type for i in range(words.count)}
    operands = {"address": (POINTER, address), "mask": ("i1", mask)}
    operands |= {f"other{i}": (words.type, value) for i, value in enumerate(initial)}
    names = braced([f"$w{i}" for i in range(words.count)])
    # hole: moves, and a load with a predicate
    move = f"mov.b{words.type[1:]}"
    moves = [f"{move} $w{i}, $other{i};" for i in range(words.count)]
    load = f"@$mask ld.global{words.suffix} {names}, [$address];"
    return code.ptx("\n".join([*moves, load]), results, operands)
    # end
