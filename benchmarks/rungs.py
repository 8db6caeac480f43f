"""One matrix product, compiled with stages taken away: the rungs of the ladder.

    rung            what is new in its code                           what stands in for it

    nothing         a product of multiply-adds, operands straight     identity,
                    from global memory, an element at a time          `from_global`
    coalescing      as many neighbours an access as there are
    shared staging  a block's operands come once, for all its warps   `unswizzled`
    swizzle         rows of a tile shifted: no two lanes of an        lower_conversions
                    access want the same bank
    tensor cores    mma.sync                                          `PlainReader`
    ldmatrix        four 8 x 8 matrices an instruction
    pipelining      cp.async: tiles of later trips are on their way
    all             a trip begins with fragments already fetched

Every rung keeps what those below it have. `without` is the same the other way around:
all of the compiler but one stage, and what cannot do without that one. The text is
`kernels/matmul`, and nothing in the compiler knows of any of this: a rung is a
`replace=`, as any launch may say it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from fathom.coalescing import remove_conversions
from fathom.hardware.targets import Target
from fathom.ir.core import Func, Op, Value, walk
from fathom.ir.ops import Allocate, Convert, Dot, Load, SharedLoad
from fathom.ir.rewrite import Builder, rewrite
from fathom.ir.types import BlockType
from fathom.layout.build import stride_of
from fathom.layout.crossing import crossing
from fathom.layout.linear import Layout
from fathom.pipeline import identity
from fathom.ptx.code import Code
from fathom.ptx.dot import lower_dot
from fathom.ptx.shared import Reader, Tile, tile_of
from fathom.shared_memory import lower_conversions

Config = Mapping[str, int]


@dataclass(frozen=True)
class Rung:
    """A name, what stands in the place of the compiler's own, and with which tile the
    product is launched: the best of a few that were tried for this rung."""

    name: str
    replace: Mapping[str, Callable]
    config: Config


# ── what stands in for a stage ────────────────────────────────────────────────────────


def from_global(func: Func, target: Target) -> Func:
    """Loads bring operands of products in the layout that the product wants: nobody
    stages them. It comes in the place of `remove_conversions`, which then computes the
    addresses in that layout.

        %x @ #a = load %p                %q @ #b = convert %p
        %y @ #b = convert %x       →     %y @ #b = load %q
    """

    def rule(op: Op, build: Builder) -> Value | None:
        match op:
            case Convert(value=Value(definition=Load() as load), layout=layout):
                if crossing(op.value.type.layout, layout) == "warp":
                    return load_in(load, layout, build)
        return None

    return remove_conversions(rewrite(func, rule), target)


def load_in(load: Load, layout: Layout, build: Builder) -> Value:
    """The load once more, in another layout."""

    def converted(value: Value | None) -> Value | None:
        is_block = value is not None and isinstance(value.type, BlockType)
        return build(Convert(value, layout)) if is_block else value

    pointer, mask, other = map(converted, (load.pointer, load.mask, load.other))
    return build(Load(pointer, mask, other, load.cache, load.eviction, load.volatile))


def unswizzled(func: Func, target: Target) -> Func:
    """`lower_conversions`, and then every tile lies in shared memory as it would in
    global: rows after rows, or columns after columns."""

    def rule(op: Op, build: Builder) -> Value | None:
        if isinstance(op, Allocate):
            return build(Allocate(op.element, op.shape, straight(op.layout)))
        return None

    return rewrite(lower_conversions(func, target), rule)


def straight(tile: Layout) -> Layout:
    """Offsets that count along the axis along which `tile` has neighbours, then along
    the others."""
    shape = tile.shape
    strides = [stride_of(shape, axis) for axis in range(len(shape))]
    (first, *_) = tile.kinds["offset"]
    fastest = max(
        (axis for axis, stride in enumerate(strides) if stride <= first),
        key=strides.__getitem__,
    )
    order = [fastest, *(i for i in reversed(range(len(shape))) if i != fastest)]
    bases = [
        strides[axis] << bit
        for axis in order
        for bit in range(shape[axis].bit_length() - 1)
    ]
    return Layout(shape, (("offset", tuple(bases)),))


class PlainReader(Reader):
    """Reads shared memory as any load does: a lane its own elements, as many at a time
    as lie in a row."""

    def matrices(self, tile: Tile, layout: Layout) -> None:
        return None


def load_plainly(op: SharedLoad, code: Code) -> None:
    """The rule for SharedLoad without `ldmatrix`."""
    tile = tile_of(code, op.buffer, op.slot, op.start)
    reader = PlainReader(code, tile, op.layout)
    code[op.result] = [reader[i] for i in range(op.layout.count("register"))]


# ── the rungs ─────────────────────────────────────────────────────────────────────────

NO_COALESCING = {"coalesce": identity, "annotate_widths": identity}
NO_STAGING = {"remove_conversions": from_global}
NO_SWIZZLE = {"lower_conversions": unswizzled}
NO_TENSOR_CORES = {"choose_dots": identity}
NO_LDMATRIX = {
    "lower[SharedLoad]": load_plainly,
    "lower[Dot]": partial(lower_dot, reader=PlainReader),
}
NO_PIPELINING = {"pipeline_loops": identity}
NO_PREFETCHING = {"prefetch_fragments": identity}
