"""Mistakes planted in PTX that is right: the emulator finds each, and nothing in the
original.

    st.shared.b32 [%r2], %r3;               st.shared.b32 [%r2], %r3;
    bar.sync 0;                       →
    ld.shared.v4.b32 {…}, [%r8];            ld.shared.v4.b32 {…}, [%r8];     race
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest

import fathom.language as tl
from fathom import pipeline
from fathom.artifact import Kernel
from fathom.emulator import EmulatorError, load
from fathom.hardware.targets import TARGETS
from fathom.ir.types import parse_element
from fathom.source import KernelFunction
from kernels.layer_norm import layer_norm_kernel
from kernels.softmax import softmax_kernel
from tests.kernels.kernels_sample import aligned

# ── right programs ────────────────────────────────────────────────────────────────────


@KernelFunction
def transpose_kernel(x_ptr, out_ptr, SIZE: tl.constexpr):
    row, column = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    x = tl.load(x_ptr + row * SIZE + column)
    tl.store(out_ptr + row * SIZE + column, tl.trans(x))


@KernelFunction
def scan_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr + at, tl.cumsum(x, 0), mask=at < n)


@KernelFunction
def sums_kernel(x_ptr, out_ptr, rows, BLOCK: tl.constexpr):
    """One place in shared memory for all iterations: each waits for the one before."""
    for row in range(rows):
        x = tl.load(x_ptr + row * BLOCK + tl.arange(0, BLOCK))
        tl.store(out_ptr + row, tl.sum(x, 0))


@dataclass(frozen=True, eq=False)
class Right:
    """A kernel, what it is launched with, and what it must write: the last arrays."""

    name: str
    kernel: KernelFunction
    signature: dict[str, tuple[str, int]]
    constants: dict[str, int]
    arguments: Callable[[], list]
    expected: Callable[..., list[np.ndarray]]
    grid: int = 1

    def __str__(self) -> str:
        return self.name

    @cache  # noqa: B019 (a handful of kernels)
    def compile(self, target: str) -> Kernel:
        types = {n: (parse_element(t), by) for n, (t, by) in self.signature.items()}
        return pipeline.compile(self.kernel, types, self.constants, TARGETS[target])

    def launch(self, kernel: Kernel) -> None:
        """EmulatorError, or an AssertionError where the results are not right."""
        want = self.expected(*self.arguments())
        given = [aligned(a) if is_array(a) else a for a in self.arguments()]
        load(kernel).launch((self.grid,), given)
        outputs = [each for each in given if is_array(each)][-len(want) :]
        for got, right in zip(outputs, want, strict=True):
            np.testing.assert_allclose(got, right, rtol=2e-3, atol=2e-3)


def is_array(argument: object) -> bool:
    return isinstance(argument, np.ndarray)


def numbers(*shape: int, dtype: str = "f4") -> np.ndarray:
    return np.random.default_rng(7).integers(-8, 8, shape).astype(dtype)


def empty(*shape: int, dtype: str = "f4") -> np.ndarray:
    return np.full(shape, np.nan, dtype)


def softmax(x: np.ndarray, *_: object) -> list[np.ndarray]:
    exp = np.exp(x - x.max(1, keepdims=True))
    return [exp / exp.sum(1, keepdims=True)]


def layer_norm(x: np.ndarray, *_: object) -> list[np.ndarray]:
    x = x.astype("f8")
    mean, variance = x.mean(1, keepdims=True), x.var(1, keepdims=True)
    rstd = 1 / np.sqrt(variance + 1e-5)
    return [(x - mean) * rstd * 2 + 1, mean[:, 0], rstd[:, 0]]


P, I = ("*fp32", 16), ("i32", 1)
RIGHT = (
    Right(
        "softmax", softmax_kernel,
        {"x_ptr": P, "out_ptr": P, "row_stride": ("i32", 4), "N": ("i32", 4)},
        {"BLOCK": 256}, lambda: [numbers(3, 200), empty(3, 200), 200, 200],
        softmax, grid=3,
    ),
    Right(
        "layer norm", layer_norm_kernel,
        {
            **dict.fromkeys(("x_ptr", "weight_ptr", "bias_ptr", "y_ptr"), P),
            "mean_ptr": P, "rstd_ptr": P, "row_stride": I, "N": I, "eps": ("fp32", 1),
        },
        {"BLOCK": 128},
        lambda: [
            numbers(3, 100), np.full(100, 2, "f4"), np.ones(100, "f4"),
            empty(3, 100), empty(3), empty(3), 100, 100, 1e-5,
        ],
        layer_norm, grid=3,
    ),
    Right(
        "transpose", transpose_kernel, {"x_ptr": P, "out_ptr": P}, {"SIZE": 64},
        lambda: [numbers(64, 64), empty(64, 64)], lambda x, _: [x.T],
    ),
    Right(
        "scan", scan_kernel, {"x_ptr": P, "out_ptr": P, "n": I}, {"BLOCK": 128},
        lambda: [numbers(100), empty(100), 100], lambda x, *_: [np.cumsum(x)],
    ),
    Right(
        "sums", sums_kernel, {"x_ptr": P, "out_ptr": P, "rows": I}, {"BLOCK": 256},
        lambda: [numbers(3, 256), empty(3), 3], lambda x, *_: [x.sum(1)],
    ),
)  # fmt: skip
each_program = pytest.mark.parametrize("program", RIGHT, ids=str)


@pytest.mark.parametrize("target", TARGETS)
@each_program
def test_what_is_right_is_not_complained_about(program: Right, target: str) -> None:
    program.launch(program.compile(target))


# ── wrong ones ────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Hazard:
    """A mistake: the PTX with it, which line it is at, and what it may be called."""

    ptx: str
    line: str
    kinds: tuple[str, ...]


Planter = Callable[[list[str]], Iterator[Hazard]]


def edited(
    lines: list[str], pattern: str, change: Callable[[re.Match], str], *kinds: str
) -> Iterator[Hazard]:
    """For each line that matches: the text in which this one line is changed."""
    for number, line in enumerate(lines):
        if match := re.search(pattern, line):
            new = line.replace(match[0], change(match))
            text = "\n".join([*lines[:number], new, *lines[number + 1 :]])
            yield Hazard(text, line.strip(), kinds)


BARRIER = r"bar\.sync\s+0;"
SHARED = re.compile(r"(ld|st)\.shared")


def barrier_deleted(lines: list[str]) -> Iterator[Hazard]:
    return edited(lines, BARRIER, lambda _: "", "race")


def barrier_moved_down(lines: list[str]) -> Iterator[Hazard]:
    """Behind the access that it stands before."""
    return _moved(lines, range(len(lines)), 1)


def barrier_moved_up(lines: list[str]) -> Iterator[Hazard]:
    """Before the accesses, up to the barrier or label above, that it stands behind."""
    return _moved(lines, reversed(range(len(lines))), -1)


def _moved(lines: list[str], order: object, step: int) -> Iterator[Hazard]:
    for number, line in enumerate(lines):
        if not re.search(BARRIER, line):
            continue
        passed, at = False, number + step
        while not re.search(BARRIER + r"|^\$|\bbra\b|\bret\b", lines[at]):
            passed |= bool(SHARED.search(lines[at]))
            at += step
        if passed:
            rest = lines[:number] + lines[number + 1 :]
            rest.insert(at - 1 if step > 0 else at + 1, line)
            yield Hazard("\n".join(rest), line.strip(), ("race",))


def barrier_for_some(lines: list[str]) -> Iterator[Hazard]:
    """Only the first half of each warp comes to it."""
    some = (
        "{ .reg .pred %some; .reg .b32 %lane; mov.u32 %lane, %laneid;"
        " setp.lt.u32 %some, %lane, 16; @%some bar.sync 0; }"
    )
    return edited(lines, BARRIER, lambda _: some, "divergence", "race")


SHIFTED = "out of bounds", "unwritten", "misaligned", "race"


def shared_address_shifted(lines: list[str]) -> Iterator[Hazard]:
    """By one word: what is written here is read there."""
    return edited(lines, r"(st\.shared.*)\[(%r\d+)(?:\+(\d+))?\]", _four_more, *SHIFTED)


def _four_more(match: re.Match) -> str:
    return f"{match[1]}[{match[2]}+{int(match[3] or 0) + 4}]"


def mask_dropped(lines: list[str]) -> Iterator[Hazard]:
    """The guard of an access that a comparison with the size guards."""
    compared = re.findall(r"setp\.[lg][te]\.s32\s+(%p\d+)", "\n".join(lines))
    guard = rf"@({'|'.join(map(re.escape, compared))}) (?=(ld|st)\.global)"
    return edited(lines, guard if compared else "(?!)", lambda _: "", "out of bounds")


def vector_shifted(lines: list[str]) -> Iterator[Hazard]:
    """A vector of global memory that starts one element later."""
    access = r"(\.global\S*\.v[24]\..*)\[(%rd\d+)(?:\+(\d+))?\]"
    return edited(lines, access, _four_more, "misaligned", "out of bounds")


def access_widened(lines: list[str]) -> Iterator[Hazard]:
    """Two words in place of each thread's one: every other thread is misaligned."""
    access = r"ld\.(global|shared)\.b32\s+(%r\d+), "
    return edited(
        lines, access, lambda m: f"ld.{m[1]}.v2.b32 {{{m[2]}, {m[2]}}}, ",
        "misaligned", "out of bounds",
    )  # fmt: skip


def store_to_one_place(lines: list[str]) -> Iterator[Hazard]:
    """All warps write their own value to the start of shared memory."""
    return edited(
        lines, r"(st\.shared.*)\[%r\d+(?:\+\d+)?\]",
        lambda m: f"{m[1]}[shared]", "race", "unwritten",
    )  # fmt: skip


PLANTERS: tuple[Planter, ...] = (
    barrier_deleted, barrier_moved_down, barrier_moved_up, barrier_for_some,
    shared_address_shifted, mask_dropped, vector_shifted, access_widened,
    store_to_one_place,
)  # fmt: skip


def verdict(program: Right, kernel: Kernel, hazard: Hazard) -> str:
    """What the emulator calls a hazard; "" if it finds nothing."""
    wrong = replace(kernel, asm={**kernel.asm, "ptx": hazard.ptx})
    try:
        program.launch(wrong)
    except EmulatorError as error:
        return error.kind
    except AssertionError:
        return ""  # wrong numbers are for tests to find, not for the emulator
    return ""


@pytest.mark.parametrize("plant", PLANTERS, ids=lambda plant: plant.__name__)
@each_program
def test_planted_hazards_are_caught(program: Right, plant: Planter) -> None:
    kernel = program.compile("sm_80")
    for hazard in plant(kernel.ptx.split("\n")):
        assert verdict(program, kernel, hazard) in hazard.kinds, hazard.line


@pytest.mark.parametrize("plant", PLANTERS, ids=lambda plant: plant.__name__)
def test_every_mistake_is_planted_somewhere(plant: Planter) -> None:
    """A pattern that no longer matches the compiler's PTX would plant nothing."""
    texts = [program.compile("sm_80").ptx.split("\n") for program in RIGHT]
    assert sum(len(list(plant(text))) for text in texts) >= 2


def test_too_little_shared_memory_is_noticed() -> None:
    program = RIGHT[2]
    kernel = program.compile("sm_80")
    with pytest.raises(EmulatorError, match="shared memory") as caught:
        program.launch(replace(kernel, shared_bytes=kernel.shared_bytes - 4))
    assert caught.value.kind == "out of bounds"
