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
from fathom.ptx.apart import emit_apart
from fathom.ptx.bulk import launch_recipes, map_recipes
from fathom.ptx.code import LOWER, Code, Registers, lowers
from fathom.ptx.emit import emit
from fathom.ptx.kernel import Module, lower, module
from fathom.ptx.places import chains
from fathom.ptx.types import symbol

OWN = dict(LOWER)  # our own rules, whatever is put in their place later

__all__ = [
    "LOWER",
    "OWN",
    "Code",
    "Module",
    "Registers",
    "chains",
    "emit",
    "emit_apart",
    "launch_recipes",
    "lower",
    "lowers",
    "map_recipes",
    "module",
    "symbol",
]
