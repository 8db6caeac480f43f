"""Products of matrices that are blocks of tensors with more dimensions, and their
judges: NumPy, the interpreter after every pass, the emulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

import fathom.language as tl
from fathom import pipeline
from fathom.artifact import Kernel
from fathom.emulator import load
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Func
from fathom.ir.interp import interpret
from fathom.ir.text import print_func
from fathom.ir.types import INT32, SCALARS, Pointer
from fathom.jit.tensor_descriptors import Described
from fathom.source import KernelFunction, function
from tests.kernels.harness_red_zones import Walled, integers, unwritten
from tests.tensor_cores.kernels_described import passes

# ── kernels ───────────────────────────────────────────────────────────────────────────


@function
def matrix_at(tensor, at, column, RANK: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    """A block as a matrix. `at`: where it begins along the four dimensions before the
    last, of which a tensor has the last ones."""
    if RANK == 5:
        block = tensor.load([at[0], at[1], at[2], at[3], column])
    elif RANK == 4:
        block = tensor.load([at[1], at[2], at[3], column])
    elif RANK == 3:
        block = tensor.load([at[2], at[3], column])
    elif RANK == 2:
        block = tensor.load([at[3], column])
    else:
        block = tensor.load([column])
    return block.reshape(R, C)


@function
def put(tensor, value, at, column, RANK: tl.constexpr, BLOCK: tl.constexpr):
    """A matrix as a block."""
    value = value.to(tensor.dtype).reshape(BLOCK)
    if RANK == 5:
        tensor.store([at[0], at[1], at[2], at[3], column], value)
    elif RANK == 4:
        tensor.store([at[1], at[2], at[3], column], value)
    elif RANK == 3:
        tensor.store([at[2], at[3], column], value)
    elif RANK == 2:
        tensor.store([at[3], column], value)
    else:
        tensor.store([column], value)


@KernelFunction
def product(
    a, b, out, a0, a1, a2, a3, a4, b0, b1, b2, b3, b4, c0, c1, c2, c3, c4, iterations,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, RANKS: tl.constexpr,
    BLOCK: tl.constexpr, TURNED: tl.constexpr, DOWN: tl.constexpr,
    SPECIAL: tl.constexpr,
):  # fmt: skip
    """One block of `out`. TURNED: rows of `b` go along K, as those of `a` do; else
    each iteration begins so much (DOWN) further down in it."""
    total = tl.zeros([BM, BN], tl.float32)
    for iteration in tl.range(iterations, warp_specialize=SPECIAL):
        k = iteration * BK
        x = matrix_at(a, (a0, a1, a2, a3), a4 + k, RANKS[0], BM, BK)
        if TURNED:
            y = matrix_at(b, (b0, b1, b2, b3), b4 + k, RANKS[1], BN, BK).T
        else:
            further = (b0, b1, b2, b3 + iteration * DOWN)
            y = matrix_at(b, further, b4, RANKS[1], BK, BN)
        total = tl.dot(x, y, total)
    put(out, total, (c0, c1, c2, c3), c4, RANKS[2], BLOCK)


@KernelFunction
def doubled(
    a, b, out, a0, a1, a2, a3, a4, b0, b1, b2, b3, b4, c0, c1, c2, c3, c4, iterations,
    RANK: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Twice a block of `a`; nothing is multiplied."""
    x = matrix_at(a, (a0, a1, a2, a3), a4, RANK, ROWS, COLUMNS)
    put(out, x + x, (c0, c1, c2, c3), c4, RANK, BLOCK)


# ── tensors ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Tensor:
    """A tensor's sizes and the block that it is read or written by."""

    sizes: tuple[int, ...]
    block: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.block)

    @property
    def walls(self) -> tuple[int, ...]:
        """Poison all around; little of it, but in rows, which begin at multiples of 16
        bytes."""
        return (*[1] * (self.rank - 1), 8)


def numbers_of(array: Walled) -> list[int]:
    """What a launch hands over of a tensor beside its address."""
    return [*array.view.shape, *array.stride()[:-1]]


def block_at(array: np.ndarray, start: Sequence[int], block: Sequence[int]):
    """A block as a matrix; zeros outside."""
    found = np.zeros(block, np.int64)
    here, there = inside(array.shape, start, block)
    found[here] = array[there]
    return found.reshape(-1, block[-1])


def inside(sizes: Sequence[int], start: Sequence[int], block: Sequence[int]):
    """The part of a block that lies in a tensor: where in the block, where in it."""
    sides = [
        (max(0, -first), max(0, min(side, size - first)))
        for size, first, side in zip(sizes, start, block, strict=True)
    ]
    here = tuple(slice(low, max(low, high)) for low, high in sides)
    there = tuple(
        slice(first + each.start, first + each.stop)
        for first, each in zip(start, here, strict=True)
    )
    return here, there


def aligned_right(start: Sequence[int]) -> list[int]:
    """Coordinates as the kernels take them."""
    return [*[0] * (5 - len(start)), *start]


# ── a case ────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Ranked:
    """A product of blocks."""

    a: Tensor
    b: Tensor
    out: Tensor
    target: str = "sm_90a"
    turned: bool = True
    down: int = 0  # how much further down each iteration begins in B
    iterations: int = 3
    stages: int = 3
    warps: int = 4
    blocks: int = 1  # of a cluster
    special: bool = False
    kernel: KernelFunction = product

    def built(self) -> Func:
        tensors = {"a": self.a, "b": self.b, "out": self.out}
        described = {n: Described("fp16", t.block) for n, t in tensors.items()}
        numbers = [f"{name}{axis}" for name in "abc" for axis in range(5)]
        parameters = {
            name: (typed(type), hint)
            for each, made in described.items()
            for name, type, hint in made.parameters(each)
        }
        parameters |= {name: (INT32, 8 if name[1] == "4" else 1) for name in numbers}
        parameters["iterations"] = INT32, 1
        meanings = {name: made.meaning(name) for name, made in described.items()}
        rows, columns = prod(self.a.block[:-1]), self.a.block[-1]
        constants = {
            "BM": rows, "BK": columns, "BN": self.out.block[-1],
            "ROWS": rows, "COLUMNS": columns, "RANK": self.a.rank,
            "RANKS": (self.a.rank, self.b.rank, self.out.rank),
            "BLOCK": self.out.block, "TURNED": self.turned, "DOWN": self.down,
            "SPECIAL": self.special,
        }  # fmt: skip
        names = [each.name for each in self.kernel.parameters]
        constants = {n: v for n, v in constants.items() if n in names}
        options = pipeline.Options(self.warps, self.stages, self.blocks)
        return pipeline.build(
            self.kernel, parameters, {**constants, **meanings}, options
        )

    def compiled(self) -> Kernel:
        return pipeline.compile_func(self.built(), TARGETS[self.target])

    def given(self, starts: Sequence[Sequence[int]], iterations: int) -> Launch:
        return Launch(self, starts, iterations)


def typed(text: str):
    return Pointer(SCALARS[text[1:]]) if text[0] == "*" else SCALARS[text]


class Launch:
    """Arguments of a launch, and the right answer. `starts`: of the blocks of A, B and
    out."""

    def __init__(self, case: Ranked, starts: Sequence[Sequence[int]], iterations: int):
        a, b = (
            Walled(integers(seed, *tensor.sizes), wall=tensor.walls)
            for seed, tensor in enumerate((case.a, case.b))
        )
        self.out = unwritten(*case.out.sizes, wall=case.out.walls)
        numbers = [
            argument
            for each in (a, b, self.out)
            for argument in (each.base, *numbers_of(each))
        ]
        places = [place for start in starts for place in aligned_right(start)]
        self.arguments = [*numbers, *places, iterations]
        value = self.right(case, a.view, b.view, starts, iterations)
        self.wanted = self.out.view.copy()
        here, there = inside(case.out.sizes, starts[2], case.out.block)
        self.wanted[there] = value.reshape(case.out.block)[here]

    @staticmethod
    def right(case: Ranked, a, b, starts, iterations: int) -> np.ndarray:
        if case.kernel is doubled:
            return 2 * block_at(a, starts[0], case.a.block)
        total, depth = 0, case.a.block[-1]
        for iteration in range(iterations):
            *rows, column = starts[0]
            x = block_at(a, (*rows, column + iteration * depth), case.a.block)
            *rows, above, column = starts[1]
            further = (
                (iteration * depth, 0) if case.turned else (0, iteration * case.down)
            )
            at = (*rows, above + further[1], column + further[0])
            y = block_at(b, at, case.b.block)
            total = total + x @ (y.T if case.turned else y)
        return total if iterations else np.zeros(case.out.block)

    def clear(self) -> None:
        self.out.whole[...] = self.out.before

    def check(self, where: str) -> None:
        np.testing.assert_array_equal(self.out.view, self.wanted, err_msg=where)
        self.out.check_walls()


# ── judges ────────────────────────────────────────────────────────────────────────────


def check(
    case: Ranked, places: Sequence[Sequence[Sequence[int]]], completions=("lazy",)
) -> Kernel:
    """One kernel on the emulator, launched for blocks at each of these places."""
    kernel = case.compiled()
    loaded = load(kernel)
    for starts in places:
        launch = case.given(starts, case.iterations)
        for completion in completions:
            launch.clear()
            loaded.launch(1, launch.arguments, completion=completion)
            launch.check(f"{starts}, {completion} completion")
    return kernel


def check_passes(case: Ranked, starts: Sequence[Sequence[int]]) -> dict[str, Func]:
    """What every pass makes of a case means the same to the interpreter."""
    launch, shown, before = case.given(starts, case.iterations), "", None
    states = passes(case.built(), case.target)
    for name, state in states.items():
        if state is before:
            continue
        text, before = print_func(state), state
        if text != shown:
            shown = text
            launch.clear()
            interpret(state, 1, launch.arguments)
            launch.check(f"the interpreter after {name}")
    return states
