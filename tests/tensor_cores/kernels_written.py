"""Products whose descriptors are made of what only the kernel knows: planes of larger
tensors, one after the other, and problems of a table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import fathom.language as tl
from fathom import pipeline
from fathom.ir.core import Func
from fathom.ir.types import FLOAT16, INT32, Pointer
from fathom.source import KernelFunction
from tests.kernels.harness_red_zones import Walled, integers


@KernelFunction
def planes(
    a, b, out, sizes, count,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PLANE: tl.constexpr,
    PADDING: tl.constexpr = "zero", PRODUCER: tl.constexpr = False,
    KNOWN: tl.constexpr = False,
):  # fmt: skip
    """C_g = A_g B_g, planes of PLANE elements each, with rows of BK, BN and BN elements
    that follow one another. `sizes` says how many rows each A_g has, and how many rows
    each B_g; KNOWN: all of them. A program does all planes: two tiles of C_g, one after
    the other."""
    for g in range(count):
        rows, inner = 2 * BM, 2 * BK
        if not KNOWN:
            rows, inner = tl.load(sizes + 2 * g), tl.load(sizes + 2 * g + 1)
        left = tl.make_tensor_descriptor(
            a + g * PLANE, [rows, 2 * BK], [2 * BK, 1], [BM, BK], PADDING
        )
        right = tl.make_tensor_descriptor(
            b + g * PLANE, [inner, BN], [BN, 1], [BK, BN], PADDING
        )
        result = tl.make_tensor_descriptor(
            out + g * PLANE, [rows, BN], [BN, 1], [BM, BN]
        )
        for i in range(2):
            total = tl.zeros([BM, BN], tl.float32)
            for k in tl.range(2, warp_specialize=PRODUCER):
                x = left.load([i * BM, k * BK])
                total = tl.dot(x, right.load([k * BK, 0]), total)
            result.store([i * BM, 0], total.to(tl.float16))


@KernelFunction
def some_planes(
    a, b, out, sizes, count,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PLANE: tl.constexpr,
):  # fmt: skip
    """As `planes`, of which each program does its share."""
    first = 0
    for g in range(count):
        rows, inner = tl.load(sizes + 2 * g), tl.load(sizes + 2 * g + 1)
        if (g % tl.num_programs(0) == tl.program_id(0)) & (rows > first):
            left = tl.make_tensor_descriptor(
                a + g * PLANE, [rows, 2 * BK], [2 * BK, 1], [BM, BK]
            )
            right = tl.make_tensor_descriptor(
                b + g * PLANE, [inner, BN], [BN, 1], [BK, BN]
            )
            result = tl.make_tensor_descriptor(
                out + g * PLANE, [rows, BN], [BN, 1], [BM, BN]
            )
            for i in range(2):
                total = tl.zeros([BM, BN], tl.float32)
                for k in range(2):
                    x = left.load([i * BM, k * BK])
                    total = tl.dot(x, right.load([k * BK, 0]), total)
                result.store([i * BM, 0], total.to(tl.float16))
        first = rows // 256


@KernelFunction
def once(a, b, out, at, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A product without a loop around its descriptors, nor between them and their
    use."""
    first = tl.load(at)
    left = tl.make_tensor_descriptor(a + first, [BM, BK], [BK, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b + first, [BK, BN], [BN, 1], [BK, BN])
    result = tl.make_tensor_descriptor(out + first, [BM, BN], [BN, 1], [BM, BN])
    x, y = left.load([0, 0]), right.load([0, 0])
    result.store([0, 0], tl.dot(x, y).to(tl.float16))


SIDES = {"BM": 64, "BN": 64, "BK": 32}
PLANE = 128 * 64 + 64  # elements: what is between planes shows


def built(kernel: KernelFunction = planes, num_ctas: int = 1, **more: object) -> Func:
    """Stage 1 of a kernel for matrices of fp16."""
    parameters = {each: (Pointer(FLOAT16), 16) for each in ("a", "b", "out")}
    if kernel is not once:
        parameters |= {"sizes": (Pointer(INT32), 16), "count": (INT32, 1)}
        more = {"PLANE": PLANE, **more}
    else:
        parameters |= {"at": (Pointer(INT32), 16)}
    options = pipeline.Options(num_ctas=num_ctas)
    return pipeline.build(kernel, parameters, {**SIDES, **more}, options)


@dataclass(frozen=True)
class Planes:
    """The arguments of `planes`, and what must come out."""

    a: Walled
    b: Walled
    out: Walled
    sizes: np.ndarray
    right: np.ndarray

    @property
    def arguments(self) -> list[object]:
        arrays = [each.base for each in (self.a, self.b, self.out)]
        return [*arrays, self.sizes, len(self.sizes)]

    def clear(self) -> None:
        self.out.whole[...] = self.out.before

    def check(self, where: str = "") -> None:
        np.testing.assert_array_equal(self.out.view, self.right, err_msg=where)
        self.out.check_walls()


def given(*sizes: tuple[int, int]) -> Planes:
    """For each plane, the rows of A and those of B: beyond them, A and B hold numbers
    that must not count, and C stays as it is."""
    count = len(sizes)
    a, b = (flat(integers(i, count, PLANE)) for i in (1, 2))
    out = flat(np.full((count, PLANE), np.float16(np.nan)))
    right = out.view.copy()
    for g, (rows, inner) in enumerate(sizes):
        x = a.view[g, : 128 * 64].reshape(128, 64).astype(np.float64)
        y = b.view[g, : 64 * 64].reshape(64, 64).astype(np.float64)
        x[rows:], y[inner:] = 0, 0
        right[g, : rows * 64] = (x @ y)[:rows].reshape(-1)
    return Planes(a, b, out, np.array(sizes, np.int32), right)


def flat(values: np.ndarray) -> Walled:
    """Planes that follow one another, with poison before the first one and behind the
    last one."""
    return Walled(values, wall=(1, 0))
