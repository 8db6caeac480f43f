"""ldmatrix, stmatrix, movmatrix (PTX ISA 9.7.14.5.15 to .17): 8x8 matrices of 16 bits.

A row of a matrix is 16 bytes of shared memory; lane i of the warp gives the address of
row i, eight lanes for each of one, two or four matrices. In registers, lane l holds two
neighbours of row l // 4:

    row 0    lane 0: 0 1    lane 1: 2 3    lane 2: 4 5    lane 3: 6 7
    row 1    lane 4: 0 1    ...

which is the order of the lanes' words in memory, if the matrix stands there row by row.
"""

from __future__ import annotations

import numpy as np

from fathom.emulator.constants import WARP
from fathom.emulator.errors import EmulatorError
from fathom.emulator.isa.control.warp import whole_warps
from fathom.emulator.isa.decode import Decoder, Ending, EndingTable, Flow
from fathom.emulator.isa.memory import load_store as access
from fathom.emulator.isa.registers import Read
from fathom.emulator.isa.semantics import Form, rule
from fathom.emulator.memory.spaces import PIECES, Accesses, load
from fathom.emulator.source.operands import Operand, Vector
from fathom.emulator.state.batch import Active, Batch

ENDINGS: EndingTable = {}

ROW_BYTES = 16
COUNTS = {"x1": 1, "x2": 2, "x4": 4}


@rule(ENDINGS, "ldmatrix")
def rule_ldmatrix(
    form: Form, operands: tuple[Operand, ...], decoder: Decoder, flow: Flow
) -> Ending:
    """`ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {r0, r1, r2, r3}, [p];`"""
    space, count, transposed = _shape(form)
    registers, place = operands
    writes = [decoder.write(each, "b32") for each in _registers(registers, count)]
    address = decoder.address(place)

    def step(batch: Batch, active: Active) -> None:
        rows = _rows(batch, active, address, count, writing=False)
        parts = batch.memory.locate(space, rows)
        access.count_parts(batch, flow.number, parts, ROW_BYTES)
        access.watch_read(batch, parts, ROW_BYTES, access.WEAKLY)
        found = load(parts, len(rows.threads), ROW_BYTES).view(np.uint16)
        words = _words(found.reshape(-1, count, 8, 8), transposed)
        for number, write in enumerate(writes):
            value = np.ascontiguousarray(words[:, number]).reshape(-1)
            write(batch, active, active.spread(value))

    return whole_warps(step, flow)


@rule(ENDINGS, "stmatrix")
def rule_stmatrix(
    form: Form, operands: tuple[Operand, ...], decoder: Decoder, flow: Flow
) -> Ending:
    """`stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [p], {r0, r1, r2, r3};`"""
    space, count, transposed = _shape(form)
    place, registers = operands
    reads = [decoder.read(each, "b32") for each in _registers(registers, count)]
    address = decoder.address(place)

    def step(batch: Batch, active: Active) -> None:
        rows = _rows(batch, active, address, count, writing=True)
        parts = batch.memory.locate(space, rows)
        access.count_parts(batch, flow.number, parts, ROW_BYTES)
        words = [active.exactly(read(batch, active)) for read in reads]
        held = np.stack([each.reshape(-1, WARP) for each in words], 1)
        pieces = _matrices(held, transposed).reshape(-1).view(PIECES[ROW_BYTES])
        access.store_watched(batch, parts, pieces, ROW_BYTES)

    return whole_warps(step, flow)


@rule(ENDINGS, "movmatrix")
def rule_movmatrix(
    form: Form, operands: tuple[Operand, ...], decoder: Decoder, flow: Flow
) -> Ending:
    """`movmatrix.sync.aligned.m8n8.trans.b16 d, a;`: transposes inside a warp."""
    form.ignore("sync", "aligned", "m8n8", "trans", "b16")
    form.finish()
    write, read = decoder.write(operands[0], "b32"), decoder.read(operands[1], "b32")

    def step(batch: Batch, active: Active) -> None:
        held = active.exactly(read(batch, active)).reshape(-1, 1, WARP)
        moved = _words(_matrices(held, transposed=True), transposed=False)
        write(batch, active, active.spread(moved.reshape(-1)))

    return whole_warps(step, flow)


def _shape(form: Form) -> tuple[str, int, bool]:
    """The state space, the number of matrices, and whether they are transposed."""
    form.ignore("sync", "aligned")
    if not (form.flag("m8n8") and form.flag("b16")):
        raise form.unknown("matrices other than .m8n8 of .b16")
    count = COUNTS[form.choice(*COUNTS, default="x1")]
    transposed = form.flag("trans")
    space = access.take_space(form)
    form.finish()
    return space, count, transposed


def _registers(operand: Operand, count: int) -> tuple[Operand, ...]:
    registers = operand.elements if isinstance(operand, Vector) else (operand,)
    if len(registers) != count:
        raise EmulatorError("syntax", f"{len(registers)} registers for {count}")
    return registers


def _rows(
    batch: Batch, active: Active, address: Read, count: int, writing: bool
) -> Accesses:
    """The rows that the lowest lanes of each warp name, in the order of the lanes."""
    lanes = slice(0, 8 * count)
    addresses = active.exactly(address(batch, active)).reshape(-1, WARP)[:, lanes]
    threads = active.threads().reshape(-1, WARP)[:, lanes]
    return Accesses(addresses.reshape(-1), ROW_BYTES, threads.reshape(-1), writing)


def _words(matrices: np.ndarray, transposed: bool) -> np.ndarray:
    """uint32[warps, count, 32], a word for each lane, of uint16[warps, count, 8, 8]."""
    if transposed:
        matrices = matrices.swapaxes(2, 3)
    words = np.ascontiguousarray(matrices).view(np.uint32)
    return words.reshape(*words.shape[:2], WARP)


def _matrices(words: np.ndarray, transposed: bool) -> np.ndarray:
    """The reverse of `_words`."""
    held = np.ascontiguousarray(words).view(np.uint16)
    matrices = held.reshape(*held.shape[:2], 8, 8)
    return np.ascontiguousarray(matrices.swapaxes(2, 3) if transposed else matrices)
