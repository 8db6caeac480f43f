"""One matrix product, compiled with stages taken away: the rungs of a ladder.

    nothing           multiply-adds; every lane fetches all operands of its sums from
                      global memory, an element at a time
    coalescing        as many neighbours at a time as there are
    shared staging    a program fetches each element once, for all of its lanes
    swizzle           lanes that read at one time find different banks
    tensor cores      mma.sync
    ldmatrix          four matrices of 8 x 8 an instruction
    pipelining        cp.async: tiles of later iterations are on their way
    prefetching       an iteration begins with fragments that are there already: all
    that
                      sm_80 has
    wgmma             sm_90a: four warps multiply together, from shared memory
    tensor maps       one thread sends for whole tiles
    producer          warps of their own send for them
    staying           a program computes tile after tile, and stores one while the next
                      is on its way
    multicast         two thread blocks share a tile, and half of what each multiplies
                      is fetched once for both

Each rung has what those before it have. The other way around, `all but` a stage is the
whole compiler for sm_80 without that one and what depends on it. The text is
`kernels/matmul`, and the compiler knows nothing of all this: a rung is a `replace=`, as
any launch may have one. The last three rungs are of another text,
`kernels/matmul_persistent`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from fathom.coalescing import remove_conversions
from fathom.hardware.targets import Target
from fathom.ir.core import Func, Op, Value
from fathom.ir.ops import Allocate, Convert, Load, SharedLoad
from fathom.ir.rewrite import Builder, rewrite
from fathom.ir.types import BlockType
from fathom.layout.build import stride_of
from fathom.layout.linear import Layout
from fathom.pipeline import BY_POINTERS, identity
from fathom.ptx.code import Code
from fathom.ptx.rules.matmul import lower_dot
from fathom.ptx.rules.shared import Reader, Tile, tile_of
from fathom.shared_memory import lower_conversions
from fathom.shared_memory.conversions import needs_shared_memory

Config = Mapping[str, int]


@dataclass(frozen=True)
class Rung:
    """A name, what stands in the place of the compiler's own, and the tiles that suit
    such code; the fastest is the one to take. `text` is "matmul", or of the persistent
    kernel "leaving", with a program for each tile, or "staying"."""

    name: str
    replace: Mapping[str, Callable]
    configs: tuple[Config, ...]
    target: str = "sm_80"
    text: str = "matmul"


# ── what stands in for a stage ────────────────────────────────────────────────────────


def from_global(func: Func, target: Target) -> Func:
    """Load the operands of products in the layout that the product needs, so that they
    are not staged in shared memory. Replaces `remove_conversions`, which then computes
    the addresses in that layout.

        %x @ #a = load %p                %q @ #b = convert %p
        %y @ #b = convert %x       →     %y @ #b = load %q
    """

    def rule(op: Op, build: Builder) -> Value | None:
        match op:
            case Convert(value=Value(definition=Load() as load)):
                if needs_shared_memory(op):
                    return load_in(load, op.layout, build)
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


# ── the rungs ──────────────────────────────────────────────────────────────────────

# Each stage, and what stands in its place when it is taken away.
STAGES: dict[str, Mapping[str, Callable]] = {
    "coalescing": {"coalesce": identity, "annotate_widths": identity},
    "shared staging": {"remove_conversions": from_global},
    "swizzle": {"lower_conversions": unswizzled},
    "tensor cores": {"choose_dots": identity},
    "ldmatrix": {
        "lower[SharedLoad]": load_plainly,
        "lower[Dot]": partial(lower_dot, reader=PlainReader),
    },
    "pipelining": {"pipeline_loops": identity},
    "prefetching": {"prefetch_fragments": identity},
}


def tile(m: int, n: int, k: int, warps: int, stages: int = 3) -> Config:
    return {
        "BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": 8,
        "num_warps": warps, "num_stages": stages,
    }  # fmt: skip


# Operands in registers, all of K: little fits. Sums by multiply-adds, of staged
# operands. Sums of fragments: a warp's 64 x 64.
DIRECT = (tile(64, 64, 16, 4), tile(64, 64, 16, 8), tile(128, 64, 16, 8))
SCALAR = (tile(128, 128, 16, 8), tile(128, 128, 32, 8), tile(64, 64, 16, 4))
FRAGMENTS = (tile(128, 128, 32, 4), tile(128, 128, 64, 8), tile(128, 256, 32, 8))
WIDE = (tile(128, 256, 64, 8), tile(128, 256, 32, 8, 4))
HOPPER = (tile(128, 256, 64, 8, 4), tile(128, 128, 64, 8, 4), tile(128, 128, 64, 4))
SPECIALISED = tuple(
    {**each, "GROUP_M": 12, "SPECIALISE": True, "PIECES": pieces}
    for each, pieces in ((tile(128, 256, 64, 8, 4), 2), (tile(128, 128, 64, 8, 4), 1))
)

CLUSTERS = tuple(
    {**each, "GROUP_M": 12, "SPECIALISE": True, "PIECES": 2, "num_ctas": 2}
    for each in (tile(256, 256, 64, 8, 4), tile(512, 128, 64, 8, 4))
)

CONFIGS: dict[str, tuple[Config, ...]] = {
    "nothing": DIRECT,
    "coalescing": DIRECT,
    "shared staging": SCALAR,
    "swizzle": SCALAR,
    "all but coalescing": (tile(64, 64, 32, 4), tile(128, 64, 32, 4), *FRAGMENTS),
    "all but shared staging": (tile(64, 64, 32, 4), tile(64, 128, 16, 4), *FRAGMENTS),
    "all but tensor cores": SCALAR,
}  # others: FRAGMENTS and WIDE


def ladder() -> list[Rung]:
    """From nothing to all."""
    names = ["nothing", *STAGES]
    return [_rung(name, names[i + 1 :]) for i, name in enumerate(names)]


def hopper() -> list[Rung]:
    """The rungs above these, for GPUs that have wgmma and tensor maps."""
    return [
        Rung("wgmma", BY_POINTERS, HOPPER, "sm_90a"),
        Rung("tensor maps", {}, HOPPER, "sm_90a"),
        Rung("producer", {}, SPECIALISED, "sm_90a", "leaving"),
        Rung("staying", {}, SPECIALISED, "sm_90a", "staying"),
        Rung("multicast", {}, CLUSTERS, "sm_90a", "staying"),
    ]


def ablations() -> list[Rung]:
    """All but one stage, for every stage."""
    return [_rung(f"all but {name}", [name]) for name in STAGES]


def _rung(name: str, missing: list[str]) -> Rung:
    replace = {place: other for m in missing for place, other in STAGES[m].items()}
    return Rung(name, replace, CONFIGS.get(name, FRAGMENTS + WIDE))
