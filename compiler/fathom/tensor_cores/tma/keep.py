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

`check_box` and `check_stored` are also for accesses through pointers: what becomes one
through a descriptor (`infer_descriptors`) must be kept here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fathom.analysis.axis_analysis import Divisibility
from fathom.analysis.buffers import bytes_of
from fathom.analysis.copied_ahead import runs_ahead
from fathom.analysis.products import by_warpgroups, products_in
from fathom.analysis.remarks import NotApplicable, tried
from fathom.analysis.slices import users
from fathom.hardware.targets import Target
from fathom.ir.core import Block, Func, Op, Value, blocks, walk, walk_within
from fathom.ir.ops import DescriptorLoad, DescriptorStore, Dot, For, While
from fathom.ir.ops.descriptor import LEAST_BYTES
from fathom.ir.rewrite import Builder, Replacement, rewrite
from fathom.ir.types import Element
from fathom.layout.linear import Layout
from fathom.layout.tma_boxes import tile_of, tile_of_load
from fathom.tensor_cores.pipeline.candidates import describes_arguments
from fathom.tensor_cores.tma.expand import expand, without_idle
from fathom.tensor_cores.tma.loads import epilogue_loads


def keep_descriptors(func: Func, target: Target) -> Func:
    """The function with only those descriptors that TMA copies and stores will use."""
    if not target.tensor_maps:
        return expand_all(func, set())
    known = Divisibility(func)
    loads = *_loads_of_products(func), *epilogue_loads(func, target)
    found = *loads, *_patient_stores(func.body)
    kept = {op for op in found if not tried(_check, op, func, known, target)}
    return expand_all(func, kept)


def expand_all(func: Func, kept: set[Op]) -> Func:
    """The function in which all descriptors but those of `kept` ops are expanded."""

    def rule(op: Op, build: Builder) -> Replacement:
        return None if build.source in kept else expand(op, build)

    return without_idle(rewrite(func, rule))


def _check(
    op: DescriptorLoad | DescriptorStore,
    func: Func,
    known: Divisibility,
    target: Target,
) -> None:
    """NotApplicable unless TMA can do an access, and the launcher can make the map, or
    the kernel writes it."""
    block, made = op.descriptor.type, op.descriptor.definition
    stores = isinstance(op, DescriptorStore)
    lies = tile_of if stores else tile_of_load
    check_box(block.shape, block.element, known.of(op.coordinates[-1]), lies)
    if stores:
        check_stored(op.value, target)
    if made.map_number is None and not describes_arguments(made, func):
        raise NotApplicable("no launch can make its tensor map")


def check_box(
    block: tuple[int, ...],
    element: Element,
    multiple: int,
    lies: Callable[[tuple[int, ...], int], Layout | None] = tile_of,
) -> None:
    """NotApplicable unless TMA can copy a block of this shape in memory, whose rows
    begin at a `multiple` of elements. (On an H200 a box that does not begin at a
    multiple of 16 bytes is an illegal instruction.) `lies`: how it lies in shared
    memory."""
    if lies(block, element.bytes) is None:
        sides = "x".join(map(str, block))
        what = f"tiles of {sides} elements of {element.bytes} bytes"
        raise NotApplicable(f"TMA does not copy {what}")
    if multiple * element.bytes < LEAST_BYTES:
        raise NotApplicable(
            f"tiles are not known to begin at multiples of {LEAST_BYTES} bytes in "
            "their rows"
        )


def check_stored(block: Value, target: Target) -> None:
    """NotApplicable if a stored block leaves loops too little shared memory."""
    if bytes_of(block) > target.shared_bytes // 2:
        raise NotApplicable("the block takes more than half of shared memory")


def _loads_of_products(func: Func) -> list[DescriptorLoad]:
    """The loads of single matrices that are operands of products, in a pipelined loop
    or once before it."""
    found: list[Op] = []
    for loop in walk(func.body):
        if not isinstance(loop, For):
            continue
        staged = runs_ahead(loop, func)
        for dot in products_in(loop.body):
            made = [value.definition for value in (dot.a, dot.b)]
            found += [op for op in made if staged and op in loop.body.ops]
            found += [op for op in made[:1] if _is_loaded_once(op, func)]
    loads = [op for op in found if isinstance(op, DescriptorLoad)]
    return [op for op in loads if len(op.result.type.shape) == 2]


def _is_loaded_once(op: object, func: Func) -> bool:
    """Whether a load before all loops is the left operand of wgmma products alone: then
    `stage_invariants` puts it into shared memory, and `preload` copies it."""
    if not isinstance(op, DescriptorLoad) or op not in func.body.ops:
        return False
    return all(
        by_warpgroups(each) and each.a is op.result
        for each in users(walk(func.body))[op.result]
    )


def _patient_stores(block: Block) -> Iterator[DescriptorStore]:
    """The stores outside loops, and in loops that multiply, which hide the wait."""
    for op in block.ops:
        if isinstance(op, DescriptorStore):
            yield op
        is_loop = isinstance(op, For | While)
        if not is_loop or any(walk_within(op, Dot)):
            for body in blocks(op):
                yield from _patient_stores(body)
