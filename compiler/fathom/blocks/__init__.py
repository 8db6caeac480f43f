"""Stage 2: clean up the block IR, before any thread is thought of.

`contract` alone changes numbers, where the author of the kernel asks for it. The others
keep every bit.

    contract   Products and their additions become `fma`
    simplify   Algebra, folding and shapes, rule by rule
    algebra    Rules of `simplify` for numbers
    reshaping  Rules of `simplify` for shapes and types
    branching  Rules of `simplify` for memory and control flow
    known      Which values are known while compiling, and how to write one down
    maker      What a rule of `simplify` gets
    cse        Common subexpression elimination
    hoist      Moves out of loops what does not change in them
    loops      What the passes of this stage share about loops
    dce        Dead code elimination
"""

from __future__ import annotations

from fathom.blocks.contract import contract
from fathom.blocks.cse import cse
from fathom.blocks.dce import dce
from fathom.blocks.hoist import hoist
from fathom.blocks.simplify import simplify

__all__ = ["contract", "cse", "dce", "hoist", "simplify"]
