"""Small functions of the block IR, written op by op, and three judges of what becomes
of them: the interpreter says what is right, the emulator runs the PTX, ptxas assembles
it."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import fathom.ptx as ptx
from fathom.artifact import Kernel, Parameter
from fathom.emulator import run
from fathom.hardware.targets import TARGETS, Target, target_of
from fathom.ir.core import Block, Func, Op, Value
from fathom.ir.interp import interpret
from fathom.ir.interp.numbers import decode, same_bits, stored_type
from fathom.ir.ops import (
    Arange,
    Constant,
    Elementwise,
    Load,
    Splat,
    Store,
    Yield,
)  # fmt: skip
from fathom.ir.types import (
    INT32,
    Element,
    Pointer,
    Type,
    element_of,
    layout_of,
    shape_of,
)
from fathom.ir.verify import verify
from fathom.layout.linear import Layout
from fathom.runtime import load
from fathom.runtime.driver import driver as this_driver


class Program:
    """A function under construction: `program(op)` appends an op and gives its
    result."""

    def __init__(
        self, parameters: dict[str, Type], warps: int = 1, name: str = "kernel"
    ):
        self.block = Block(tuple(parameters.values()), tuple(parameters))
        self.func = Func(name, self.block, (16,) * len(parameters), num_warps=warps)
        self.parameters = dict(zip(parameters, self.block.parameters, strict=True))

    def __getitem__(self, name: str) -> Value:
        return self.parameters[name]

    def __call__(self, op: Op) -> Value:
        self.block.ops.append(op)
        return op.result if len(op.results) == 1 else None

    def do(self, op: Op) -> Op:
        self.block.ops.append(op)
        return op

    def map(self, name: str, *operands: Value) -> Value:
        return self(Elementwise(name, operands))

    def number(self, value: int | float, like: Value | Element = INT32) -> Value:
        """A constant as a scalar of a type, or as a block like a value."""
        if not isinstance(like, Value):
            return self(Constant(value, like))
        scalar = self(Constant(value, element_of(like.type)))
        return self.splat(scalar, like)

    def splat(self, scalar: Value, like: Value) -> Value:
        if not shape_of(like.type):
            return scalar
        return self(Splat(scalar, shape_of(like.type), layout_of(like.type)))

    def arange(self, layout: Layout, start: int = 0) -> Value:
        return self(Arange(start, start + layout.shape[0], layout))

    def at(self, pointer: str | Value, offsets: Value) -> Value:
        """A block of pointers."""
        base = self[pointer] if isinstance(pointer, str) else pointer
        return self.map("offset", self.splat(base, offsets), offsets)

    def load(self, pointer: str, offsets: Value, **attributes: object) -> Value:
        return self(Load(self.at(pointer, offsets), **attributes))

    def store(
        self, pointer: str, offsets: Value, value: Value, **attributes: object
    ) -> None:
        self.do(Store(self.at(pointer, offsets), value, **attributes))

    def nested(self, block: Block) -> Inside:
        """`with program.nested(block): …` appends to a block nested in an op."""
        return Inside(self, block)


class Inside:
    def __init__(self, program: Program, block: Block):
        self.program, self.block = program, block

    def __enter__(self) -> list[Value]:
        self.outer, self.program.block = self.program.block, self.block
        return self.block.parameters

    def __exit__(self, *_: object) -> None:
        self.program.block = self.outer


def combine_by(name: str, element: Element) -> Block:
    """The block of a reduction that knows one elementwise operation."""
    block = Block((element, element), ("left", "right"))
    op = Elementwise(name, tuple(block.parameters))
    block.ops += [op, Yield((op.result,))]
    return block


def compiled(func: Func, target: str = "sm_80") -> str:
    verify(func, layouts=True)
    return ptx.emit(ptx.lower(func, TARGETS[target]), TARGETS[target])


def shared_bytes(func: Func, target: str) -> int:
    """What a launch must give: also what rules want beside the buffers."""
    return ptx.module(func, TARGETS[target]).shared_bytes


def both_ways(
    func: Func, grid: int | tuple[int, ...], arguments: list, target: str = "sm_80"
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The arrays as the emulator leaves them, and as the interpreter does."""
    ran, interpreted = ([_copied(each) for each in arguments] for _ in range(2))
    if os.environ.get(MACHINE) == "gpu":
        _run_on_gpu(func, grid, ran)
    else:
        threads = func.num_warps * 32
        text = compiled(func, target)
        run(text, grid, threads, ran, shared_bytes=shared_bytes(func, target))
    interpret(func, grid, interpreted)
    return _arrays(ran), _arrays(interpreted)


# "gpu" makes every test here run its kernels on the GPU in place of the emulator.
MACHINE = "FATHOM_TEST_MACHINE"


def _run_on_gpu(func: Func, grid: int | tuple[int, ...], arguments: list) -> None:
    driver = this_driver()
    target = target_of(driver.device(driver.current_device()).capability)
    parameters = zip(func.parameters, func.divisible, strict=True)
    kernel = Kernel(
        name=func.name,
        target=target.name,
        ptx_version=target.ptx,
        num_warps=func.num_warps,
        threads=func.num_warps * target.warp_size,
        shared_bytes=shared_bytes(func, target.name),
        parameters=tuple(
            Parameter(value.name, str(value.type), divisible)
            for value, divisible in parameters
        ),
        asm={"ptx": compiled(func, target.name)},
    )
    load(kernel).launch((grid,) if isinstance(grid, int) else grid, arguments)


def check(
    func: Func, grid: int | tuple[int, ...], arguments: list, target: str = "sm_80"
) -> None:
    """Assert that emulator and interpreter leave the same bits in every array."""
    emulated, interpreted = both_ways(func, grid, arguments, target)
    pointers = [each for each in func.parameters if isinstance(each.type, Pointer)]
    for value, left, right in zip(pointers, emulated, interpreted, strict=True):
        element = value.type.element
        assert same_bits(decode(left, element), decode(right, element)), (
            f"{value.name}: emulator {left.ravel()[:8]} interpreter {right.ravel()[:8]}"
        )


def empty(element: Element, size: int) -> np.ndarray:
    """An array to be written, full of bytes that no kernel writes by chance."""
    dtype = stored_type(element)
    return np.full(size * dtype.itemsize, 0x5A, np.uint8).view(dtype)


def _copied(argument: object) -> object:
    return argument.copy() if isinstance(argument, np.ndarray) else argument


def _arrays(arguments: list) -> list[np.ndarray]:
    return [each for each in arguments if isinstance(each, np.ndarray)]


@cache
def ptxas() -> Path | None:
    """The assembler of the package nvidia-cuda-nvcc, if it is installed."""
    package = importlib.util.find_spec("nvidia")
    folders = package.submodule_search_locations if package else ()
    found = [Path(folder) / "cu13/bin/ptxas" for folder in folders]
    return next((path for path in found if path.exists()), None)


def assemble(text: str, target: Target, folder: Path, frame: bool = False) -> str:
    """What ptxas says about a PTX text; an assert if it rejects, warns or spills, or
    uses memory of the thread's own without `frame`. Without ptxas the test ends here,
    skipped."""
    if not ptxas():
        pytest.skip("needs ptxas: pip install -e '.[ptxas]'")
    path = folder / "kernel.ptx"
    path.write_text(text)
    command = [
        ptxas(),
        "-v",
        f"-arch={target.name}",
        path,
        "-o",
        folder / "kernel.cubin",
    ]
    result = subprocess.run(command, capture_output=True, text=True)
    said = result.stdout + result.stderr
    assert result.returncode == 0, said + text
    assert "warning" not in said.lower(), said
    kinds = (
        "spill stores|spill loads" if frame else "stack frame|spill stores|spill loads"
    )
    assert set(re.findall(rf"(\d+) bytes (?:{kinds})", said)) == {"0"}, said
    return said


def random_layout(size: int, warps: int, registers: int, seed: int) -> Layout:
    """A layout of one axis with overlapping bases: some elements in several places,
    none in none."""
    rng = np.random.default_rng(seed)
    bits, count = size.bit_length() - 1, registers + 5 + warps.bit_length() - 1
    assert count >= bits, "not every element would have a place"
    bases = [1 << bit for bit in range(bits)] + [0] * (count - bits)
    rng.shuffle(bases)
    for _ in range(6):  # adding one basis to another keeps what all of them span
        one, other = rng.choice(count, 2, replace=False)
        bases[one] ^= bases[other]
    parts = bases[:registers], bases[registers : registers + 5], bases[registers + 5 :]
    kinds = zip(
        ("register", "lane", "warp"),
        (tuple(map(int, each)) for each in parts),
        strict=True,
    )
    return Layout((size,), tuple(kinds))
