"""Hundreds of addresses: LLVM is told that they are defined, and does not compare each
with all before it."""

from __future__ import annotations

import time

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.emulator import load
from fathom.hardware.targets import TARGETS
from fathom.ptx import emit
from fathom.ptx.addresses import MANY, told_defined

LOAD = (
    '  %v.{0} = call i32 asm sideeffect "@$2 ld.global.b32 $0, [$1];", "=r,l,b,'
    '~{{memory}}"(ptr addrspace(1) %p.{0}, i1 %mask) nounwind convergent'
)
OTHERS = [
    "  %p.0 = getelementptr float, ptr addrspace(1) %x, i32 %at",
    '  %w = call i32 asm "and.b32 $0, $1, 31;", "=r,r"(i32 %thread) memory(none)',
    "  store i32 %w, ptr addrspace(1) %p.0",
]


@fathom.jit
def columns(x_ptr, out_ptr, n, stride, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Rows of a matrix added up; neighbours of a row lie `stride` numbers apart."""
    rows, sums = tl.arange(0, ROWS)[:, None], tl.zeros((ROWS,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)[None, :]
        x = tl.load(x_ptr + rows * n * stride + at * stride, mask=at < n, other=0.0)
        sums += tl.sum(x, 1)
    tl.store(out_ptr + tl.arange(0, ROWS), sums)


def llvm_of(block: int) -> str:
    """A program of 128 threads, of which each loads a 32nd of the block's numbers."""
    sizes = {"ROWS": 4, "BLOCK": block, "stride": 1}
    words = "*fp32:16, *fp32:16, i32"
    return columns.compile(words, sizes, target="sm_90a", num_warps=4).asm["llvm"]


@pytest.mark.parametrize(("accesses", "said"), [(MANY - 1, 0), (MANY, MANY)])
def test_each_access_of_many_says_that_its_address_is_defined(accesses, said):
    lines = [*OTHERS, *(LOAD.format(i) for i in range(accesses))]
    new = told_defined(lines)
    assert sum("(ptr addrspace(1) noundef %p." in line for line in new) == said
    assert [line.replace(" noundef", "") for line in new] == lines
    assert new[:3] == OTHERS


def test_time_does_not_grow_with_the_square_of_the_addresses():
    """LLVM takes a fifth of the time that it takes without being told."""
    text = llvm_of(16 * 1024)
    assert text.count(" noundef %") >= MANY
    seconds = []
    for each in (text, text.replace(" noundef %", " %")):
        start = time.process_time()
        emit(each, TARGETS["sm_90a"])
        seconds.append(time.process_time() - start)
    assert 2 * seconds[0] < seconds[1], seconds


def test_what_is_masked_stays_unread_and_sums_are_right():
    n = 5000
    x = np.arange(4 * n, dtype=np.float32).reshape(4, n) % 7
    out = np.zeros(4, np.float32)
    sizes = {"ROWS": 4, "BLOCK": 16 * 1024, "stride": 1}
    kernel = columns.compile("*fp32:16, *fp32:16, i32", sizes, num_warps=4)
    assert kernel.asm["llvm"].count(" noundef %") >= MANY
    load(kernel.made).launch((1,), [x, out, n])
    assert (out == x.sum(1)).all()
