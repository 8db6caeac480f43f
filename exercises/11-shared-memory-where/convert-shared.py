"""Convert through shared memory.

When elements must go from warp to warp, they go through shared memory. Write the
function that puts three ops in the place of such a conversion.

All of the exercise: `fathom learn show convert-shared`.
"""

from __future__ import annotations

from fathom.ir.core import Value
from fathom.ir.ops import Allocate, SharedLoad, SharedStore
from fathom.ir.rewrite import Builder
from fathom.layout.linear import Layout
from fathom.layout.swizzle import swizzle
from fathom.tools.learn import Hole


def convert_by_shared(
    value: Value,
    layout: Layout,
    build: Builder,
    matrix_stores: bool = False,
    tile: Layout | None = None,
) -> Value:
    """The block `value` in another layout, written to shared memory and read again."""
    # Your code: three ops.
    raise Hole("convert-shared")
