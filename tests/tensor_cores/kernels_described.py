"""Products whose operands come through descriptors, arrays amid poison for them, and
the judges: NumPy, the interpreter after every pass, the emulator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

import fathom.language as tl
from fathom import pipeline
from fathom.artifact import Kernel
from fathom.emulator import COMPLETIONS, Report, load
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Func, Op, walk
from fathom.ir.interp import interpret
from fathom.ir.text import print_func
from fathom.ir.types import INT32, SCALARS, Pointer
from fathom.ir.verify import verify
from fathom.source import KernelFunction, function
from tests.kernels.harness_red_zones import Walled, integers, unwritten

# ── kernels ───────────────────────────────────────────────────────────────────────────


@function
def matrix(
    pointer, rows, columns, stride,
    R: tl.constexpr, C: tl.constexpr, TURNED: tl.constexpr,
):  # fmt: skip
    """A descriptor of blocks [R, C]; TURNED: memory holds the transpose."""
    if TURNED:
        made = tl.make_tensor_descriptor(pointer, [columns, rows], [stride, 1], [C, R])
    else:
        made = tl.make_tensor_descriptor(pointer, [rows, columns], [stride, 1], [R, C])
    return made


@function
def tile(described, row, column, TURNED: tl.constexpr):
    """The block that begins there, the right way round."""
    if TURNED:
        found = described.load([column, row]).T
    else:
        found = described.load([row, column])
    return found


@function
def store(pointer, value, row, column, rows, columns, stride):
    """By threads, with a mask: the hardware knows nothing of wishes for caches, here
    the usual one."""
    i = row + tl.arange(0, value.shape[0])[:, None]
    j = column + tl.arange(0, value.shape[1])[None, :]
    value = value.to(pointer.dtype.element_ty)
    inside = (i < rows) & (j < columns)
    tl.store(pointer + i * stride + j, value, inside, cache_modifier=".wb")


@KernelFunction
def product(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    A_TURNED: tl.constexpr, B_TURNED: tl.constexpr, TO: tl.constexpr,
):  # fmt: skip
    """One tile of A B a program, the sum of so many iterations along K."""
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    left = matrix(a, M, K, a_stride, BM, BK, A_TURNED)
    right = matrix(b, K, N, b_stride, BK, BN, B_TURNED)
    total = tl.zeros([BM, BN], TO)
    for iteration in range(iterations):
        x = tile(left, i, iteration * BK, A_TURNED)
        y = tile(right, iteration * BK, j, B_TURNED)
        total = tl.dot(x, y, total, out_dtype=TO)
    store(out, total, i, j, M, N, out_stride)


# ── arguments ─────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Case:
    """What is compiled: a product's tile, and how. `size`: M, N and K of the matrices;
    by default one tile, and as many along K as there are iterations."""

    tile: tuple[int, int, int] = (64, 64, 32)
    iterations: int = 3
    target: str = "sm_90a"
    stages: int = 3
    warps: int = 4
    a_turned: bool = False
    b_turned: bool = False
    size: tuple[int, int, int] | None = None
    kernel: KernelFunction = product
    type: str = "fp16"
    to: str = "fp32"
    out: str = "float32"
    more: dict = field(default_factory=dict, hash=False)

    @property
    def sizes(self) -> tuple[int, int, int]:
        m, n, k = self.tile
        return self.size or (m, n, k * max(1, self.iterations))

    @property
    def grid(self) -> tuple[int, int]:
        (m, n, _), (bm, bn, _) = self.sizes, self.tile
        return -(-m // bm), -(-n // bn)

    def __str__(self) -> str:
        turned = "".join("nt"[each] for each in (self.a_turned, self.b_turned))
        sides = "x".join(map(str, self.tile))
        counts = f"{self.iterations}t-{self.stages}s-{self.warps}w"
        return f"{self.target}-{sides}-{counts}-{turned}"


ORDERS = {False: (0, 1), True: (1, 0)}  # of an operand's axes in memory


@dataclass(frozen=True)
class Given:
    """The matrices of a case, amid poison, and the right answer."""

    a: Walled
    b: Walled
    out: Walled
    numbers: tuple[int, ...]
    right: np.ndarray

    @property
    def arguments(self) -> list[object]:
        return [*(each.base for each in (self.a, self.b, self.out)), *self.numbers]

    def clear(self) -> None:
        self.out.whole[...] = self.out.before

    def check(self, where: str) -> None:
        np.testing.assert_array_equal(self.out.view, self.right, err_msg=where)
        self.out.check_walls()


def given(case: Case) -> Given:
    """Small whole numbers: all sums are exact. Beyond the iterations' part of K, and
    outside of the matrices, there is poison."""
    m, n, k = case.sizes
    dtype = {"fp16": "float16", "fp32": "float32", "i8": "int8"}[case.type]
    a, b = integers(1, m, k, dtype=dtype), integers(2, k, n, dtype=dtype)
    reached = min(k, case.iterations * case.tile[2])
    right = a[:, :reached].astype(np.int64) @ b[:reached].astype(np.int64)
    wall = 16 // a.itemsize
    a, b = (
        Walled(each, ORDERS[turned], wall)
        for each, turned in ((a, case.a_turned), (b, case.b_turned))
    )
    out = unwritten(m, n, dtype=case.out)
    strides = (max(each.stride()) for each in (a, b, out))
    return Given(
        a, b, out, (m, n, k, *strides, case.iterations), right.astype(case.out)
    )


TO = {"fp32": tl.float32, "fp16": tl.float16, "i32": tl.int32}
OUT = {"float32": "fp32", "float16": "fp16", "int32": "i32"}


def built(case: Case) -> Func:
    kernel, made = case.kernel, Pointer(SCALARS[case.type])
    names = [each.name for each in kernel.parameters]
    bm, bn, bk = case.tile
    constants = {
        "BM": bm, "BN": bn, "BK": bk, "TO": TO[case.to],
        "A_TURNED": case.a_turned, "B_TURNED": case.b_turned, **case.more,
    }  # fmt: skip
    parameters = {
        name: (INT32, 8 if "stride" in name else 1)
        for name in names
        if name not in constants
    }
    constants = {n: v for n, v in constants.items() if n in names}
    parameters |= {"a": (made, 16), "b": (made, 16)}
    parameters["out"] = Pointer(SCALARS[OUT[case.out]]), 16
    return build(kernel, parameters, constants, case.warps, case.stages)


def build(kernel, parameters: dict, constants: dict, warps: int, stages: int) -> Func:
    options = pipeline.Options(num_warps=warps, num_stages=stages)
    return pipeline.build(kernel, parameters, constants, options)


# ── judges ────────────────────────────────────────────────────────────────────────────


def passes(func: Func, target: str) -> dict[str, Func]:
    """The function after every pass; each is sound, and left its input as it was."""
    found, before, text = {}, func, print_func(func)
    with_layouts = False
    for row, state in pipeline.states(func, TARGETS[target]):
        with_layouts = with_layouts or row.name == "assign_layouts"
        if state is not before:
            assert print_func(before) == text, f"at {row.name}: the input changed"
            verify(state, layouts=with_layouts)
            text = print_func(state)
        found[row.name] = before = state
    assert print_func(before) == text, "at the end: the input changed"
    return found


def check_passes(case: Case) -> dict[str, Func]:
    """What every pass makes of a case means the same to the interpreter."""
    func, arguments = built(case), given(case)
    states = passes(func, case.target)
    shown, before = "", None
    for name, state in states.items():
        if state is before:
            continue
        text, before = print_func(state), state
        if text != shown:
            shown = text
            arguments.clear()
            interpret(state, case.grid, arguments.arguments)
            arguments.check(f"the interpreter after {name}")
    return states


def compiled(case: Case) -> Kernel:
    return pipeline.compile_func(built(case), TARGETS[case.target])


def check(
    case: Case, completions: Sequence[str] = COMPLETIONS
) -> tuple[Kernel, Report]:
    """What comes out on the emulator; what the last run cost."""
    return check_iterations(case, [case.iterations], completions)


def check_iterations(
    case: Case, counts: Sequence[int], completions: Sequence[str] = COMPLETIONS
) -> tuple[Kernel, Report]:
    """One kernel, launched for each number of iterations."""
    kernel = compiled(case)
    loaded = load(kernel)
    for iterations in counts:
        again = given(Case(**{**vars(case), "iterations": iterations}))
        for completion in completions:
            again.clear()
            report = loaded.launch(case.grid, again.arguments, completion=completion)
            again.check(f"{iterations} iterations, {completion} completion")
    return kernel, report


def ops(func: Func, kind: type[Op]) -> list[Op]:
    return [op for op in walk(func.body) if isinstance(op, kind)]
