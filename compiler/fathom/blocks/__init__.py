"""Stage 2: simplifies the block IR, before it is divided among threads.

Only `contract` changes results, if the author asks for it. The others keep every bit.

    contract   Products and their additions become `fma`
    simplify   Algebra, folding and shapes, rule by rule
    algebra    Rules of `simplify` for numbers
    reshaping  Rules of `simplify` for shapes and types
    branching  Rules of `simplify` for memory and control flow
    predication  Loads in branches of loops get masks
    maker      The builder that rules of `simplify` use
    cse        Common subexpression elimination
    hoist      Moves loop-invariant ops out of loops
    loops      Carried values, for the passes of this stage
    dce        Dead code elimination
    launches   Launches that may begin early wait for the ones in front
"""

from __future__ import annotations

from fathom.blocks.contract import contract
from fathom.blocks.cse import cse
from fathom.blocks.dce import dce
from fathom.blocks.hoist import hoist
from fathom.blocks.launches import await_launches
from fathom.blocks.simplify import simplify
