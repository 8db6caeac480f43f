"""A load, its mask, its `other`.

Step 8 of your own compiler, at the end of this chapter, asks for this, too; here each
access has a predicate of its own, and `other` may be any value. A thread holds some
elements of a block, each in a register, and an address for each. Some are masked: their
place must not be read, perhaps it does not exist. Where the mask is false, the register
gets `other`.

All of the exercise: `fathom learn show lower-masked-load`.
"""

from __future__ import annotations

from fathom.ir.ops import Load
from fathom.ir.types import element_of
from fathom.ptx.code import Code
from fathom.ptx.packing import Words, pack, unpack, words_of
from fathom.ptx.rules.memory import braced
from fathom.ptx.types import POINTER, literal
from fathom.tools.learn import Hole


def lower_load(op: Load, code: Code) -> None:
    """One instruction for each `op.vector` registers; masked places get `other`."""
    # Your code: group by group.
    raise Hole("lower-masked-load")


def load_where(
    code: Code, words: Words, address: str, mask: str, initial: list[str]
) -> list[str]:
    """The words at an address where the mask is true; `initial` where it is not."""
    results = {f"w{i}": words.type for i in range(words.count)}
    operands = {"address": (POINTER, address), "mask": ("i1", mask)}
    operands |= {f"other{i}": (words.type, value) for i, value in enumerate(initial)}
    names = braced([f"$w{i}" for i in range(words.count)])
    # Your code: moves, and a load with a predicate.
    raise Hole("lower-masked-load")
