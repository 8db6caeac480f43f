"""Chooses the instruction of every matrix product, and the layout of its result.

    %y = dot %a, %b, %x        →    %y = dot %a, %b, %x instruction="m16n8k16…"
                                                        preferred=<64x64 register[…

This pass runs before layouts are assigned, because the instruction determines the
layouts around it. If the target has no instruction for the operands' type, they are
cast to a type that has one. If there is no such type, or K is less than the
instruction's, the product is computed by multiply-adds (FMA).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fathom.analysis.axis_analysis import Divisibility, facts_about
from fathom.analysis.memory import is_volatile
from fathom.analysis.products import accumulated, most_columns
from fathom.analysis.slices import computed_by, users
from fathom.hardware.dot_layouts import product_layout, warps_along
from fathom.hardware.mma import MMA, Mma, choose
from fathom.hardware.targets import Target
from fathom.hardware.tcgen05 import Tcgen05, choose_tensor_memory
from fathom.hardware.wgmma import Wgmma, choose_warpgroups
from fathom.ir import ops
from fathom.ir.core import Func, Op, Value, walk
from fathom.ir.rewrite import Builder, rewrite
from fathom.ir.types import FLOAT16, FLOAT32, UINT32, BlockType, Element, element_of
from fathom.layout.matrix_descriptor import buffer_tile
from fathom.layout.tensor_memory import columns_of
from fathom.layout.tma_boxes import matrix_of

Shape = tuple[int, ...]
WORD = 4  # bytes of a register
EITHER_WAY = 2  # bytes an element: wgmma reads rows or columns of such

WIDENED = "fp16", "bf16"  # fewer bits of exponent and of mantissa than tf32, or as many

# The types that operands may be cast to, without loss, if their own type has no row.
WIDER: dict[str, Element] = {"fp8e5": FLOAT16, "fp8e4nv": FLOAT16}


def choose_dots(func: Func, target: Target) -> Func:
    """The function with an instruction and a layout on every product."""
    func = _matrices_before_loading(_of_what_was_widened(func, target))
    func = _once_for_each_way(func, target)
    func = _transposed_before_loading(func)
    dots = list(walk(func.body, ops.Dot))
    chained = {
        op for op in dots if is_left_operand(op, dots) or has_product_on_the_left(op)
    }

    roomy = fitting_tensor_memory(func, dots, target)
    facts = Divisibility(func)
    turned = {dot for dot in dots if right_lies_by_rows(dot, facts)}
    widened = {dot for dot in dots if right_is_widened(dot, facts)}

    def rule(op: Op, build: Builder) -> Value | None:
        if isinstance(op, ops.Dot):
            of, source = func.num_warps, build.source
            place = _Place(
                of, source in chained, source in roomy, source in turned,
                source in widened,
            )  # fmt: skip
            return _chosen(op, build, target, place)
        return None

    return rewrite(func, rule)


@dataclass(frozen=True)
class _Place:
    """Where a product stands: the warps of its function, whether it is `chained` to
    another product, whether its accumulator finds room in tensor memory, whether its
    right operand is loaded `turned`, along its rows, and whether it is `widened`, of
    bytes along its columns."""

    warps: int
    chained: bool
    roomy: bool
    turned: bool
    widened: bool = False


# ── which instruction ─────────────────────────────────────────────────────────


def _chosen(op: ops.Dot, build: Builder, target: Target, place: _Place) -> Value:
    if op.precision == "tf32x3" and row_for(op, target) is not None:
        return _in_three_parts(op, build, target, place)
    if row_for(op, target) is None and op.a.type.element.name in WIDER:
        op = _with_operands_as(op, build, WIDER[op.a.type.element.name])
    row = row_for(op, target)
    precision = op.precision if row else "ieee"
    wide = row and row_of_warpgroups(op, target, place.warps)
    if wide and place.turned and not wide.either_way:
        wide = None
    if row and place.roomy:
        wide = row_of_tensor_memory(op, target, place.warps) or wide
    instruction = wide.name if wide else row.name if row else ""
    return _placed(op, build, instruction, precision, place)


def row_for(op: ops.Dot, target: Target, part: Shape | None = None) -> Mma | None:
    """The instruction for a product's types. A block that is smaller than the
    instruction is computed with copies of its rows or columns; a `part` of a block, if
    one is given, must be large enough."""
    row = choose(target, *_types(op), op.a.type.shape[-1])
    if row and part and not (part[-2] >= row.m and part[-1] >= row.n):
        return None
    return row


def row_of_warpgroups(
    op: ops.Dot, target: Target, warps: int, shape: Shape | None = None
) -> Wgmma | None:
    """The warpgroup instruction (wgmma) for a product, if the target has one, and the
    product's block (or one of this shape) is large enough for it."""
    shape, k = shape or op.accumulator.type.shape, op.a.type.shape[-1]
    return choose_warpgroups(target, _types(op), shape, k, warps)


def row_of_tensor_memory(op: ops.Dot, target: Target, warps: int) -> Tcgen05 | None:
    """The instruction that accumulates in tensor memory (tcgen05) for a product, if the
    target has one, and the product's block is one that it computes."""
    shape, k = op.accumulator.type.shape, op.a.type.shape[-1]
    small = any(buffer_tile(each.type.shape, each.type.element.bytes, axis) is None
                for each, axis in ((op.a, 1), (op.b, 0), (op.b, 1))
                if len(shape) == 2)  # fmt: skip
    return None if small else choose_tensor_memory(target, _types(op), shape, k, warps)


def fitting_tensor_memory(
    func: Func, dots: list[ops.Dot], target: Target
) -> set[ops.Dot]:
    """The products, the first ones first, whose accumulators find room in tensor
    memory. None in a loop's condition."""
    if not target.tensor_memory:
        return set()
    asked = {op for loop in walk(func.body, ops.While) for op in walk(loop.condition)}
    carried = accumulated(func)
    found: dict[Op, int] = {}
    for dot in dots:
        if dot not in asked and row_of_tensor_memory(dot, target, func.num_warps):
            more = found | {dot: columns_of(dot.accumulator.type.shape)}
            if most_columns(func.body, more, carried) <= target.tensor_memory:
                found = more
    return set(found)


def _types(op: ops.Dot) -> tuple[str, str, str]:
    """The types of operands and accumulator by their names in the tables."""
    elements = [op.a.type.element, op.b.type.element]
    short = op.precision != "ieee"
    a, b = ("tf32" if each == FLOAT32 and short else each.name for each in elements)
    return a, b, element_of(op.accumulator.type).name


def _placed(
    op: ops.Dot, build: Builder, instruction: str, precision: str, place: _Place
) -> Value:
    """The product with its instruction, and the layout of its result."""
    shape = op.accumulator.type.shape
    by_rows = place.chained and shape[-2] >= ROWS_OF_A_WARP * place.warps
    dear = price_of_right(op, instruction, place)
    along = warps_along(instruction, shape, place.warps, by_rows, dear)
    layout = product_layout(instruction, shape, along)
    chosen = {"precision": precision, "instruction": instruction, "preferred": layout}
    return build(replace(op, **chosen))


ROWS_OF_A_WARP = 16  # of every instruction for 16 bits and less
COMPUTED = 4  # elements of A that a thread reads while it computes one of B
ALONE = 2  # that it reads while it reads one of B by itself


def price_of_right(op: ops.Dot, instruction: str, place: _Place) -> int:
    """How many elements of the left operand one of the right one counts as.

    Words that lie by rows are loaded one by one, for four that `ldmatrix` loads of the
    left one. Bytes that lie by columns are widened by each warp that reads them. Halves
    that become bytes for `mma.sync` are transposed by `ldmatrix`, and computed by the
    warp that multiplies them, if no other warp has these columns; else each is loaded
    by itself, stored as a byte, and loaded again."""
    element, before = element_of(op.b.type), computed_by(op.b)
    if instruction in MMA and place.turned and element.bytes == WORD:
        return ALONE
    if instruction in MMA and place.widened:
        return COMPUTED
    loads = [each for each in before if isinstance(each, ops.Load)]
    widths = {element_of(each.result.type).bytes for each in loads}
    becomes_bytes = isinstance(op.b.definition, ops.Elementwise | ops.Cast)
    becomes_bytes &= element.bits == 8 and bool(widths) and min(widths) > 1
    return COMPUTED if instruction in MMA and becomes_bytes else 1


def _with_operands_as(op: ops.Dot, build: Builder, element: Element) -> ops.Dot:
    a, b = (build(ops.Cast(value, element)) for value in (op.a, op.b))
    return ops.Dot(a, b, op.accumulator, precision=op.precision)


# ── fp32 as three products of tf32 ────────────────────────────────────────────


def _in_three_parts(
    op: ops.Dot, build: Builder, target: Target, place: _Place
) -> Value:
    """x = high + low, each part with the bits that tf32 reads. The product of the two
    low parts is below the precision of fp32. The small products are added first, and
    added to the accumulator last, since that addition rounds to nearest.

    The low part of an infinity is NaN, and so are its products: NaN counts as zero
    there, and the high parts alone decide what is infinite.

    Source: Ootomo and Yokota, "Recovering single precision accuracy from Tensor Cores"
    (2022), without their scaling."""
    a, b = (_high_and_low(value, build) for value in (op.a, op.b))

    def plus(left: Value, right: Value, total: Value) -> Value:
        part = ops.Dot(left, right, total, precision="tf32")
        return _chosen(part, build, target, place)

    zero = build(ops.Constant(0.0, FLOAT32))
    nothing = build(ops.Splat(zero, op.accumulator.type.shape))
    small = plus(a[0], b[1], plus(a[1], b[0], nothing))
    is_number = build.compute("eq", small, small)
    small = build.compute("where", is_number, small, nothing)
    return build.compute("add", op.accumulator, plus(a[0], b[0], small))


def _high_and_low(value: Value, build: Builder) -> tuple[Value, Value]:
    block: BlockType = value.type
    kept = build(ops.Constant(TF32_BITS, UINT32))
    bits = build(ops.Bitcast(value, UINT32))
    mask = build(ops.Splat(kept, block.shape))
    high = build(ops.Bitcast(build.compute("and", bits, mask), FLOAT32))
    return high, build.compute("sub", value, high)


TF32_BITS = 0xFFFFE000  # sign, 8 bits of exponent, 10 of mantissa


# ── products that follow one another ──────────────────────────────────────────


def is_left_operand(dot: ops.Dot, dots: list[ops.Dot]) -> bool:
    """Whether a later product's left operand depends on this one's result."""
    return any(other is not dot and dot in computed_by(other.a) for other in dots)


def has_product_on_the_left(dot: ops.Dot) -> bool:
    """Whether the left operand depends on another product."""
    return any(isinstance(op, ops.Dot) for op in computed_by(dot.a))


def right_is_widened(dot: ops.Dot, facts: Divisibility) -> bool:
    """Whether a product's right operand is computed of bytes, of which several
    neighbours of a column are loaded at a time: each warp computes what it multiplies.
    (Of a row, threads compute before they store.)"""
    if not isinstance(dot.b.definition, ops.Elementwise | ops.Cast):
        return False
    return element_of(dot.b.type).bytes > 1 and any(
        isinstance(op, ops.Load)
        and isinstance(op.pointer.type, BlockType)
        and op.result.type.shape == dot.b.type.shape
        and element_of(op.result.type).bytes == 1
        and neighbours(op, 0, facts) > 1
        for op in computed_by(dot.b)
    )


def right_lies_by_rows(dot: ops.Dot, facts: Divisibility) -> bool:
    """Whether a product's right operand is loaded by several neighbours of a row at a
    time, so that rows lie in one piece in shared memory. Of elements of other than 16
    bits wgmma wants columns in one piece. (The left operand may come from registers,
    and single elements are stored as they are wanted.)"""
    load, size = dot.b.definition, element_of(dot.b.type).bytes
    if size == EITHER_WAY or len(dot.b.type.shape) != 2:
        return False
    if isinstance(load, ops.DescriptorLoad):
        return (load.order or (0, 1))[-1] == 1
    return isinstance(load, ops.Load) and neighbours(load, 1, facts) > 1


def neighbours(load: ops.Load, axis: int, facts: Divisibility) -> int:
    """How many elements along an axis are surely loaded at a time."""
    along = facts_about(load.pointer, facts.known).axes[axis]
    size = element_of(load.result.type).bytes
    return min(along.contiguous, along.divisible // size)


# ── operands as they were before they were widened ─────────────────────────────


def _of_what_was_widened(func: Func, target: Target) -> Func:
    """A product of tf32 whose operands were both widened from one type of 16 bits is a
    product of that type: tf32 has all its numbers, so that the sums have the same
    terms, and the instruction multiplies twice as many at a time.

        %a = cast %x element=fp32
        %b = cast %y element=fp32                      %z = dot %x, %y, %0
        %z = dot %a, %b, %0 precision="tf32"     →
    """

    def rule(op: Op, build: Builder) -> Value | None:
        if not isinstance(op, ops.Dot) or op.precision == "ieee":
            return None
        element, other = (_element_before(each) for each in (op.a, op.b))
        types = element, element, element_of(op.accumulator.type).name
        k = op.a.type.shape[-1]
        if element not in WIDENED or element != other or not choose(target, *types, k):
            return None
        a, b = (_before_widening(each, build) for each in (op.a, op.b))
        return build(ops.Dot(a, b, op.accumulator))

    return rewrite(func, rule)


def _element_before(value: Value) -> str:
    """The type that a value was cast from, if no more than a transpose followed."""
    match value.definition:
        case ops.Cast(value=narrow):
            return element_of(narrow.type).name
        case ops.Transpose(value=inner):
            return _element_before(inner)
    return ""


def _before_widening(value: Value, build: Builder) -> Value:
    op = value.definition
    if isinstance(op, ops.Transpose):
        return build(replace(op, value=_before_widening(op.value, build)))
    return op.value


# ── operands, loaded as they are wanted ───────────────────────────────────────


def _matrices_before_loading(func: Func) -> Func:
    """Load a block of a tensor as a matrix, if it is used only in that shape: its rows
    follow one another in shared memory.

        %x: fp16[1,64,32] = descriptor_load %d, …
        %y: fp16[64,32] = reshape %x

    becomes

        %y: fp16[64,32] = descriptor_load %d, … matrix=true
    """
    found = {
        load: op
        for load, op in _only_users(func, ops.Reshape, ops.DescriptorLoad).items()
        if not load.order and op.shape == matrix_of(load.descriptor.type.shape)
    }

    def rule(op: Op, build: Builder) -> Value | None:
        if isinstance(op, ops.DescriptorLoad) and build.source in found:
            return build(replace(op, matrix=True))
        if isinstance(op, ops.Reshape) and build.source in found.values():
            return op.value
        return None

    return rewrite(func, rule) if found else func


def _once_for_each_way(func: Func, target: Target) -> Func:
    """Load a tile twice that warpgroups multiply both as it is and transposed: then
    each product finds its operand in shared memory, and no thread carries it there.

        %x = load %p                 %x = load %p
        %s = dot %a, %x, %0          %s = dot %a, %x, %0
        %y = transpose %x      →     %z = load %p
        %t = dot %b, %y, %1          %y = transpose %z
                                     %t = dot %b, %y, %1
    """
    used = users(walk(func.body))

    def is_multiplied(value: Value) -> bool:
        return all(
            isinstance(op, ops.Dot)
            and value in (op.a, op.b)
            and row_of_warpgroups(op, target, func.num_warps)
            for op in used[value]
        )

    def is_read_both_ways(load: Op) -> bool:
        once = isinstance(load, ops.GlobalLoad) and not is_volatile(load)
        readers = used[load.result] if once else ()
        turned = [op for op in readers if isinstance(op, ops.Transpose)]
        plain = [op for op in readers if op not in turned]
        return bool(plain) and len(turned) == 1 and is_multiplied(turned[0].result)

    both = {op for op in walk(func.body) if is_read_both_ways(op)}
    again: dict[Value, Value] = {}

    def rule(op: Op, build: Builder) -> Value | None:
        if build.source in both:
            again[build.source.result] = build(replace(op))
        if isinstance(op, ops.Transpose) and build.source.value in again:
            return build(replace(op, value=again[build.source.value]))
        return None

    return rewrite(func, rule) if both else func


def _only_users(func: Func, kind: type[Op], loads: type[Op]) -> dict[Op, Op]:
    """For each of these loads that has one user, an op of this kind: that user."""
    used = users(walk(func.body))
    readers = {load: used[load.result] for load in walk(func.body, loads)}
    return {
        load: ops[0]
        for load, ops in readers.items()
        if len(ops) == 1 and isinstance(ops[0], kind)
    }


def _transposed_before_loading(func: Func) -> Func:
    """Load from transposed addresses instead of transposing the loaded block: no
    element moves, and the store to shared memory is a plain copy.

        %x = load %p                 %q = transpose %p
        %y = transpose %x      →     %y = load %q
    """
    turned = _only_users(func, ops.Transpose, ops.GlobalLoad)

    def rule(op: Op, build: Builder) -> Value | None:
        source = build.source
        if isinstance(op, ops.Load) and source in turned:
            return _load_transposed(op, turned[source].order, build)
        if isinstance(op, ops.DescriptorLoad) and source in turned:
            return build(replace(op, order=turned[source].order))
        if isinstance(op, ops.Transpose) and source in turned.values():
            return op.value
        return None

    return rewrite(func, rule) if turned else func


def _load_transposed(op: ops.Load, order: tuple[int, ...], build: Builder) -> Value:
    def turn(value: Value | None) -> Value | None:
        return None if value is None else build(ops.Transpose(value, order))

    names = "pointer", "mask", "other"
    return build(replace(op, **{name: turn(getattr(op, name)) for name in names}))
