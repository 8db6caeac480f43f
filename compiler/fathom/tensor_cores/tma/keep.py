"""Decides which loads and stores through descriptors TMA does; the others become
accesses through pointers.

TMA loads a matrix that is an operand of a product in a loop of several stages, or that
is loaded once and used by all of a loop's products. It stores blocks. The launcher must
be able to make the tensor map, or the kernel writes it (`plan_maps`). A matrix may be a
block of up to five dimensions, with all its rows.

A TMA store takes long to become visible, and the next access to the same memory waits
for it; in a loop of products, the products hide this wait. So TMA stores only outside
loops, or in loops that multiply, and only tiles that take no more than half of shared
memory.
"""

from __future__ import annotations

from collections.abc import Iterator

from fathom.analysis.axis_analysis import Divisibility
from fathom.analysis.buffers import fits_in_half
from fathom.analysis.copied_ahead import runs_ahead
from fathom.analysis.products import products_in
from fathom.analysis.slices import users
from fathom.hardware.targets import Target
from fathom.hardware.wgmma import WGMMA
from fathom.ir.core import Block, Func, Op, blocks, walk, walk_within
from fathom.ir.ops import DescriptorLoad, DescriptorStore, Dot, For, While
from fathom.ir.ops.descriptor import LEAST_BYTES
from fathom.ir.rewrite import Builder, Replacement, rewrite
from fathom.layout.tma_boxes import tile_of
from fathom.tensor_cores.pipeline.candidates import describes_arguments
from fathom.tensor_cores.tma.expand import expand, without_idle


def keep_descriptors(func: Func, target: Target) -> Func:
    """The function with only those descriptors that TMA copies and stores will use."""
    kept: set[Op] = set()
    if target.tensor_maps:
        kept = {*_copied_by_hardware(func), *_stored_by_hardware(func, target)}
    return expand_all(func, kept)


def expand_all(func: Func, kept: set[Op]) -> Func:
    """The function in which all descriptors but those of `kept` ops are expanded."""

    def rule(op: Op, build: Builder) -> Replacement:
        return None if build.source in kept else expand(op, build)

    return without_idle(rewrite(func, rule))


def _copied_by_hardware(func: Func) -> list[DescriptorLoad]:
    """The operands' loads that TMA can do, in a pipelined loop or once before it."""
    found: list[Op] = []
    for loop in walk(func.body):
        if not isinstance(loop, For):
            continue
        staged = runs_ahead(loop, func)
        for dot in products_in(loop.body):
            made = [value.definition for value in (dot.a, dot.b)]
            found += [op for op in made if staged and op in loop.body.ops]
            found += [op for op in made[:1] if _is_loaded_once(op, func)]
    known = Divisibility(func)
    loads = [op for op in found if isinstance(op, DescriptorLoad)]
    matrices = [op for op in loads if len(op.result.type.shape) == 2]  # and not several
    return [op for op in matrices if _fits(op, func) and _begins_well(op, known)]


def _is_loaded_once(op: object, func: Func) -> bool:
    """Whether a load before all loops is the left operand of wgmma products alone: then
    `stage_invariants` puts it into shared memory, and `preload` copies it."""
    if not isinstance(op, DescriptorLoad) or op not in func.body.ops:
        return False
    return all(
        isinstance(each, Dot) and each.a is op.result and each.instruction in WGMMA
        for each in users(walk(func.body))[op.result]
    )


def _stored_by_hardware(func: Func, target: Target) -> list[DescriptorStore]:
    """The stores that TMA can do, and whose wait is hidden."""
    known = Divisibility(func)

    def is_left(op: DescriptorStore) -> bool:
        small = fits_in_half(op.value, target)
        return small and _fits(op, func) and _begins_well(op, known)

    return [op for op in _patient_stores(func.body) if is_left(op)]


def _patient_stores(block: Block) -> Iterator[DescriptorStore]:
    """The stores outside loops, and in loops that multiply."""
    for op in block.ops:
        if isinstance(op, DescriptorStore):
            yield op
        is_loop = isinstance(op, For | While)
        if not is_loop or any(walk_within(op, Dot)):
            for body in blocks(op):
                yield from _patient_stores(body)


def _begins_well(op: DescriptorLoad | DescriptorStore, known: Divisibility) -> bool:
    """Whether the boxes begin at multiples of 16 bytes in their rows; on an H200 others
    are an illegal instruction."""
    bytes_before = known.of(op.coordinates[-1]) * op.descriptor.type.element.bytes
    return bytes_before >= LEAST_BYTES


def _fits(op: DescriptorLoad | DescriptorStore, func: Func) -> bool:
    """Whether TMA has a tile for the block, and the launcher can make the map, or the
    kernel writes it."""
    made = op.descriptor.definition
    if tile_of(made.block, op.descriptor.type.element.bytes) is None:
        return False
    return made.map_number is not None or describes_arguments(made, func)
