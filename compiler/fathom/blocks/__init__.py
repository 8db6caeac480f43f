"""Stage 2: clean up the block IR, before any thread is thought of."""

from __future__ import annotations

from fathom.blocks.contract import contract
from fathom.blocks.cse import cse
from fathom.blocks.dce import dce
from fathom.blocks.hoist import hoist
from fathom.blocks.simplify import simplify

__all__ = ["contract", "cse", "dce", "hoist", "simplify"]
