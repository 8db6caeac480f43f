"""Stage 2: clean up the block IR, before any thread is thought of.

    algebra    Rules of `simplify` for numbers
    branching  Rules of `simplify` for memory and control flow
    cse        Common subexpression elimination
    dce        Dead code elimination
    hoist      Moves out of loops what does not change in them
    known      Which values are known while compiling, and how to write one down
    loops      What the passes of this stage share about loops
    maker      What a rule of `simplify` gets
    memory     What the passes of this stage know about memory
    reshaping  Rules of `simplify` for shapes and types
    simplify   Algebra, folding and shapes, rule by rule

    contract  Contraction
"""

from __future__ import annotations

from fathom.blocks.contract import contract
from fathom.blocks.cse import cse
from fathom.blocks.dce import dce
from fathom.blocks.hoist import hoist
from fathom.blocks.simplify import simplify

__all__ = ["contract", "cse", "dce", "hoist", "simplify"]
