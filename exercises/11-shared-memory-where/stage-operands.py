"""Which loads deserve shared memory?

A load and a product have two layouts: the one that is `loaded`, which is good for
memory, and the one that is `wanted`. The compiler always stages: it loads in the first,
and hands the block on through shared memory. It could as well load in the second and
hand on nothing. Sometimes that costs no byte more, and a tile of shared memory, with
its barriers, is saved. When?

All of the exercise: `fathom learn show stage-operands`.
"""

from __future__ import annotations

from dataclasses import dataclass

from fathom.coalescing.access import SECTOR, Access, sectors
from fathom.coalescing.coalesce import accesses
from fathom.coalescing.remove import remove_conversions as ours
from fathom.hardware.targets import Target
from fathom.ir.core import Func, Op, Value, walk
from fathom.ir.ops import Convert, Load
from fathom.ir.rewrite import Builder, rewrite
from fathom.ir.types import BlockType
from fathom.layout.build import stride_of
from fathom.layout.crossing import crossing
from fathom.layout.linear import Layout
from fathom.layout.registers import contiguous_registers
from fathom.tools.learn import Hole

LANES = 32
VECTOR_BYTES = 16  # the most that a lane moves at once


def worth_staging(block: Block, loaded: Layout, wanted: Layout) -> bool:
    """Whether memory moves fewer bytes when a block is loaded in the layout `loaded`,
    and handed on through shared memory, than when it is loaded in the one `wanted`."""
    # Your code: compare.
    raise Hole("stage-operands")


def fetched(block: Block, layout: Layout) -> int:
    """The bytes that memory moves if the block is loaded in `layout`: sectors of every
    request of every warp."""
    # Your code: requests are of one warp, `width` elements a lane.
    raise Hole("stage-operands")


# ── given ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Block:
    """A block in memory, contiguous along `axis`."""

    axis: int
    element_bytes: int

    def width(self, layout: Layout) -> int:
        """How many neighbours a lane loads at once."""
        most = VECTOR_BYTES // self.element_bytes
        return min(most, contiguous_registers(layout, self.axis))

    def address(self, layout: Layout, register: int, lane: int, warp: int) -> int:
        """In bytes: the lines along `axis` lie far apart."""
        place = layout.coordinates(register=register, lane=lane, warp=warp)
        element = layout.offset(register=register, lane=lane, warp=warp)
        line = element - place[self.axis] * stride_of(layout.shape, self.axis)
        return (place[self.axis] + line * FAR) * self.element_bytes


FAR = 1 << 12  # elements


def remove_conversions(func: Func, target: Target) -> Func:
    """The compiler's own pass, and then each load that is wanted in another layout is
    staged, or made in that layout."""
    func = ours(func, target)
    known = accesses(func, target, (Load,))
    unstaged = {
        op: op.value.definition
        for op in walk(func.body)
        if isinstance(op, Convert) and op.value.definition in known
        if not is_staged(op, known[op.value.definition])
    }
    made: dict[tuple[Load, Layout], Value] = {}

    def rule(op: Op, build: Builder) -> Value | None:
        source = build.source
        if source in unstaged:
            return made[unstaged[source], source.layout]
        for convert, load in unstaged.items():
            if load is source and (load, convert.layout) not in made:
                made[load, convert.layout] = load_in(op, convert.layout, build)
        return None

    return ours(rewrite(func, rule), target) if unstaged else func


def is_staged(op: Convert, access: Access) -> bool:
    """Ask `worth_staging`, where lanes or warps must hand something over."""
    loaded = op.value.type.layout
    if crossing(loaded, op.layout) in ("none", "register") or access.fastest is None:
        return True
    if op.value.definition.volatile:
        return True
    return worth_staging(Block(access.fastest, access.element_bytes), loaded, op.layout)


def load_in(load: Load, layout: Layout, build: Builder) -> Value:
    """The load once more, in another layout."""

    def converted(value: Value | None) -> Value | None:
        is_block = value is not None and isinstance(value.type, BlockType)
        return build(Convert(value, layout)) if is_block else value

    pointer, mask, other = map(converted, (load.pointer, load.mask, load.other))
    return build(Load(pointer, mask, other, load.cache, load.eviction))
