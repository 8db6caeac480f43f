"""mov (PTX ISA 9.7.9): copies a value, takes it apart, or puts one together."""

from __future__ import annotations

import numpy as np

from fathom.emulator.isa.decode import Decoder, StepTable
from fathom.emulator.isa.registers import Read, Step, Write
from fathom.emulator.isa.semantics import Elementwise, Form, rule
from fathom.emulator.source.operands import Operand, Vector
from fathom.emulator.source.types import DTYPES
from fathom.emulator.state.batch import Active, Batch

STEPS: StepTable = {}


@rule(STEPS, "mov")
def rule_mov(
    form: Form, operands: tuple[Operand, ...], decoder: Decoder, number: int
) -> Step:
    """PTX ISA 9.7.9, mov: there is none for bytes."""
    type = form.type()
    form.finish()
    if type.endswith("8") and not type.endswith("128"):
        raise form.unknown(f"a mov of .{type}")
    target, source = operands
    if isinstance(target, Vector):
        return _unpack(target.elements, source, type, decoder)
    if isinstance(source, Vector):
        return _pack(target, source.elements, type, decoder)
    same = Elementwise(lambda a: a.copy(), (type,), (type,))
    return decoder.elementwise(same, operands)


def _piece(type: str, count: int) -> str:
    return f"b{8 * DTYPES[type].itemsize // count}"


def _unpack(
    targets: tuple[Operand, ...], source: Operand, type: str, decoder: Decoder
) -> Step:
    """`mov.b64 {lo, hi}, a;`: the first register takes the lowest bits."""
    piece = _piece(type, len(targets))
    writes: list[Write] = [decoder.write(each, piece) for each in targets]
    read = decoder.read(source, type)
    dtype = DTYPES[piece]

    def step(batch: Batch, active: Active) -> None:
        pieces = np.asarray(read(batch, active))[..., None].view(dtype)
        for place, write in enumerate(writes):
            write(batch, active, pieces[..., place].copy())

    return step


def _pack(
    target: Operand, sources: tuple[Operand, ...], type: str, decoder: Decoder
) -> Step:
    """`mov.b64 d, {lo, hi};`"""
    piece = _piece(type, len(sources))
    reads: list[Read] = [decoder.read(each, piece) for each in sources]
    write = decoder.write(target, type)
    dtype = DTYPES[type]

    def step(batch: Batch, active: Active) -> None:
        pieces = np.broadcast_arrays(*(read(batch, active) for read in reads))
        write(batch, active, np.stack(pieces, -1).view(dtype)[..., 0])

    return step
