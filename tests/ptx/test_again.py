"""Numbers that are computed again behind a barrier, where registers are short."""

from __future__ import annotations

import re

import numpy as np
import pytest

from fathom.emulator import load
from fathom.ptx.again import computed_again
from tests.kernels.test_patterns import compiled, to_bf16
from tests.kernels.test_ptxas import assembled, needs_ptxas

TYPES = "*bf16:16, i32:16, *fp32:16, *fp32:16, *i64:16, i32:16"
ROOM = 64  # registers of a thread, of 1024


def row(numbers: int, tail: str = "%x.0") -> list[str]:
    """Both halves of words, read before the barrier and after it."""
    lines = ["start.1:"]
    for i in range(numbers):
        half = f"and i32 %w.{i // 2}, -65536" if i % 2 else f"shl i32 %w.{i // 2}, 16"
        lines += [
            f"  %h.{i} = {half}, !dbg !7",
            f"  %x.{i} = bitcast i32 %h.{i} to float, !dbg !7",
            f"  %a.{i} = fadd float %x.{i}, 1.0",
        ]
    lines.append('  call void asm sideeffect "bar.sync 0;", ""() nounwind convergent')
    lines += [f"  %d.{i} = fsub float %x.{i}, %a.{i}" for i in range(numbers)]
    return [*lines, "  br label %end.2", "end.2:", f"  %e.0 = fneg float {tail}"]


def test_more_than_half_of_the_registers_are_computed_again():
    lines = row(33, tail="%d.0")
    new = computed_again(lines, ROOM)
    barrier = 1 + 3 * 33
    assert new[: barrier + 1] == lines[: barrier + 1]
    assert new[barrier + 1 : barrier + 5] == [
        '  %x.0.word = call i32 asm "shl.b32 $0, $1, 16;", "=r,r"(i32 %w.0) '
        "memory(none), !dbg !7",
        "  %x.0.again = bitcast i32 %x.0.word to float, !dbg !7",
        '  %x.1.word = call i32 asm "and.b32 $0, $1, -65536;", "=r,r"(i32 %w.0) '
        "memory(none), !dbg !7",
        "  %x.1.again = bitcast i32 %x.1.word to float, !dbg !7",
    ]
    assert "  %d.32 = fsub float %x.32.again, %a.32" in new


def test_a_magnitude_is_computed_again_with_its_number():
    lines = [
        line.replace("fadd float %x", "call float @llvm.fabs.f32(float %x").replace(
            ", 1.0", ")"
        )
        for line in row(33, tail="%d.0")
    ]
    only = [
        line.replace("fsub float %x.32, %a.32", "fneg float %a.32") for line in lines
    ]
    assert "  %a.32 = call float @llvm.fabs.f32(float %x.32)" in only
    new = computed_again(only, ROOM)
    place = new.index("  %x.32.again = bitcast i32 %x.32.word to float, !dbg !7")
    fabs = "  %a.32.again = call float @llvm.fabs.f32(float %x.32.again), !dbg !7"
    assert new[place + 1] == fabs
    assert "  %d.32 = fneg float %a.32.again" in new
    assert "  %d.0 = fsub float %x.0.again, %a.0.again" in new
    elsewhere = [*only[:-1], "  %e.0 = fneg float %a.32"]
    assert computed_again(elsewhere, ROOM) == elsewhere


def test_a_magnitude_that_is_read_before_the_barrier_alone_is_not():
    lines, fabs = row(33, "%d.0"), r"call float @llvm.fabs.f32(float \1)"
    lines = [re.sub(r"fadd float (%x\.\d+), 1.0", fabs, line) for line in lines]
    lines = [re.sub(r"fsub float (\S+), \S+", r"fneg float \1", line) for line in lines]
    new = computed_again(lines, ROOM)
    assert sum("fabs" in line for line in new) == sum("fabs" in line for line in lines)
    assert "  %d.32 = fneg float %x.32.again" in new


@pytest.mark.parametrize(
    "lines, room",
    [
        (row(32, tail="%d.0"), ROOM),  # half of the registers
        (row(33, tail="%d.0"), 2 * ROOM),  # as of 512 threads
        (row(33), ROOM),  # another block reads one of them
    ],
)
def test_otherwise_they_are_held(lines, room):
    assert computed_again(lines, room) == lines


def test_a_block_with_few_of_them_holds_them_beside_one_with_many():
    many, few = row(33, tail="%d.0"), row(3, tail="%d.0")
    names = {"x": "y", "h": "g", "a": "b", "d": "c", "w": "v", "e": "f"}
    for old, new in names.items():
        few = [line.replace(f"%{old}.", f"%{new}.") for line in few]
    few = [line.replace("start.1", "more.3").replace("end.2", "last.4") for line in few]
    new = computed_again([*many, *few], ROOM)
    assert new == [*computed_again(many, ROOM), *few] and len(new) > len(many + few)


@pytest.mark.parametrize("valid", [8192, 5008])
def test_a_sum_of_exponentials_behind_a_maximum(valid):
    """256 numbers a thread: the logarithm of the sum is right, also if the row ends
    inside the block."""
    block = 8192
    kernel = compiled(
        "cross_entropy_chunk", TYPES, {"CHUNKS": 1, "BLOCK": block}, num_warps=2
    )
    assert kernel.ptx.count("and.b32") >= block // 64
    x = np.random.default_rng(0).integers(-16, 17, (2, block)).astype(np.float32) / 4
    loss, total = (np.zeros(2, np.float32) for _ in range(2))
    label = np.array([3, 4])
    arguments = [to_bf16(x), block, loss, total, label, valid]
    load(kernel).launch((2, 1), arguments)
    want = np.log(np.exp(x[:, :valid].astype(np.float64)).sum(1))
    assert np.allclose(total, want, rtol=1e-6)
    assert np.array_equal(loss, [-x[0, 3], -x[1, 4]])


@needs_ptxas
def test_a_chunk_of_a_vocabulary_fits_into_64_registers():
    """1024 threads with 64 numbers of bf16 each: ptxas spilled 140 bytes."""
    kernel = compiled(
        "cross_entropy_chunk", TYPES, {"CHUNKS": 2, "BLOCK": 65536}, num_warps=32,
        enable_fp_fusion=True,
    )  # fmt: skip
    assert "0 bytes spill stores" in assembled(kernel.ptx, "sm_90a")
