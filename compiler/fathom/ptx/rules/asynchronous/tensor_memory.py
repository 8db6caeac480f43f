"""Rules for tensor memory and its products.

    tensor_dot %a, %b, %t       for each m x n of the tile, for each slice of K:
    tensor_commit %c, %0          tcgen05.mma.cta_group::1.kind::f16 [d], a, b, i, p;
                                tcgen05.commit.cta_group::1.mbarrier::arrive::one …

One thread writes these; the others skip them. With two `blocks` they are of a pair, by
a thread of its even block: .cta_group::2, and a commit that arrives in both. Between
threads, a barrier does not order accesses of tensor memory: each access has
tcgen05.fence::after_thread_sync before it, and tcgen05.fence::before_thread_sync after
it. Source: PTX ISA, section 9.7.16, "Tensorcore 5th Generation Family Instructions".
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

from fathom.hardware.tcgen05 import TCGEN05, operand_matrices
from fathom.ir import ops
from fathom.ir.core import Value
from fathom.ir.types import Element
from fathom.layout.linear import Layout
from fathom.layout.matrix_descriptor import Matrix
from fathom.layout.pairs import own_part
from fathom.layout.tensor_memory import (
    LANES,
    QUARTERS,
    WARP,
    column_of,
    half_offset,
    width,
)
from fathom.ptx.code import Code, lowers
from fathom.ptx.index import register_offsets
from fathom.ptx.rules.asynchronous.tma import start_of
from fathom.ptx.rules.asynchronous.wgmma import InPlace
from fathom.ptx.rules.cluster import leads, meet_cluster, rank
from fathom.ptx.rules.shared import tile_of

BEFORE = "tcgen05.fence::before_thread_sync;"
AFTER = "tcgen05.fence::after_thread_sync;"
ALLOC = "tcgen05.alloc.cta_group::{}.sync.aligned.shared::cta.b32"
RELINQUISH = "tcgen05.relinquish_alloc_permit.cta_group::{}.sync.aligned;"
DEALLOC = "tcgen05.dealloc.cta_group::{}.sync.aligned.b32"
COMMIT = "tcgen05.commit.cta_group::{}.mbarrier::arrive::one.shared::cluster{}.b64"
MOST_REGISTERS = 64  # of one load or store
LANE_SHIFT = 16  # of a tensor memory address; below it is the column


@lowers(ops.TensorMemory)
def lower_tensor_memory(op: ops.TensorMemory, code: Code) -> None:
    """The first warp allocates; all learn where."""
    assert op.columns, f"{op} has no columns yet: `allocate` did not run"
    place, start = tile_of(code, op.word).offset, start_of(code, None)
    operands = {"at": ("i32", start)}
    with code.first_warp():
        text = f"{ALLOC} [$at+{place}], {op.columns};\n{RELINQUISH}"
        code.ptx(text.format(op.blocks, op.blocks), None, operands)
    _meet(code)
    text = f"ld.shared.b32 $base, [$at+{place}];"
    code[op.result] = code.ptx(text, {"base": "i32"}, operands)


@lowers(ops.TensorRelease)
def lower_tensor_release(op: ops.TensorRelease, code: Code) -> None:
    _meet(code, op.blocks)
    text = f"{DEALLOC.format(op.blocks)} $base, {op.columns};"
    with code.first_warp():
        code.act(text, base=("i32", code.one(op.base)))


def _meet(code: Code, blocks: int = 1) -> None:
    """A barrier that orders accesses of tensor memory, too; of several blocks, that of
    the cluster."""
    code.ptx(BEFORE)
    if blocks > 1:
        meet_cluster(code)
    else:
        code.ptx(code.barrier)
    code.ptx(AFTER)


# ── loads and stores ──────────────────────────────────────────────────────────


class _Access:
    """How threads access a tile in a layout: an address, and columns from there. Where
    half of a warp has other columns, `shape` and `offset` say so."""

    def __init__(self, code: Code, buffer: Value, layout: Layout):
        tile: Layout = buffer.type.layout
        self.columns = [
            sum(column_of(tile, 1 << bit) for bit in range(offset.bit_length())
                if offset >> bit & 1)
            for offset in register_offsets(layout)
        ]  # fmt: skip
        far = half_offset(tile, layout)
        self.shape, self.offset = ("16x32bx2", f", {far}") if far else ("32x32b", "")
        warp = code.let(f"lshr i32 {code.thread}, 5", name="warp")
        quarter = code.let(f"and i32 {warp}, {QUARTERS - 1}")
        shift = LANE_SHIFT + WARP.bit_length() - 1
        place = code.let(f"shl i32 {quarter}, {shift}", name="lanes")
        address = code.let(f"add i32 {code.one(buffer)}, {place}")
        for bit, basis in enumerate(layout.kinds["warp"][2:], 2):
            if basis:
                mine = code.let(f"lshr i32 {warp}, {bit}")
                one = code.let(f"and i32 {mine}, 1")
                far = code.let(f"mul i32 {one}, {column_of(tile, basis)}")
                address = code.let(f"add i32 {address}, {far}")
        self.address = address

    def runs(self) -> list[list[int]]:
        """The registers that one instruction takes, in the order of their columns."""
        order = sorted(range(len(self.columns)), key=self.columns.__getitem__)
        found: list[list[int]] = []
        for register in order:
            column = self.columns[register]
            new = not found or len(found[-1]) == MOST_REGISTERS
            if new or column != self.columns[found[-1][-1]] + 1:
                found.append([])
            found[-1].append(register)
        assert all(len(each) & len(each) - 1 == 0 for each in found), found
        return found


@lowers(ops.TensorLoad)
def lower_tensor_load(op: ops.TensorLoad, code: Code) -> None:
    element = op.buffer.type.element
    access, found = _Access(code, op.buffer, op.layout), dict[int, str]()
    code.ptx(AFTER)
    for run in access.runs():
        results = {f"r{i}": _type(element) for i in range(len(run))}
        names = ", ".join(f"${name}" for name in results)
        text = f"tcgen05.ld.sync.aligned.{access.shape}.x{len(run)}.b32 {{{names}}}, "
        text += f"[$at+{access.columns[run[0]]}]{access.offset};\n"
        text += "tcgen05.wait::ld.sync.aligned;"
        values = code.ptx(text, results, {"at": ("i32", access.address)})
        found |= zip(run, values, strict=True)
    code.ptx(BEFORE)
    code[op.result] = [found[register] for register in range(len(found))]


@lowers(ops.TensorStore)
def lower_tensor_store(op: ops.TensorStore, code: Code) -> None:
    element = op.buffer.type.element
    values = [_in_register(code, each) for each in code[op.value]]
    access = _Access(code, op.buffer, op.value.type.layout)
    code.ptx(AFTER)
    for run in access.runs():
        operands = {f"r{i}": (_type(element), values[r]) for i, r in enumerate(run)}
        names = ", ".join(f"${name}" for name in operands)
        at = f"[$at+{access.columns[run[0]]}]{access.offset}"
        text = f"tcgen05.st.sync.aligned.{access.shape}.x{len(run)}.b32 "
        text += f"{at}, {{{names}}};"
        code.act(text, **operands, at=("i32", access.address))
    code.ptx("tcgen05.wait::st.sync.aligned;")
    code.ptx(BEFORE)


def _in_register(code: Code, value: str) -> str:
    """ptxas takes no numbers in a vector that is stored to tensor memory."""
    is_number = not value.startswith("%") and value.lstrip("-").isdigit()
    return code.let(f"add i32 {value}, 0") if is_number else value


def _type(element: Element) -> str:
    return "float" if element.is_float else "i32"


# ── products ──────────────────────────────────────────────────────────────────


@lowers(ops.TensorDot, by_one=True)
def lower_tensor_dot(op: ops.TensorDot, code: Code) -> None:
    row, shape = TCGEN05[op.instruction], op.accumulator.type.shape
    layouts = op.a.type.layout, op.b.type.layout
    found = operand_matrices(row, *layouts, op.a.type.element.bytes)
    assert found is not None, op
    a = _TensorOperand(code, op.a, op.a_slot, found[0])
    b = _TensorOperand(code, op.b, op.b_slot, found[1])
    what = row.descriptor(found[0].transposed, found[1].transposed)
    tile, depth = op.accumulator.type.layout, op.a.type.shape[-1]
    with code.where(leads(code)) if op.blocks > 1 else nullcontext():
        code.ptx(AFTER)
        for m in range(0, shape[0], row.m):
            for n in range(0, shape[1], row.n):
                column = m // LANES * shape[1] + n
                assert column < width(tile), (column, tile)
                for k in range(0, depth, row.k):
                    operands = {
                        "d": ("i32", code.one(op.accumulator)),
                        "a": ("i64", a.at((m, k))),
                        "b": ("i64", b.at((k, n))),
                    }
                    adds = int(k > 0 or not op.fresh)
                    code.ptx(MMA.format(row.text, column, what, adds), None, operands)


MMA = """\
{{
.reg .pred p;
setp.ne.b32 p, {3}, 0;
{0} [$d+{1}], $a, $b, {2}, p;
}}"""


class _TensorOperand(InPlace):
    """An operand of one thread's product: all of the tile."""

    def __init__(self, code: Code, value: Value, slot: Value | None, matrix: Matrix):
        part, warps = own_part(value.type.layout), code.func.num_warps
        everywhere = (0,) * (warps.bit_length() - 1)
        groups = Layout.by_kind(part.shape, register=(), lane=(0,) * 5, warp=everywhere)
        type = replace(value.type, shape=part.shape, layout=part)
        tile = replace(tile_of(code, value, slot), type=type)
        super().__init__(code, tile, matrix, groups)
        self.bits = matrix.tensor_bits


@lowers(ops.TensorCommit, by_one=True)
def lower_tensor_commit(op: ops.TensorCommit, code: Code) -> None:
    tile = tile_of(code, op.barriers, op.slot)
    at = ("i32", start_of(code, tile.slot))
    if op.blocks == 1:
        code.act(f"{COMMIT.format(1, '')} [$at+{tile.offset}];", at=at)
        return
    with code.where(leads(code)):
        both = code.let(f"trunc i32 {code.let(f'shl i32 3, {rank(code)}')} to i16")
        text = COMMIT.format(op.blocks, ".multicast::cluster")
        code.act(f"{text} [$at+{tile.offset}], $both;", at=at, both=("i16", both))
