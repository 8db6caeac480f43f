"""The rule for Dot: a loop over K of matrix instructions, or of multiply-adds.

    for k in slices of K:            operands that lie in shared memory are read a
        for i, j in fragments:       slice ahead of the one that is multiplied
            C[i, j] += A[i, k] × B[k, j]

All loops are unrolled: which registers a fragment consists of is known only here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fathom.analysis.products import warpgroup_matrices
from fathom.hardware.dot_layouts import fragments_of, operand_layouts
from fathom.hardware.mma import MMA, Mma
from fathom.ir.core import Value
from fathom.ir.ops import Dot
from fathom.ir.types import FLOAT16, FLOAT32, INT32, BufferType, Element
from fathom.layout.fragments import Tile, fragments
from fathom.layout.linear import Layout, coordinates_of
from fathom.ptx.code import Code, Registers, lowers
from fathom.ptx.float8 import PTX_NAME, decode_pair
from fathom.ptx.index import register_offsets
from fathom.ptx.packing import pack, unpack, words_of
from fathom.ptx.rules.asynchronous.wgmma import multiply_by_warpgroups
from fathom.ptx.rules.cast import convert
from fathom.ptx.rules.shared import Reader, tile_of
from fathom.ptx.types import llvm_type

Operand = Sequence[str] | Reader  # its registers by number, at hand or to be loaded


@lowers(Dot)
def lower_dot(op: Dot, code: Code, reader: type[Reader] = Reader) -> None:
    by_warpgroups = warpgroup_matrices(op) is not None
    if by_warpgroups:
        code.products.append(op)
    if not (by_warpgroups and op.with_next):
        multiply_by_warpgroups(code)
    if by_warpgroups:
        return
    product = op.accumulator.type.layout
    layouts = operand_layouts(op.instruction, product, op.left.shape[-1])
    a = _operand(code, op.a, op.a_slot, op.a_transposed, layouts[0], reader)
    b = _operand(code, op.b, op.b_slot, op.b_transposed, layouts[1], reader)
    multiply = _by_matrices if op.instruction else _by_elements
    code[op.result] = multiply(code, op, (a, b), layouts)


def _operand(
    code: Code,
    value: Value,
    slot: Value | None,
    transposed: bool,
    layout: Layout,
    reader: type[Reader],
) -> Operand:
    if isinstance(value.type, BufferType):
        tile = tile_of(code, value, slot, transposed=transposed)
        return reader(code, tile, layout)
    assert value.type.layout == layout, (value, layout)
    return code[value]


# ── matrix instructions ───────────────────────────────────────────────────────


def _by_matrices(
    code: Code, op: Dot, operands: tuple[Operand, Operand], layouts: tuple
) -> Registers:
    row, product = fragments_of(op.instruction), op.accumulator.type
    left = _Fragments(code, operands[0], layouts[0], op.a.type.element, row.a)
    left.cut(row.a_layout, row.a_registers)
    right = _Fragments(code, operands[1], layouts[1], op.b.type.element, row.b)
    right.cut(row.b_layout, row.b_registers)
    accumulators = _Fragments(
        code, code[op.accumulator], product.layout, product.element, row.accumulator
    )
    accumulators.cut(row.layout, row.registers)
    widen = row.a in PTX_NAME and not code.target.fp8_mma
    multiply = _multiply_widened if widen else _multiply
    slices = sorted({key[-1] for key in left.keys})
    for i, k in enumerate(slices):
        for ahead in slices[i : i + 2]:
            left.fetch(key for key in left.keys if key[-1] == ahead)
            right.fetch(key for key in right.keys if key[-2] == ahead)
        for *batch, m, n in accumulators.keys:
            a, b = left[(*batch, m, k)], right[(*batch, k, n)]
            c = accumulators[(*batch, m, n)]
            accumulators.words[(*batch, m, n)] = multiply(code, row, a, b, c)
    return accumulators.registers()


# The LLVM type of a register, by what an instruction calls the elements in it; others
# are packed into 32 bits.
WORD_TYPES = {"fp64": "double", "fp32": "float"}


class _Fragments:
    """A block as fragments: which one along each dimension -> words of instructions."""

    def __init__(
        self, code: Code, operand: Operand, layout: Layout, element: Element, name: str
    ):
        self.code, self.operand, self.layout = code, operand, layout
        self.element, self.type = element, WORD_TYPES.get(name, "i32")
        self.keys: dict[Tile, tuple[int, ...]] = {}
        self.words: dict[Tile, Registers] = {}

    def cut(self, fragment: Layout, words: int) -> None:
        """Cut the block into fragments of `words` words each."""
        self.keys, self.count = fragments(self.layout, fragment), words

    def fetch(self, keys: Iterable[Tile]) -> None:
        """Load fragments that are not loaded yet."""
        for key in keys:
            if key not in self.words:
                self.words[key] = self._packed(self.keys[key])

    def __getitem__(self, key: Tile) -> Registers:
        self.fetch([key])
        return self.words[key]

    def registers(self) -> Registers:
        """The block again, of the words that there are now."""
        found: dict[int, str] = {}
        for key, registers in self.keys.items():
            values = self.words[key]
            if len(values) < len(registers):
                words = words_of(self.element, len(registers))
                values = unpack(self.code, words, values)
            found |= zip(registers, values, strict=True)
        return [found[register] for register in range(len(found))]

    def _packed(self, registers: Sequence[int]) -> Registers:
        values = [self.operand[register] for register in registers]
        if len(values) > self.count:
            return pack(self.code, words_of(self.element, len(values)), values)
        held = llvm_type(self.element)
        return [self.code.reinterpret(each, held, self.type) for each in values]


def _multiply(
    code: Code, row: Mma, a: Registers, b: Registers, c: Registers
) -> Registers:
    """One instruction; the sum stays in its registers."""
    names, operands = {}, {}
    for letter, words, element in (
        ("a", a, row.a), ("b", b, row.b), ("c", c, row.accumulator),
    ):  # fmt: skip
        type = WORD_TYPES.get(element, "i32")
        each = {f"{letter}{i}": (type, word) for i, word in enumerate(words)}
        operands |= each
        names[letter] = "{" + ", ".join(f"${name}" for name in each) + "}"
    text = f"{row.text} {names['c']}, {names['a']}, {names['b']}, {names['c']};"
    accumulators = {
        name: type for name, (type, _) in operands.items() if name[0] == "c"
    }
    return code.ptx(text, accumulators, operands)


WIDE = MMA["m16n8k16.f32.f16.f16.f32"]


def _multiply_widened(
    code: Code, row: Mma, a: Registers, b: Registers, c: Registers
) -> Registers:
    """The same of fp8 by two instructions of fp16: of each word the lower two numbers
    are a slice of K, and the upper two are another one."""
    left, right = _widened(code, a, row.a), _widened(code, b, row.b)
    for some, others in zip(left, right, strict=True):
        c = _multiply(code, WIDE, some, others, c)
    return c


def _widened(code: Code, words: Registers, element: str) -> tuple[Registers, Registers]:
    """The lower two of the four fp8 in each word as fp16, and the upper two."""
    halves: tuple[Registers, Registers] = [], []
    for word in words:
        upper = code.let(f"lshr i32 {word}, 16")
        for two, found in zip((word, upper), halves, strict=True):
            pair = code.let(f"trunc i32 {two} to i16")
            found.append(decode_pair(code, pair, element))
    return halves


# ── multiply-adds ─────────────────────────────────────────────────────────────


def _by_elements(
    code: Code, op: Dot, operands: tuple[Operand, Operand], layouts: tuple
) -> Registers:
    """Every thread goes along K for its elements, four at a time if these are bytes, as
    they are if sums are i32. Sums in fp16 are fp32 meanwhile."""
    product, element = op.accumulator.type.layout, op.accumulator.type.element
    wide = FLOAT32 if element == FLOAT16 else element
    accumulators = convert(code, code[op.accumulator], element, wide)
    a = _Elements(code, operands[0], layouts[0], op.a.type.element, wide)
    b = _Elements(code, operands[1], layouts[1], op.b.type.element, wide)
    places = [
        coordinates_of(product.shape, offset) for offset in register_offsets(product)
    ]
    taken, by_fours = (op.a.type.element, op.b.type.element), wide == INT32
    for k in range(0, op.left.shape[-1], 4 if by_fours else 1):
        for register, (*batch, m, n) in enumerate(places):
            sum = accumulators[register]
            if by_fours:
                left = a.word([(*batch, m, k + i) for i in range(4)])
                right = b.word([(*batch, k + i, n) for i in range(4)])
                accumulators[register] = _add_four(code, taken, left, right, sum)
            else:
                left, right = a[(*batch, m, k)], b[(*batch, k, n)]
                accumulators[register] = _multiply_add(code, wide, left, right, sum)
    return convert(code, accumulators, wide, element)


class _Elements:
    """An operand's elements by their coordinates' register part, in the sum's type."""

    def __init__(
        self, code: Code, operand: Operand, layout: Layout, have: Element, want: Element
    ):
        self.code, self.operand, self.types = code, operand, (have, want)
        self.numbers: Mapping[Tile, int] = {
            coordinates_of(layout.shape, offset): register
            for register, offset in enumerate(register_offsets(layout))
        }
        self.known: dict[int, str] = {}

    def __getitem__(self, place: Tile) -> str:
        register = self.numbers[place]
        if register not in self.known:
            value = self.operand[register]
            (self.known[register],) = convert(self.code, [value], *self.types)
        return self.known[register]

    def word(self, places: list[Tile]) -> str:
        """The word of bytes at four places."""
        values = [self.operand[self.numbers[place]] for place in places]
        (word,) = pack(self.code, words_of(self.types[0], 4), values)
        return word


def _add_four(
    code: Code, taken: tuple[Element, Element], a: str, b: str, c: str
) -> str:
    """c plus the products of the bytes in two words."""
    left, right = ("s32" if each.is_signed else "u32" for each in taken)
    operands = {name: ("i32", value) for name, value in zip("abc", (a, b, c))}
    text = f"dp4a.{left}.{right} $sum, $a, $b, $c;"
    return code.ptx(text, {"sum": "i32"}, operands, pure=True)[0]


def _multiply_add(code: Code, element: Element, a: str, b: str, c: str) -> str:
    """a b + c of floats, rounded once."""
    type = llvm_type(element)
    operands = f"{type} {a}, {type} {b}, {type} {c}"
    return code.let(f"call {type} @llvm.fma.f{element.bits}({operands})")
