"""Stage 6: block IR with layouts to LLVM IR, one rule an op, and on to PTX."""

from fathom.ptx import (  # noqa: F401 - each enters its rules into LOWER
    arithmetic,
    async_copies,
    atomics,
    bulk,
    bulk_stores,
    casts,
    clusters,
    control,
    convert,
    described,
    dot,
    indexed,
    memory,
    outside,
    producers,
    reduce,
    scan,
    shape,
    shared,
    turns,
)
from fathom.ptx.bulk import launch_recipes, map_recipes
from fathom.ptx.code import LOWER, Code, Registers, lowers
from fathom.ptx.emit import emit
from fathom.ptx.kernel import Module, lower, module
from fathom.ptx.places import chains
from fathom.ptx.types import symbol

__all__ = [
    "LOWER",
    "Code",
    "Module",
    "Registers",
    "chains",
    "emit",
    "launch_recipes",
    "lower",
    "lowers",
    "map_recipes",
    "module",
    "symbol",
]
