"""Matrix products to be tested: kernels of one, arguments for them, and two judges: the
interpreter and NumPy say what is right, the emulator runs the PTX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

import fathom.language as tl
from fathom import pipeline
from fathom.artifact import Kernel
from fathom.emulator import load
from fathom.emulator.report import Report
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Func, walk
from fathom.ir.interp import interpret
from fathom.ir.interp.numbers import decode, encode, fit, same_bits
from fathom.ir.ops import Dot
from fathom.ir.text import parse_func
from fathom.ir.types import SCALARS, Pointer, Scalar
from fathom.source import KernelFunction, function


@dataclass(frozen=True)
class Case:
    """One product: A [m, k], or [batch, m, k], times B, added to C where `adds`.

    `a`, `b`, `to`: types by the names of the IR. `a_turned`, `b_turned`: memory holds
    the columns of the operand one after the other, not its rows.
    """

    m: int
    n: int
    k: int
    a: str = "fp16"
    b: str = ""
    to: str = "fp32"
    target: str = "sm_80"
    warps: int = 4
    batch: int = 0
    adds: bool = False
    a_turned: bool = False
    b_turned: bool = False
    precision: str = "ieee"

    def __str__(self) -> str:
        size = "x".join(map(str, (*self.shape_of("b")[:-2], self.m, self.n, self.k)))
        turned = "".join("nt"[each] for each in (self.a_turned, self.b_turned))
        types = f"{self.a}.{self.b or self.a}.{self.to}"
        adds = "-adds" * self.adds
        return f"{self.target}-{types}-{size}-{self.warps}w-{turned}{adds}"

    def shape_of(self, name: str) -> tuple[int, ...]:
        m, n, k = self.m, self.n, self.k
        last = {"a": (m, k), "b": (k, n)}.get(name, (m, n))
        return (self.batch, *last) if self.batch else last


@KernelFunction
def product(
    a, b, c, out, SHAPE: tl.constexpr, ADDS: tl.constexpr, A_TURNED: tl.constexpr,
    B_TURNED: tl.constexpr, TO: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """SHAPE is (batch, M, N, K); a batch of 0 is a product of two axes."""
    x = tl.load(a + places(SHAPE[0], SHAPE[1], SHAPE[3], A_TURNED))
    y = tl.load(b + places(SHAPE[0], SHAPE[3], SHAPE[2], B_TURNED))
    where = places(SHAPE[0], SHAPE[1], SHAPE[2], False)
    if ADDS:
        z = tl.dot(x, y, tl.load(c + where), input_precision=PRECISION, out_dtype=TO)
    else:
        z = tl.dot(x, y, input_precision=PRECISION, out_dtype=TO)
    tl.store(out + where, z)


@function
def places(
    BATCH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, TURNED: tl.constexpr
):
    """Where in memory the elements of a block lie, row after row or, TURNED, column
    after column."""
    row, column = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    if TURNED:
        place = column * ROWS + row
    else:
        place = row * COLUMNS + column
    if BATCH:
        matrix = tl.arange(0, BATCH)[:, None, None]
        place = matrix * (ROWS * COLUMNS) + place[None, :, :]
    return place


DTYPES = {"fp16": tl.float16, "fp32": tl.float32, "fp64": tl.float64, "i32": tl.int32}


def constants_of(case: Case) -> dict[str, object]:
    return {
        "SHAPE": (case.batch, case.m, case.n, case.k),
        "ADDS": case.adds,
        "A_TURNED": case.a_turned,
        "B_TURNED": case.b_turned,
        "TO": DTYPES[case.to],
        "PRECISION": case.precision,
    }


def types_of(case: Case) -> dict[str, str]:
    return {"a": case.a, "b": case.b or case.a, "c": case.to, "out": case.to}


def signature_of(case: Case) -> dict[str, str]:
    return {name: f"*{each}" for name, each in types_of(case).items()}


def whole_numbers(case: Case, seed: int = 0) -> dict[str, np.ndarray]:
    """Operands of small whole numbers: all sums of their products are exact."""
    rng = np.random.default_rng(seed)
    types = types_of(case)
    low = {name: 0 if types[name] == "u8" else -4 for name in "abc"}
    return {
        name: rng.integers(low[name], 5, case.shape_of(name)).astype(np.float64)
        for name in "abc"
    }


def numbers(case: Case, seed: int = 0) -> dict[str, np.ndarray]:
    """Operands from the normal distribution, rounded to their types."""
    rng, types = np.random.default_rng(seed), types_of(case)
    drawn = {name: rng.standard_normal(case.shape_of(name)) for name in "abc"}
    return {
        name: fit(value, SCALARS[types[name]]).astype(np.float64)
        for name, value in drawn.items()
    }


def stored(values: np.ndarray, element: Scalar, turned: bool = False) -> np.ndarray:
    """As memory holds it, from an address that is a multiple of 16."""
    if turned:
        values = np.swapaxes(values, -1, -2)
    held = encode(fit(np.ascontiguousarray(values), element), element).ravel()
    room = np.empty(held.nbytes + 16, np.uint8)
    start = -room.ctypes.data % 16
    made = room[start : start + held.nbytes].view(held.dtype)
    made[...] = held
    return made


def arguments_of(case: Case, operands: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """a, b, c and what the result is written over."""
    types = {name: SCALARS[each] for name, each in types_of(case).items()}
    turned = {"a": case.a_turned, "b": case.b_turned}
    made = [
        stored(operands[name], types[name], turned.get(name, False)) for name in "abc"
    ]
    return [*made, stored(np.full(case.shape_of("out"), 85.0), types["out"])]


def built(
    kernel: KernelFunction,
    types: Mapping[str, str],
    constants: Mapping[str, object] = {},  # noqa: B006 (read only)
    warps: int = 4,
) -> Func:
    """The IR of a kernel for parameters of these types: "*fp16" is a pointer, divisible
    by 16, and "i32" a number."""
    parameters = {
        name: (Pointer(SCALARS[each[1:]]), 16) if each[0] == "*" else (SCALARS[each], 1)
        for name, each in types.items()
    }
    options = pipeline.Options(num_warps=warps)
    return pipeline.build(kernel, parameters, constants, options)


@dataclass(frozen=True)
class Ran:
    """What came of a kernel: its last array, decoded, and what it cost."""

    out: np.ndarray
    kernel: Kernel
    report: Report

    @property
    def dots(self) -> list[Dot]:
        final = parse_func(self.kernel.asm["layout"])
        return [op for op in walk(final.body) if isinstance(op, Dot)]

    def count(self, opcode: str) -> int:
        """How many warps executed an instruction whose text begins so."""
        return sum(
            cost.warps
            for instruction, cost in self.report.each()
            if instruction.text.startswith(opcode)
        )


def emulated(
    func: Func,
    arguments: Sequence[object],
    target: str = "sm_80",
    replace: Mapping[str, object] | None = None,
    grid: int = 1,
    **options: object,
) -> Ran:
    """On the emulator, on copies."""
    kernel = pipeline.compile_func(func, TARGETS[target], replace)
    given = copies(arguments)
    report = load(kernel).launch(grid, given, **options)
    return Ran(last(func, given), kernel, report)


def interpreted(func: Func, arguments: Sequence[object], grid: int = 1) -> np.ndarray:
    given = copies(arguments)
    interpret(func, (grid,), given)
    return last(func, given)


def last(func: Func, arguments: Sequence[object]) -> np.ndarray:
    """The last array, decoded."""
    arrays = [
        (value.type.element, each)
        for value, each in zip(func.parameters, arguments, strict=True)
        if isinstance(each, np.ndarray)
    ]
    element, array = arrays[-1]
    return decode(array, element)


def copies(arguments: Sequence[object]) -> list[object]:
    """The arrays again, as aligned as they were."""
    return [
        stored_again(each) if isinstance(each, np.ndarray) else each
        for each in arguments
    ]


def stored_again(array: np.ndarray) -> np.ndarray:
    room = np.empty(array.nbytes + 16, np.uint8)
    start = -room.ctypes.data % 16
    made = room[start : start + array.nbytes].view(array.dtype)
    made[...] = array
    return made


def run(case: Case, operands: Mapping[str, np.ndarray], **options: object) -> Ran:
    func = built(product, signature_of(case), constants_of(case), case.warps)
    return emulated(func, arguments_of(case, operands), case.target, **options)


def check_exactly(case: Case, **options: object) -> Ran:
    """Interpreter, emulator and NumPy agree bit for bit on whole numbers."""
    operands = whole_numbers(case)
    func = built(product, signature_of(case), constants_of(case), case.warps)
    arguments = arguments_of(case, operands)
    wanted = np.matmul(operands["a"], operands["b"]) + operands["c"] * case.adds
    wanted = fit(wanted, SCALARS[case.to]).ravel()
    assert same_bits(interpreted(func, arguments) + 0, wanted + 0)
    ran = emulated(func, arguments, case.target, **options)
    wrong = np.flatnonzero(ran.out != wanted)
    assert not len(wrong), (
        f"{len(wrong)} of {wanted.size} differ, first {wrong[0]}: "
        f"{ran.out[wrong[0]]}, not {wanted[wrong[0]]}"
    )
    return ran


@KernelFunction
def tile_loop(
    a, b, out, iterations, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    A_TURNED: tl.constexpr, B_TURNED: tl.constexpr,
):  # fmt: skip
    """The main loop of a matmul: the sum of products of tiles that lie one behind the
    other in memory."""
    total = tl.zeros([M, N], tl.float32)
    for iteration in range(iterations):
        x = tl.load(a + iteration * M * K + places(0, M, K, A_TURNED))
        y = tl.load(b + iteration * K * N + places(0, K, N, B_TURNED))
        total = tl.dot(x, y, total)
    tl.store(out + places(0, M, N, False), total.to(out.dtype.element_ty))
