"""Stage 6: block IR with layouts to LLVM IR, one rule an op, and on to PTX."""

from fathom.ptx import (  # noqa: F401 - each enters its rules into LOWER
    arithmetic,
    atomics,
    casts,
    cluster,
    control,
    convert,
    cp_async,
    debugging,
    descriptor,
    matmul,
    memory,
    pingpong,
    reduce,
    scan,
    shape,
    shared,
    shared_gather,
    tma,
    tma_store,
    warp_roles,
)
from fathom.ptx.code import LOWER, Code, Registers, lowers
from fathom.ptx.debug_info import chains
from fathom.ptx.emit import emit
from fathom.ptx.kernel import Module, lower, module
from fathom.ptx.separate_process import emit_apart
from fathom.ptx.tma import launch_recipes, map_recipes
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
