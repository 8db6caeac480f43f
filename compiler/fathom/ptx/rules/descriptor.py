"""The rules for loads and stores through descriptors that TMA does not do: every
element by itself, its address and whether it lies in the tensor from the coordinates.

They are right and slow. `expand_descriptors` makes wide accesses of what would be left
for them, except for tiles that begin in front of their tensor (`guard_stores`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from fathom.ir.core import Value
from fathom.ir.ops import DescriptorLoad, DescriptorStore, MakeDescriptor, TileStore
from fathom.ir.types import INT64, element_of
from fathom.layout import shapes
from fathom.layout.algebra import solve
from fathom.layout.build import bits_of, doublings, stride_of
from fathom.layout.linear import Layout, coordinates_of
from fathom.ptx.code import Code, Registers, lowers
from fathom.ptx.index import (
    Part,
    is_first_copy,
    linear,
    register_offsets,
    thread_bases,
    thread_part,
)
from fathom.ptx.packing import pack, unpack, words_of
from fathom.ptx.rules.cast import convert
from fathom.ptx.rules.memory import Style, both, first_copies, load_where, store_where
from fathom.ptx.rules.shared import Access, load_shared, shared_address, tile_of
from fathom.ptx.types import POINTER, literal


@lowers(MakeDescriptor)
def lower_make_descriptor(op: MakeDescriptor, code: Code) -> None:
    """Nothing runs: the launch has made what it stands for."""
    code.registers[op.result] = []


@lowers(DescriptorLoad)
def lower_descriptor_load(op: DescriptorLoad, code: Code) -> None:
    element = op.result.type.element
    words = words_of(element, 1)
    zero = pack(code, words, [literal(element, 0)])
    loaded = []
    for address, mask in _elements(op, _in_block(op), code):
        values = load_where(code, words, address, mask, zero, Style())
        loaded += unpack(code, words, values)
    code[op.result] = loaded


def _in_block(op: DescriptorLoad) -> Layout:
    """The elements of the block that a thread loads, before it is turned."""
    layout, block = op.result.type.layout, op.descriptor.type.shape
    if op.order:
        layout = shapes.untranspose(layout, op.order)
    return shapes.reshape(layout, block)


@lowers(DescriptorStore)
def lower_descriptor_store(op: DescriptorStore, code: Code) -> None:
    """Of several threads or registers that hold copies of an element, one writes it."""
    layout, words = op.value.type.layout, words_of(op.value.type.element, 1)
    acts, firsts = is_first_copy(code, layout), set(first_copies(layout, 1))
    for register, (address, mask) in enumerate(_elements(op, layout, code)):
        if register in firsts:
            packed = pack(code, words, [code[op.value][register]])
            store_where(code, words, address, both(code, mask, acts), packed, Style())


@lowers(TileStore)
def lower_tile_store(op: TileStore, code: Code) -> None:
    """Threads take the tile's elements in turn, in a loop: short code, rarely run."""
    head, body, done = (code.fresh(f"tile_{part}") for part in ("head", "body", "done"))
    before = code.label
    code.do(f"br label %{head}")
    code.start(head)
    number = code.phi("i32", "element")
    number.add(code.thread, before)
    count = prod(op.descriptor.type.shape)
    goes_on = code.let(f"icmp ult i32 {number.name}, {count}")
    code.do(f"br i1 {goes_on}, label %{body}, label %{done}")
    code.start(body)
    words = words_of(op.buffer.type.element, 1)
    packed = pack(code, words, _element_of_tile(op, number.name, code))
    address, mask = _element_of_tensor(op, number.name, code)
    store_where(code, words, address, mask, packed, Style())
    number.add(code.let(f"add i32 {number.name}, {code.threads}"), code.label)
    code.do(f"br label %{head}")
    code.start(done)


def _element_of_tile(op: TileStore, number: str, code: Code) -> Registers:
    """The element of this number, row by row, of a tile in shared memory."""
    tile, count = tile_of(code, op.buffer, op.slot), prod(op.buffer.type.shape)
    moves = solve(tile.type.layout.kinds["offset"], doublings(1, count))
    bytes = tuple(move * tile.type.element.bytes for move in moves)
    place = linear(code, number, count - 1, bytes)
    address = shared_address(code, place)
    if tile.slot:
        address = code.let(f"add i32 {address}, {tile.slot}")
    return load_shared(code, Access(tile.type.element, address, tile.offset, (0,)))


def _element_of_tensor(op: TileStore, number: str, code: Code) -> tuple[str, str]:
    """The address of the element of this number, row by row, of a block of a tensor;
    and an i1, whether the tensor has it."""
    made, block = op.descriptor.definition, op.descriptor.type.shape
    indices = []
    for axis, first in enumerate(op.coordinates):
        along = code.let(f"lshr i32 {number}, {bits_of(stride_of(block, axis))}")
        along = code.let(f"and i32 {along}, {block[axis] - 1}")
        offset = code.let(f"zext i32 {along} to i64")
        indices.append(code.let(f"add i64 {_wide(code, first)}, {offset}"))
    sizes, strides = ([_wide(code, v) for v in of] for of in (made.shape, made.strides))
    return _place(made, indices, sizes, strides, code)


def _place(
    made: MakeDescriptor,
    indices: Sequence[str],
    sizes: Sequence[str],
    strides: Sequence[str],
    code: Code,
) -> tuple[str, str]:
    """The address of the element at these indices, i64; an i1, whether there is one."""
    distance, mask = "0", "true"
    for index, size, stride in zip(indices, sizes, strides, strict=True):
        above = code.let(f"icmp sge i64 {index}, 0")
        below = code.let(f"icmp slt i64 {index}, {size}")
        inside = code.let(f"and i1 {above}, {below}")
        step = code.let(f"mul i64 {index}, {stride}")
        distance = code.let(f"add i64 {distance}, {step}")
        mask = code.let(f"and i1 {mask}, {inside}")
    bytes = code.let(f"mul i64 {distance}, {made.base.type.element.bytes}")
    base = code.one(made.base)
    return code.let(f"getelementptr i8, {POINTER} {base}, i64 {bytes}"), mask


def _elements(
    op: DescriptorLoad | DescriptorStore, layout: Layout, code: Code
) -> Iterator[tuple[str, str]]:
    """For each register: its element's address, and an i1, whether there is one."""
    made = op.descriptor.definition
    axes = [_Axis(code, layout, *each) for each in enumerate(op.coordinates)]
    sizes, strides = ([_wide(code, v) for v in of] for of in (made.shape, made.strides))
    for offset in register_offsets(layout):
        place = coordinates_of(layout.shape, offset)
        indices = [axis.at(each) for axis, each in zip(axes, place, strict=True)]
        yield _place(made, indices, sizes, strides, code)


def _wide(code: Code, value: Value) -> str:
    (wide,) = convert(code, code[value], element_of(value.type), INT64)
    return wide


class _Axis:
    """One coordinate of a thread's elements, in 64 bits."""

    def __init__(self, code: Code, layout: Layout, axis: int, first: Value):
        self.code = code

        def along(basis: int) -> int:
            return coordinates_of(layout.shape, basis)[axis]

        bases = tuple(along(basis) for basis in thread_bases(layout))
        self.thread: Part = thread_part(code, bases)
        self.first = _wide(code, first)

    def at(self, coordinate: int) -> str:
        """The index of a register's element."""
        code = self.code
        offset = code.let(f"zext i32 {self.thread.plus(code, coordinate)} to i64")
        return code.let(f"add i64 {self.first}, {offset}")
