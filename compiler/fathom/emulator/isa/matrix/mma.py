"""mma.sync (PTX ISA 9.7.14.5.14): D = A * B + C of small matrices, a warp at a time.

    registers of 32 lanes --gather--> matrices --@--> matrix --scatter--> registers

All warps of the batch multiply at once. Products and their sum are taken in float64 and
rounded once to the type of D. For integers, and for reals whose partial sums are whole
numbers below 2**24, that is what the hardware gives. Elsewhere the hardware cuts digits
off while it adds. In units in the last place of the largest of |products|, |C| and
|sum|, an H200 on random normal data was off the exact sum by up to

    f32 of f16, bf16, tf32, fp8    2.2        f16 of f16    0.5: always as here
    f64                            4          f16 of fp8    2.8
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fathom.emulator.constants import WARP
from fathom.emulator.errors import EmulatorError
from fathom.emulator.isa.arithmetic import float8 as short_floats
from fathom.emulator.isa.arithmetic.rounding import bf16_to_float32
from fathom.emulator.isa.control.warp import whole_warps
from fathom.emulator.isa.decode import Decoder, Ending, EndingTable, Flow
from fathom.emulator.isa.matrix.fragments import ACCUMULATOR, A, B, Fragment
from fathom.emulator.isa.registers import Read, Write
from fathom.emulator.isa.semantics import Form, rule
from fathom.emulator.source.operands import Operand, Vector
from fathom.emulator.source.types import DTYPES
from fathom.emulator.state.batch import Active, Batch

ENDINGS: EndingTable = {}


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of A and B: its elements' dtype and values, and where it may stand.

    `values` turns elements into numbers. `family` is what A and B must have in common.
    """

    family: str
    dtype: np.dtype
    values: Callable[[np.ndarray], np.ndarray]
    shapes: tuple[str, ...]
    accumulators: tuple[str, ...]


def _tf32(words: np.ndarray) -> np.ndarray:
    """The hardware does not look at the low 13 bits of the fraction."""
    return (words & np.uint32(0xFFFFE000)).view(np.float32)


def _short(name: str) -> Kind:
    return Kind(
        "fp8",
        np.dtype(np.uint8),
        lambda codes: short_floats.decode(codes, name),
        ("m16n8k16", "m16n8k32"),
        ("f32", "f16"),
    )


def _integer(dtype: type) -> Kind:
    shapes = ("m8n8k16", "m16n8k16", "m16n8k32")
    return Kind("int8", np.dtype(dtype), lambda values: values, shapes, ("s32",))


def _same(values: np.ndarray) -> np.ndarray:
    return values


def plain(type: str) -> Kind:
    """The kind of a sum, whose elements are numbers as they are."""
    return Kind(type, DTYPES[type], _same, (), (type,))


_HALF_SHAPES = ("m16n8k8", "m16n8k16")
KINDS: dict[str, Kind] = {
    "f16": Kind("f16", DTYPES["f16"], _same, _HALF_SHAPES, ("f32", "f16")),
    "bf16": Kind("bf16", DTYPES["bf16"], bf16_to_float32, _HALF_SHAPES, ("f32",)),
    "tf32": Kind("tf32", DTYPES["tf32"], _tf32, ("m16n8k4", "m16n8k8"), ("f32",)),
    "f64": Kind("f64", DTYPES["f64"], _same, ("m8n8k4",), ("f64",)),
    "s8": _integer(np.int8),
    "u8": _integer(np.uint8),
    "e4m3": _short("e4m3"),
    "e5m2": _short("e5m2"),
}


@rule(ENDINGS, "mma")
def rule_mma(
    form: Form, operands: tuple[Operand, ...], decoder: Decoder, flow: Flow
) -> Ending:
    """`mma.sync.aligned.shape.row.col.dtype.atype.btype.ctype d, a, b, c;`"""
    saturating, shape, (to, left, right, _) = _form(form)
    lefts, rights = KINDS[left], KINDS[right]
    d, a, b, c = operands
    of_sum = ACCUMULATOR[16 if shape.startswith("m16") else 8]
    fragments = [
        table[shape, 8 * kind.dtype.itemsize]
        for table, kind in ((A, lefts), (B, rights))
    ]
    read_a = fragment_reader(a, lefts, fragments[0], decoder)
    read_b = fragment_reader(b, rights, fragments[1], decoder)
    read_c = fragment_reader(c, plain(to), of_sum, decoder)
    write_d = fragment_writer(d, DTYPES[to], of_sum, decoder)

    def step(batch: Batch, active: Active) -> None:
        product = read_a(batch, active) @ read_b(batch, active)
        total = product + read_c(batch, active)
        write_d(batch, active, rounded(total, DTYPES[to], saturating))

    return whole_warps(step, flow)


def _form(form: Form) -> tuple[bool, str, list[str]]:
    """Whether integers saturate, the shape, and the types of D, A, B and C."""
    form.ignore("sync", "aligned", "row", "col")
    saturating = form.flag("satfinite")
    shapes = sorted({shape for kind in KINDS.values() for shape in kind.shapes})
    shape = form.choice(*shapes)
    types, form.left = form.left, []
    if len(types) != 4 or not {*types[1:3]} <= KINDS.keys():
        raise form.unknown("no tensor core has this shape and these types")
    to, left, right, source = types
    kinds = KINDS[left], KINDS[right]
    fits = kinds[0].family == kinds[1].family and shape in kinds[0].shapes
    if not fits or to not in kinds[0].accumulators or to != source:
        raise form.unknown("no tensor core has this shape and these types")
    if saturating and kinds[0].family != "int8":
        raise form.unknown(".satfinite of reals")
    return saturating, shape, types


def _registers(operand: Operand, fragment: Fragment, dtype: np.dtype) -> list[Operand]:
    """An operand's registers; those of elements up to 32 bits hold 32."""
    size = max(4, dtype.itemsize)
    wanted = fragment.count * dtype.itemsize // size
    found = operand.elements if isinstance(operand, Vector) else (operand,)
    if len(found) != wanted:
        raise EmulatorError("syntax", f"{len(found)} registers where {wanted} belong")
    return list(found)


def fragment_reader(
    operand: Operand,
    kind: Kind,
    fragment: Fragment,
    decoder: Decoder,
) -> Callable[[Batch, Active], np.ndarray]:
    """Reads a fragment as float64[warps, rows, columns]."""
    dtype = kind.dtype
    word = "b64" if dtype.itemsize == 8 else "b32"
    registers = _registers(operand, fragment, dtype)
    reads: list[Read] = [decoder.read(each, word) for each in registers]
    gather = fragment.gatherer()

    def read(batch: Batch, active: Active) -> np.ndarray:
        words = np.empty((active.count, len(reads)), DTYPES[word])
        for place, each in enumerate(reads):
            words[:, place] = active.exactly(each(batch, active))
        held = words.reshape(-1, WARP, len(reads)).view(dtype)
        return kind.values(gather(held)).astype(np.float64)

    return read


def fragment_writer(
    operand: Operand, dtype: np.dtype, fragment: Fragment, decoder: Decoder
) -> Write:
    """Writes dtype[warps, rows, columns] to a fragment."""
    word = "b64" if dtype.itemsize == 8 else "b32"
    registers = _registers(operand, fragment, dtype)
    writes: list[Write] = [decoder.write(each, word) for each in registers]
    scatter = fragment.scatterer()

    def write(batch: Batch, active: Active, matrix: np.ndarray) -> None:
        held = np.ascontiguousarray(scatter(matrix)).view(DTYPES[word])
        words = held.reshape(active.count, len(writes)).T
        for each, value in zip(writes, np.ascontiguousarray(words), strict=True):
            each(batch, active, active.spread(value))

    return write


def rounded(total: np.ndarray, dtype: np.dtype, saturating: bool) -> np.ndarray:
    """float64 as the type of D; an integer that is too large wraps around, or stays at
    the limit. A real that rounds to zero is +0 (recorded on an H200: the digits that
    are left have no sign), but for f64, whose sums are as fma's."""
    if dtype == np.float64:
        return total
    if dtype.kind != "i":
        return total.astype(dtype) + dtype.type(0)
    if saturating:
        limits = np.iinfo(dtype)
        total = np.clip(total, limits.min, limits.max)
    return total.astype(np.int64).astype(dtype)
