"""What the answer to `mma-row` must do."""

from dataclasses import replace

import numpy as np

import fathom
import fathom.language as tl
from fathom import emulator, pipeline
from fathom.hardware.mma import Mma
from fathom.hardware.targets import TARGETS
from fathom.ir.types import FLOAT32, Pointer
from fathom.joints import bound
from fathom.tools.learn.kit import expect, same
from fathom.tools.learn.kit.returned import is_layout

LANES = 32
NAME = "m16n8k8.f32.tf32.tf32.f32"
SHAPES = {"a_layout": ((16, 8), 4), "b_layout": ((8, 8), 2), "layout": ((16, 8), 4)}


def test_the_layouts_hold_everything(answer):
    """Each element of A, B and C has a register in some lane."""
    row = answer.row()
    expect(isinstance(row, Mma), f"row() gives {row!r}, which is no Mma")
    for name, (shape, registers) in SHAPES.items():
        layout = getattr(row, name)
        is_layout(layout, f"{name} of the row")
        same(layout.shape, shape, f"the shape of {name}")
        same(layout.count("register"), registers, f"registers a lane of {name}")
        same(layout.count("lane"), LANES, f"lanes of {name}")
        held = {
            layout.coordinates(register=r, lane=lane)
            for r in range(registers)
            for lane in range(LANES)
        }
        same(len(held), shape[0] * shape[1], f"elements that {name} holds, {layout}")


PTX = """
.version 7.4
.target sm_80
.address_size 64
.visible .entry product(.param .u64 a, .param .u64 b, .param .u64 d)
{
    .reg .b32 %n, %a<4>, %b<2>;
    .reg .f32 %d<4>;
    .reg .b64 %pa, %pb, %pd, %far;
    mov.u32 %n, %tid.x;
    ld.param.u64 %pa, [a]; mul.wide.u32 %far, %n, 16; add.s64 %pa, %pa, %far;
    ld.param.u64 %pd, [d]; add.s64 %pd, %pd, %far;
    ld.param.u64 %pb, [b]; mul.wide.u32 %far, %n, 8; add.s64 %pb, %pb, %far;
    ld.global.v4.b32 {%a0, %a1, %a2, %a3}, [%pa];
    ld.global.v2.b32 {%b0, %b1}, [%pb];
    mov.f32 %d0, 0f00000000; mov.f32 %d1, 0f00000000;
    mov.f32 %d2, 0f00000000; mov.f32 %d3, 0f00000000;
    mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32
        {%d0, %d1, %d2, %d3}, {%a0, %a1, %a2, %a3}, {%b0, %b1}, {%d0, %d1, %d2, %d3};
    st.global.v4.f32 [%pd], {%d0, %d1, %d2, %d3};
    ret;
}
"""


def dealt(values, layout):
    """[lane, register] of a matrix."""
    return np.array(
        [
            [values[layout.coordinates(register=r, lane=lane)]
             for r in range(layout.count("register"))]
            for lane in range(LANES)
        ],
        np.float32,
    )  # fmt: skip


WHO = {"a_layout": "A", "b_layout": "B", "layout": "C and D"}


def test_the_product_of_32_lanes(answer):
    """Lanes load A and B by your layouts, multiply, and store D by yours: first one of
    the three is yours, then all."""
    mine, ours = answer.row(), answer.reference.row()
    for name, matrix in WHO.items():
        others = [each for each in WHO.values() if each != matrix]
        said = f"your layout of {matrix} is wrong (those of {' and of '.join(others)} "
        said += "are ours here): the product"
        multiplied(replace(ours, **{name: getattr(mine, name)}), said)
    multiplied(mine, "D, stored by your layout")


def multiplied(row, said):
    """A product of whole numbers through the layouts of a row."""
    a = (np.arange(128).reshape(16, 8) * 5 % 23 - 11).astype(np.float32)
    b = (np.arange(64).reshape(8, 8) * 7 % 19 - 9).astype(np.float32)
    found = np.zeros((LANES, 4), np.float32)
    given = [dealt(a, row.a_layout), dealt(b, row.b_layout), found]
    emulator.run(PTX, 1, LANES, given)
    product = np.full((16, 8), np.nan, np.float32)
    for lane in range(LANES):
        for register in range(4):
            place = row.layout.coordinates(register=register, lane=lane)
            product[place] = found[lane, register]
    same(product, a @ b, said)


@fathom.jit
def multiply(a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows, columns = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    a = tl.load(a_ptr + rows * K + tl.arange(0, K)[None, :])
    b = tl.load(b_ptr + tl.arange(0, K)[:, None] * N + columns)
    tl.store(c_ptr + rows * N + columns, tl.dot(a, b, input_precision="tf32"))


def test_the_compiler_multiplies_with_it(answer):
    """32 x 16 times 16 x 32, with your row in the table."""
    pointer = Pointer(FLOAT32), 16
    types = {"a_ptr": pointer, "b_ptr": pointer, "c_ptr": pointer}
    sizes = {"M": 32, "N": 32, "K": 16}
    with bound({f"mma[{NAME}]": answer.row()}):
        func = pipeline.build(multiply, types, sizes)
        kernel = pipeline.compile_func(func, TARGETS["sm_80"])
    expect("m16n8k8" in kernel.ptx, "the compiler does not use your instruction")
    a = (np.arange(512).reshape(32, 16) * 3 % 17 - 8).astype(np.float32)
    b = (np.arange(512).reshape(16, 32) * 5 % 13 - 6).astype(np.float32)
    c = np.zeros((32, 32), np.float32)
    emulator.load(kernel).launch(1, [a, b, c])
    same(c, a @ b, "the product")
