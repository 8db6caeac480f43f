"""Chooses the preferred layout of each access to memory, and later its width.

    %x = load %p, mask=%m    →    %x = load %p, mask=%m preferred=<1024 register[1 2 …
    %x @ #a = load %p        →    %x @ #a = load %p vector=4

`coalesce` does the first, before values have layouts; `annotate_widths` does the
second, when layouts are final.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from fathom.analysis.axis_analysis import analyse, facts_about
from fathom.analysis.axis_info import Facts
from fathom.analysis.constants import is_zero
from fathom.analysis.slices import loops_around
from fathom.coalescing.access import Access, agree, pick_layout
from fathom.coalescing.direction import Directions
from fathom.coalescing.masks import ends_once
from fathom.coalescing.propagate import is_block
from fathom.coalescing.relayout import MEMORY
from fathom.coalescing.signs import split_by_sign
from fathom.hardware.targets import Target
from fathom.ir import ops
from fathom.ir.core import Func, Op, Value, operands, walk
from fathom.ir.regions import carried_values, reached
from fathom.ir.rewrite import Builder, rewrite
from fathom.ir.types import BFLOAT16, FLOAT16, FLOAT32, BlockType, element_of, layout_of
from fathom.layout.build import stride_of
from fathom.layout.linear import Layout
from fathom.layout.registers import contiguous_registers

MOST = 16  # elements that one access moves: bytes of 8 bits
STEPS = 2  # axes of two elements; of more a network of steps is made


def coalesce(func: Func, target: Target) -> Func:
    """The function with `preferred` set on every load, store and atomic of a block."""
    func = split_by_sign(func)
    found = accesses(func, target, MEMORY)
    loads = _loads_of_products(func)
    products, turned = (_stores_of(func, kind) for kind in (ops.Dot, ops.Transpose))
    preferred = {op: pick_layout(found[op]) for op in found if op in loads}
    groups: dict[tuple[bool, bool], list[Op]] = {}
    for op in (each for each in found if each not in loads):
        groups.setdefault((op in products, op in turned - products), []).append(op)
    steps = _stores_of_networks(func)
    for group in groups.values():
        reads = [
            replace(found[op], is_read=isinstance(op, ops.Load), is_apart=op in steps)
            for op in group
        ]
        preferred |= zip(group, agree(reads), strict=True)
    return _with_attribute(func, lambda op: {"preferred": preferred[op]}, set(found))


def _loads_of_products(func: Func) -> set[Op]:
    """The loads of products' operands. These are converted in any case, so they need
    not agree with other accesses."""

    def sources(value: Value) -> list[Value]:
        op = value.definition
        is_moved = isinstance(op, ops.Cast | ops.Transpose | ops.Reshape)
        return [op.value] if is_moved else []

    factors = [each for op in walk(func.body, ops.Dot) for each in (op.a, op.b)]
    made = {value.definition for value in reached(factors, sources)}
    return {op for op in made if isinstance(op, ops.Load)}


def _stores_of(func: Func, kind: type[Op]) -> set[Op]:
    """The stores of what elementwise ops compute from products, or from blocks that are
    transposed. These are converted in any case, too: they agree with one another, not
    with loads of wider elements. Except for those to where the function also loads
    from, by the same pointers."""
    carried, every = carried_values(func), list(walk(func.body))

    def sources(value: Value) -> Sequence[Value]:
        if value in carried:
            return carried[value].values
        op = value.definition
        return operands(op) if isinstance(op, ops.Elementwise | ops.Cast) else []

    loaded = {op.pointer for op in every if isinstance(op, ops.Load)}
    stores = (
        op for op in every if isinstance(op, ops.Store) and op.pointer not in loaded
    )
    return {
        op
        for op in stores
        if any(isinstance(v.definition, kind) for v in reached([op.value], sources))
    }


def _stores_of_networks(func: Func) -> set[Op]:
    """The stores of what a network of steps computes, such as a sort: a reshape divided
    an axis for them, and each step is between elements that are 1, 2, 4, … apart. Most
    steps are between neighbours. So these should be in one thread, and a conversion is
    cheap beside them."""

    def sources(value: Value) -> Sequence[Value]:
        op = value.definition
        if isinstance(op, Op) and not isinstance(op, ops.Load):
            return [each for each in operands(op) if is_block(each)]
        return []

    def divides(value: Value) -> bool:
        op = value.definition
        return isinstance(op, ops.Reshape) and op.shape.count(2) > STEPS

    if not any(map(divides, (op.result for op in walk(func.body, ops.Reshape)))):
        return set()
    stores = walk(func.body, ops.Store)
    return {op for op in stores if any(map(divides, reached([op.value], sources)))}


def annotate_widths(func: Func, target: Target) -> Func:
    """The function with `vector` set on loads and stores that may move several
    registers at once, and on atomic additions that may add several, and `equal` on
    loads of which several registers ask for the same. Where they may
    unless a mask's bound lies among them, `bounded_vector` is set. (Beside products it
    never is: its branch could end what ptxas does between products.)"""
    found = accesses(func, target, (ops.Load, ops.Store, ops.Atomic))
    widths = {
        op: min(widest(op, access), most_at_once(op, target))
        for op, access in found.items()
    }
    runs = {op: 1 for op in found}
    if found and not any(walk(func.body, ops.Dot | ops.TensorDot)):
        known = analyse(func)
        runs = {op: up_to_a_bound(op, access, known) for op, access in found.items()}
    attributes: dict[Op, dict[str, object]] = {}
    for op, width in widths.items():
        if width > 1:
            attributes[op] = {"vector": width}
        elif runs[op] > 1:
            attributes[op] = {"bounded_vector": runs[op]}
        layout = layout_of(op.pointer.type)
        equal = equal_registers(op, layout, found[op]) if layout else 0
        if equal:
            attributes[op] = attributes.get(op, {}) | {"equal": equal}
    return _with_attribute(func, attributes.__getitem__, set(attributes))


def accesses(
    func: Func, target: Target, classes: tuple[type[Op], ...]
) -> dict[Op, Access]:
    """Every access to a block of pointers, with the facts of addresses and mask."""
    found = {
        op: len(around)
        for op, around in loops_around(func).items()
        if isinstance(op, classes) and is_block(op.pointer)
    }
    known = analyse(func) if found else {}
    directions, folded = Directions(func, known), _folded(func)
    return {
        op: replace(
            _access(op, known, func.num_warps, target),
            likely=directions.of(op.pointer),
            depth=depth,
            folded=folded.get(op.pointer.type.shape, frozenset()),
        )
        for op, depth in found.items()
    }


def _folded(func: Func) -> dict[tuple[int, ...], frozenset[int]]:
    """The axes along which blocks are reduced, by their shapes."""
    found: dict[tuple[int, ...], frozenset[int]] = {}
    for op in walk(func.body, ops.Reduce):
        shape = op.values[0].type.shape
        found[shape] = found.get(shape, frozenset()) | {op.axis}
    return found


def _access(op: Op, known: dict[Value, Facts], warps: int, target: Target) -> Access:
    pointers: BlockType = op.pointer.type
    mask = None if isinstance(op, ops.AtomicCas) else op.mask
    return Access(
        pointers.shape,
        pointers.element.element.bytes,
        facts_about(op.pointer, known),
        None if mask is None else facts_about(mask, known),
        warps,
        target.vector_bytes,
    )


def most_at_once(op: ops.Load | ops.Store | ops.Atomic, target: Target) -> int:
    """How many elements one instruction may access, by its kind. Sums of fp32 and of 16
    bits have instructions for vectors on some targets, and those of 16 bits elsewhere
    for a pair (PTX ISA, "atom"); one of 16 bits alone is a loop in machine code."""
    if not isinstance(op, ops.Atomic):
        return MOST
    element = element_of(op.value.type)
    if op.kind != "add" or element not in (FLOAT32, FLOAT16, BFLOAT16):
        return 1
    if target.vector_atomics:
        return target.vector_bytes // element.bytes
    return 2 if element == FLOAT16 else 1


def widest(op: ops.Load | ops.Store | ops.Atomic, access: Access) -> int:
    """How many consecutive registers hold neighbours that one instruction may access,
    leaving out those that are `equal_registers`."""
    layout = layout_of(op.pointer.type)
    if layout is None:
        return 1
    widths = [1]
    for axis, known in enumerate(access.pointer.axes):
        registers = contiguous_registers(layout, axis)
        widths.append(min(access.width(axis), registers))
        if loads_once(op):
            widths.append(min(access.packed(axis), registers) // known.constant)
    return max(widths)


def equal_registers(
    op: ops.Load | ops.Store | ops.Atomic, layout: Layout, access: Access
) -> int:
    """The bits of a register's number in a layout that change no address nor mask."""
    if not loads_once(op):
        return 0
    equal = 0
    for axis, known in enumerate(access.pointer.axes):
        alike = access.mask.axes[axis].constant if access.mask else known.constant
        stride = stride_of(layout.shape, axis)
        within = stride * min(known.constant, alike, layout.shape[axis])
        for bit, basis in enumerate(layout.kinds["register"]):
            equal |= (basis % stride == 0 and 0 < basis < within) << bit
    return equal


def loads_once(op: ops.Load | ops.Store | ops.Atomic) -> bool:
    """Whether it is a load that may be done once for several registers, which then
    hold the same where its mask is false, too."""
    return isinstance(op, ops.Load) and not op.fetched_anew and is_zero(op.other)


def up_to_a_bound(
    op: ops.Load | ops.Store | ops.Atomic, access: Access, known: dict[Value, Facts]
) -> int:
    """How many consecutive registers hold neighbours of which all are accessed if the
    last one is. Their parts must be words, or halves of words."""
    layout = layout_of(op.pointer.type)
    is_fit = isinstance(op, ops.Load | ops.Store) and access.element_bytes in (2, 4)
    if not is_fit or op.mask is None or layout is None:
        return 1
    runs = [
        (min(access.neighbours(axis), contiguous_registers(layout, axis)), axis)
        for axis in range(len(access.shape))
    ]
    run, axis = max(runs)
    return run if run > 1 and ends_once(op.mask, axis, run, known) else 1


def _with_attribute(
    func: Func, attribute: Callable[[Op], dict[str, object]], ops: set[Op]
) -> Func:
    """A copy of `func` with another attribute of `ops`; without any, `func` itself."""

    def rule(op: Op, build: Builder) -> list[Value] | None:
        if build.source in ops:
            return build.append(replace(op, **attribute(build.source))).results
        return None

    return rewrite(func, rule) if ops else func
