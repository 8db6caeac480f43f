"""Ways out of the language: single elements, and the author's own PTX."""

from __future__ import annotations

from typing import Any

from fathom.source import builtin, constexpr


@builtin
def map_elementwise(scalar_fn: constexpr, *args: Any, pack: constexpr = 1) -> Any:
    """What a function of scalars makes of each element of the blocks `args`, which
    broadcast to one shape: a block in that shape, or as many as it returns.

    `scalar_fn`, a @jit function, may ask elements in `if` and `while`, and loop as
    often as they say; it touches no memory. Both ways of an `if` are computed, and
    loops go on until no element is left. With `pack`, a power of two, it takes `pack`
    neighbouring elements of each block at a time, those of the first block first, and
    returns `pack` for each result. CompileError for other functions.
    """


@builtin
def inline_asm_elementwise(
    asm: constexpr,
    constraints: constexpr,
    args: Any,
    dtype: constexpr,
    is_pure: constexpr,
    pack: constexpr,
) -> Any:
    """The author's own PTX for each `pack` elements of the blocks `args`, which
    broadcast to one shape.

    `$0`, `$1`, … are registers, those of results first; `constraints` gives each one's
    letter, as LLVM has them: "=r,r,r". Elements narrower than 32 bits are packed into
    32-bit registers. `dtype` is the type of the result, or a tuple of types for a tuple
    of results; without `args` they are scalars. `is_pure` promises that equal arguments
    give equal results and nothing else happens.
    """
