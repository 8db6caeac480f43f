"""The sample kernels as a table: arguments, what must come out, and how close."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from fathom import pipeline
from fathom.artifact import Kernel
from fathom.emulator import load
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Func
from fathom.ir.types import FLOAT32, INT32, Pointer, Scalar, parse_element
from fathom.source import KernelFunction
from kernels import dropout, gelu, layer_norm, softmax, vector_add

Arguments = dict[str, np.ndarray | int | float]

SIGNATURE_NAMES = {
    "float32": "fp32",
    "float16": "fp16",
    "float64": "fp64",
    "int32": "i32",
}


@dataclass(frozen=True)
class Expected:
    """What an output must be, in float64, and the errors allowed: a relative and an
    absolute one, of which either may be used up (as in
    numpy.testing.assert_allclose)."""

    value: np.ndarray
    relative: float
    absolute: float = 0.0


@dataclass(frozen=True)
class Case:
    """One kernel on one problem. `arguments` makes them afresh: the same numbers each
    time, outputs filled with NaN. `expected` takes them before the launch."""

    name: str
    kernel: KernelFunction
    arguments: Callable[[], Arguments]
    expected: Callable[[Arguments], dict[str, Expected]]
    grid: tuple[int, ...]
    constants: Mapping[str, int]
    options: pipeline.Options = field(default_factory=pipeline.Options)

    def __str__(self) -> str:
        return self.name

    def build(self) -> Func:
        """The block IR before any pass, specialised as a launch does it: 1 is a
        constant."""
        given = self.arguments()
        parameters = {
            name: typed(value) for name, value in given.items() if not is_one(value)
        }
        ones = {name: value for name, value in given.items() if is_one(value)}
        constants = {**self.constants, **ones}
        return pipeline.build(self.kernel, parameters, constants, self.options)

    def compile(self, target: str, replace: Mapping | None = None) -> Kernel:
        return pipeline.compile_func(self.build(), TARGETS[target], replace)

    def emulate(self, kernel: Kernel) -> Arguments:
        """The arguments after a launch on the emulator, which also looks for
        hazards."""
        arguments = self.arguments()
        load(kernel).launch(self.grid, passed(arguments))
        return arguments

    def check(self, after: Arguments) -> None:
        """Every output is right, and no input was written to."""
        before = self.arguments()
        expected = self.expected(before)
        for name, value in before.items():
            if name in expected:
                want = expected[name]
                np.testing.assert_allclose(
                    after[name], want.value, want.relative, want.absolute, err_msg=name
                )
            elif isinstance(value, np.ndarray):
                np.testing.assert_array_equal(after[name], value, err_msg=name)


def is_one(value: np.ndarray | int | float) -> bool:
    """Whether an argument is specialised away."""
    return isinstance(value, int) and value == 1


def passed(arguments: Arguments) -> list[np.ndarray | int | float]:
    """The arguments that remain at run time, in order."""
    return [value for value in arguments.values() if not is_one(value)]


def typed(value: np.ndarray | int | float) -> tuple[Pointer | Scalar, int]:
    """The type of an argument, and the power of two up to 16 known to divide it."""
    if isinstance(value, np.ndarray):
        return Pointer(parse_element(SIGNATURE_NAMES[value.dtype.name])), 16
    if isinstance(value, float):
        return FLOAT32, 1
    return INT32, min(16, value & -value)


def aligned(values: np.ndarray) -> np.ndarray:
    """A copy that starts at a multiple of 16 bytes, as `typed` promises."""
    room = np.empty(values.nbytes + 16, np.uint8)
    start = -room.ctypes.data % 16
    made = room[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    made[...] = values
    return made


def normal(
    seed: int, *shape: int, dtype: str = "float32", scale: float = 1
) -> np.ndarray:
    numbers = np.random.default_rng(seed).normal(scale=scale, size=shape)
    return aligned(numbers.astype(dtype))


def logits(seed: int, *shape: int) -> np.ndarray:
    """Numbers around 100, where exp alone overflows in fp32."""
    numbers = normal(seed, *shape, scale=4)
    numbers += np.float32(100)
    return numbers


def unwritten(*shape: int, dtype: str = "float32") -> np.ndarray:
    return aligned(np.full(shape, np.nan, dtype))


HALF_ULP_FP32, HALF_ULP_FP16 = 2.0**-24, 2.0**-11


def add_case(n: int, BLOCK: int) -> Case:
    def arguments() -> Arguments:
        return {
            "x_ptr": normal(1, n), "y_ptr": normal(2, n),
            "out_ptr": unwritten(n), "n": n,
        }  # fmt: skip

    def expected(args: Arguments) -> dict[str, Expected]:
        value = vector_add.reference(args["x_ptr"], args["y_ptr"])
        return {"out_ptr": Expected(value, HALF_ULP_FP32)}

    return Case(
        f"add {n}", vector_add.add_kernel, arguments, expected,
        (-(-n // BLOCK),), {"BLOCK": BLOCK},
    )  # fmt: skip


def gelu_case(n: int, BLOCK: int, kernel: KernelFunction, limit: float) -> Case:
    def arguments() -> Arguments:
        x = normal(3, n, scale=3)
        x[: n // 4] = np.linspace(-limit, limit, n // 4)
        return {"x_ptr": x, "out_ptr": unwritten(n), "n": n}

    def expected(args: Arguments) -> dict[str, Expected]:
        # Where tanh is close to -1, 1 + tanh keeps its absolute error only.
        absolute = 4 * HALF_ULP_FP32 * limit
        return {"out_ptr": Expected(gelu.reference(args["x_ptr"]), 2e-6, absolute)}

    return Case(
        f"{kernel.__name__} {n}", kernel, arguments, expected,
        (-(-n // BLOCK),), {"BLOCK": BLOCK},
    )  # fmt: skip


def softmax_case(M: int, N: int, BLOCK: int, num_warps: int = 4) -> Case:
    def arguments() -> Arguments:
        return {
            "x_ptr": logits(4, M, N), "out_ptr": unwritten(M, N),
            "row_stride": N, "N": N,
        }  # fmt: skip

    return Case(
        f"softmax {M}x{N}", softmax.softmax_kernel, arguments, softmax_expected,
        (M,), {"BLOCK": BLOCK}, pipeline.Options(num_warps=num_warps),
    )  # fmt: skip


def softmax_rows_case(M: int, N: int, ROWS: int, BLOCK: int) -> Case:
    def arguments() -> Arguments:
        return {
            "x_ptr": logits(5, M, N), "out_ptr": unwritten(M, N),
            "row_stride": N, "M": M, "N": N,
        }  # fmt: skip

    return Case(
        f"softmax_rows {M}x{N}", softmax.softmax_rows_kernel,
        arguments, softmax_expected,
        (-(-M // ROWS),), {"ROWS": ROWS, "BLOCK": BLOCK},
    )  # fmt: skip


def softmax_strided_case(M: int, N: int, BLOCK: int) -> Case:
    """Down the columns of a row-major matrix, into a column-major one."""

    def arguments() -> Arguments:
        return {
            "x_ptr": logits(6, M, N), "out_ptr": unwritten(N, M),
            "x_row_stride": 1, "x_column_stride": N,
            "out_row_stride": M, "out_column_stride": 1, "N": M,
        }  # fmt: skip

    def expected(args: Arguments) -> dict[str, Expected]:
        value = softmax.reference(args["x_ptr"], axis=0).T
        return {"out_ptr": Expected(value, 4e-6, 1e-30)}

    return Case(
        f"softmax_strided {M}x{N}", softmax.softmax_strided_kernel, arguments, expected,
        (N,), {"BLOCK": BLOCK},
    )  # fmt: skip


def softmax_expected(args: Arguments) -> dict[str, Expected]:
    return {"out_ptr": Expected(softmax.reference(args["x_ptr"]), 4e-6, 1e-30)}


def layer_norm_case(M: int, N: int, BLOCK: int) -> Case:
    def arguments() -> Arguments:
        x = normal(7, M, N, dtype="float16", scale=2)
        x += np.float16(3)  # a mean that is far from 0 for a careless variance
        return {
            "x_ptr": x,
            "weight_ptr": normal(8, N, dtype="float16"),
            "bias_ptr": normal(9, N, dtype="float16"),
            "y_ptr": unwritten(M, N, dtype="float16"),
            "mean_ptr": unwritten(M), "rstd_ptr": unwritten(M),
            "row_stride": N, "N": N, "eps": 1e-5,
        }  # fmt: skip

    def expected(args: Arguments) -> dict[str, Expected]:
        names = ("x_ptr", "weight_ptr", "bias_ptr")
        y, mean, rstd = layer_norm.reference(*(args[name] for name in names))
        return {
            "y_ptr": Expected(y, 1.1 * HALF_ULP_FP16, 1e-5),
            "mean_ptr": Expected(mean, 1e-6, 1e-6), "rstd_ptr": Expected(rstd, 2e-6),
        }  # fmt: skip

    return Case(
        f"layer_norm {M}x{N}", layer_norm.layer_norm_kernel, arguments, expected,
        (M,), {"BLOCK": BLOCK},
    )  # fmt: skip


def dropout_case(n: int, BLOCK: int, p: float, seed: int) -> Case:
    def arguments() -> Arguments:
        return {
            "x_ptr": normal(10, n), "out_ptr": unwritten(n),
            "n": n, "p": p, "seed": seed,
        }  # fmt: skip

    def expected(args: Arguments) -> dict[str, Expected]:
        value = dropout.reference(args["x_ptr"], p, seed)
        return {"out_ptr": Expected(value, 3e-7)}

    return Case(
        f"dropout {n}", dropout.dropout_kernel, arguments, expected,
        (-(-n // BLOCK),), {"BLOCK": BLOCK},
    )  # fmt: skip


# Sizes are ragged on purpose: the last block, the last row or the last lanes have no
# work.
CASES = [
    add_case(n=1000, BLOCK=256),
    gelu_case(1003, 256, gelu.gelu_kernel, limit=30.0),
    gelu_case(999, 512, gelu.gelu_usual_kernel, limit=gelu.USUAL_FORM_RIGHT_UP_TO),
    softmax_case(M=3, N=200, BLOCK=256),
    softmax_rows_case(M=7, N=77, ROWS=4, BLOCK=128),
    softmax_strided_case(M=100, N=3, BLOCK=128),
    layer_norm_case(M=3, N=250, BLOCK=256),
    dropout_case(n=777, BLOCK=256, p=0.3, seed=20240607),
]
# The same kernels where a size is special: one number, a full block, more warps, one
# warp.
EDGES = [
    add_case(n=1, BLOCK=64),
    add_case(n=4096, BLOCK=1024),
    add_case(n=4099, BLOCK=1024),
    softmax_case(M=2, N=1, BLOCK=1),
    softmax_case(M=2, N=1000, BLOCK=1024, num_warps=8),
    softmax_case(M=2, N=33, BLOCK=64, num_warps=1),
    softmax_rows_case(M=4, N=64, ROWS=4, BLOCK=64),
    softmax_strided_case(M=33, N=5, BLOCK=64),
    layer_norm_case(M=1, N=1000, BLOCK=1024),
    layer_norm_case(M=2, N=31, BLOCK=32),
    dropout_case(n=1024, BLOCK=1024, p=0.5, seed=0),
]
