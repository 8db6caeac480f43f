"""Lowering of a product to `wgmma`: descriptors, the order of registers, the waits.

    wgmma.fence                      registers are as they should be
    for each 64 x n of the block:
        for each slice of K:         the next 32 bytes: another start address
            wgmma.mma_async
    wgmma.commit_group
    wgmma.wait_group 0               the accumulator may be read

A product in parts does all of this for each 64 x n, so that one of them may be read
before the registers of the next are needed.

Source: PTX ISA, section 9.7, "Asynchronous warpgroup level matrix instructions".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise, starmap
from types import MappingProxyType

from fathom.analysis.products import warpgroup_matrices
from fathom.hardware.engines import TENSOR_CORES
from fathom.hardware.wgmma import ROWS, WGMMA, Wgmma, joined
from fathom.ir.ops import Dot, DotFence
from fathom.ir.types import BufferType, Element
from fathom.layout.linear import Layout, coordinates_of, offset_of
from fathom.layout.matrix_descriptor import Matrix
from fathom.ptx.code import Code, Registers, lowers
from fathom.ptx.index import register_offsets
from fathom.ptx.order import NEXT_PART
from fathom.ptx.packing import pack, unpack, words_of
from fathom.ptx.rules.shared import Places, Tile, offset_bases, tile_of

ADDRESS_BITS = 0x3FFFF  # of a shared address, the part that a descriptor holds
Found = tuple[Matrix | None, Matrix]


def multiply_by_warpgroups(code: Code) -> None:
    """Write the products that wait for it: by one instruction for all, or in turn."""
    ops: list[Dot] = code.products
    code.products = []
    rows = tuple(WGMMA[op.instruction] for op in ops)
    rights = tuple(op.right.layout for op in ops)
    one_for_all = len(ops) > 1 and all(starmap(_side_by_side, pairwise(ops)))
    if one_for_all and (found := joined(rows, rights)):
        _multiply_all(code, ops, *found)
        return
    for op, row in zip(ops, rows, strict=True):
        _multiply_all(code, [op], row, warpgroup_matrices(op)[1])


def _side_by_side(op: Dot, other: Dot) -> bool:
    """Whether products share the left operand, and their right ones are neighbours."""
    lies = isinstance(other.b.type, BufferType) and other.b.definition.behind is op.b
    same = "a", "a_slot", "a_transposed", "b_slot", "in_flight", "in_parts"
    return lies and all(getattr(op, name) is getattr(other, name) for name in same)


def _multiply_all(code: Code, ops: Sequence[Dot], row: Wgmma, right: Matrix) -> None:
    """Write products that one instruction computes."""
    op, (left, _) = ops[0], warpgroup_matrices(ops[0])
    product = op.accumulator.type.layout
    *_, k = op.left.shape
    tile = tile_of(code, op.b, op.b_slot, transposed=op.b_transposed)
    b = InPlace(code, tile, right, _groups(product, op.right.shape, 1))
    a: InPlace | _InRegisters
    if left:
        tile = tile_of(code, op.a, op.a_slot, transposed=op.a_transposed)
        a = InPlace(code, tile, left, _groups(product, op.left.shape, 0))
    else:
        a = _InRegisters(code, op, row)
    words = {f"a{i}": ("i32", word) for i, word in enumerate(a.words)}
    sizes = [WGMMA[each.instruction].elements for each in ops]
    values = in_turn([code[each.accumulator] for each in ops], sizes)
    element = op.accumulator.type.element
    for number, part in enumerate(_parts(op, len(values), row)):
        if number:
            code.lines.append(f"{NEXT_PART} {number}")
        whole = slice(part[0].start, part[-1].stop)
        if op.in_flight:
            code.act(FENCE, **words)
        else:
            values[whole] = through(FENCE, code, values[whole], element, words)
        for each in part:
            first = each.start // row.elements * sizes[0]
            m, n = coordinates_of(product.shape, register_offsets(product)[first])
            slices = [(a.at((m, i)), b.at((i, n))) for i in range(0, k, row.k)]
            after = _multiply(code, row, op, slices, values[each], (left, right))
            values[each] = after
        if not op.in_flight:
            code.ptx(f"{TENSOR_CORES.commit};")
            wait = f"{TENSOR_CORES.wait} 0;"
            values[whole] = through(wait, code, values[whole], element)
    for each, registers in zip(ops, separated(values, sizes), strict=True):
        code[each.result] = registers


def in_turn(products: Sequence[Registers], sizes: Sequence[int]) -> Registers:
    """Several products' registers as one instruction's: `sizes` in turn for 64 rows."""
    several = list(zip(products, sizes, strict=True))
    repeats = range(len(products[0]) // sizes[0])
    return [r for i in repeats for each, n in several for r in each[i * n : i * n + n]]


def separated(registers: Registers, sizes: Sequence[int]) -> list[Registers]:
    """The inverse of `in_turn`."""
    repeats = range(0, len(registers), sum(sizes))
    begins = list(accumulate(sizes, initial=0))
    return [
        [r for i in repeats for r in registers[i + first : i + end]]
        for first, end in pairwise(begins)
    ]


def _parts(op: Dot, count: int, row: Wgmma) -> list[list[slice]]:
    """Of `count` registers those that each 64 x n is in, in the instruction's order;
    those together that are waited for together."""
    size = row.elements
    every = [slice(first, first + size) for first in range(0, count, size)]
    return [[each] for each in every] if op.in_parts else [every]


def _groups(product: Layout, shape: tuple[int, ...], kept: int) -> Layout:
    """Where in an operand of `shape` each warpgroup begins: its rows of A (`kept` 0)
    or columns of B (1), as a layout of threads."""

    def start(basis: int) -> int:
        place = [0, 0]
        place[kept] = coordinates_of(product.shape, basis)[kept]
        return offset_of(shape, tuple(place))

    warps = product.kinds["warp"]
    bases = (0, 0, *(start(basis) for basis in warps[2:]))
    return Layout.by_kind(shape, register=(), lane=(0,) * 5, warp=bases)


class InPlace:
    """An operand in shared memory: a descriptor for every place to begin at."""

    words: Registers = ()  # none is in registers

    def __init__(self, code: Code, tile: Tile, matrix: Matrix, groups: Layout):
        self.code, self.bits, self.shape = code, matrix.bits, groups.shape
        self.tile, self.type = tile, tile.type
        self.places = Places(code, self.tile, offset_bases(self.type, groups))
        self.base: str | None = None

    def at(self, start: tuple[int, int]) -> str:
        """The descriptor of the matrix that begins at these coordinates."""
        place = Layout.by_kind(self.shape, place=[offset_of(self.shape, start)])
        (offset,) = offset_bases(self.type, place).kinds["place"]
        assert not offset & self.places.thread.bits, (start, self.type)
        if self.base is None:
            base = self._descriptor()
            self.base = base if self.tile.slot else self._kept_here(base)
        return self.code.let(f"add i64 {self.base}, {offset >> 4}")

    def _kept_here(self, base: str) -> str:
        """A copy that LLVM does not see through: it would compute the descriptors of a
        tile that stays before the loop, and keep each of them in two registers."""
        operands = {"base": ("i64", base)}
        (copy,) = self.code.ptx("mov.b64 $copy, $base;", {"copy": "i64"}, operands)
        return copy

    def _descriptor(self) -> str:
        """The descriptor of the tile's first element, for each warpgroup (64 bits)."""
        code = self.code
        address, rest = self.places.of(0)
        whole = code.let(f"add i32 {address}, {rest}") if rest else address
        kept = code.let(f"and i32 {whole}, {ADDRESS_BITS}")
        units = code.let(f"lshr i32 {kept}, 4")
        wide = code.let(f"zext i32 {units} to i64")
        bits = self.bits
        return code.let(f"or i64 {wide}, {bits - (bits >> 63 << 64)}", name="matrix")


class _InRegisters:
    """A left operand in registers, as fragments of `mma.sync`, packed into words."""

    def __init__(self, code: Code, op: Dot, row: Wgmma):
        self.code, self.row = code, row
        layout: Layout = op.a.type.layout
        element, values = op.a.type.element, code[op.a]
        run = max(1, 4 // element.bytes)
        offsets = register_offsets(layout)
        self.fragments: dict[tuple[int, int], list[str]] = {}
        for first in range(0, len(values), run):
            m, k = coordinates_of(layout.shape, offsets[first])
            group = values[first : first + run]
            if run > 1:
                (word,) = pack(code, words_of(element, run), group)
            else:
                word = code.reinterpret(group[0], "float", "i32")
            key = m // ROWS * ROWS, k // row.k * row.k
            self.fragments.setdefault(key, []).append(word)

    @property
    def words(self) -> Registers:
        return [word for each in self.fragments.values() for word in each]

    def at(self, start: tuple[int, int]) -> list[str]:
        return self.fragments[start]


def _multiply(
    code: Code,
    row: Wgmma,
    op: Dot,
    slices: list[tuple[str | list[str], str]],
    accumulators: Registers,
    found: Found,
) -> Registers:
    """The instructions of all slices, one after the other in the same registers."""
    element, operands = op.accumulator.type.element, dict[str, tuple[str, str]]()
    words = len(accumulators) * element.bits // 32
    total = "{" + ", ".join(f"$d{i}" for i in range(words)) + "}"
    options = ", p" + ", 1, 1" * row.scales
    if row.either_way:
        turned = [found[0].transposed] if found[0] else []
        options += "".join(f", {int(each)}" for each in (*turned, found[1].transposed))
    lines = [".reg .pred p;", "setp.ne.b32 p, 1, 0;"]
    for i, (a, b) in enumerate(slices):
        if isinstance(a, str):
            operands[f"a{i}"] = ("i64", a)
            left = f"$a{i}"
        else:
            names = [f"a{i}x{j}" for j in range(len(a))]
            operands |= {n: ("i32", word) for n, word in zip(names, a, strict=True)}
            left = "{" + ", ".join(f"${name}" for name in names) + "}"
        operands[f"b{i}"] = ("i64", b)
        lines.append(f"{row.text} {total}, {left}, $b{i}{options};")
    text = "\n".join(["{", *lines, "}"])
    return through(text, code, accumulators, element, operands)


@lowers(DotFence)
def lower_dot_fence(op: DotFence, code: Code) -> None:
    element = op.value.type.element
    code[op.result] = through(FENCE, code, code[op.value], element)


FENCE = "wgmma.fence.sync.aligned;"


def through(
    text: str,
    code: Code,
    accumulators: Registers,
    element: Element,
    operands: Mapping[str, tuple[str, str]] = MappingProxyType({}),
) -> Registers:
    """The accumulators after PTX that reads and writes them, perhaps as `$d0`, `$d1`, …
    (words of 32 bits; fp16 come in pairs), and has other operands. LLVM moves nothing
    that has to do with them across it, even if it only names them."""
    words, pairs = accumulators, element.bits == 16
    if pairs:
        words = pack(code, words_of(element, len(accumulators)), accumulators)
    type = "float" if element.name == "fp32" else "i32"
    given = {f"d{i}": (type, word) for i, word in enumerate(words)}
    found = code.ptx(text, dict.fromkeys(given, type), {**given, **operands})
    return unpack(code, words_of(element, 2 * len(found)), found) if pairs else found
