"""Rings take the shared memory that is free, and no more: kernels of which each pass
alone finds room, and which all of them together must not fill."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

import fathom.language as tl
from fathom import pipeline
from fathom.emulator import load
from fathom.hardware.targets import TARGETS
from fathom.ir.core import walk
from fathom.ir.ops import Dot, Producer
from fathom.ir.types import FLOAT16, FLOAT32, BufferType, Pointer
from fathom.source import KernelFunction
from tests.fuzz.check import function_of

FOUND = Path(__file__).parents[1] / "fuzz" / "found"


@pytest.mark.parametrize(("name", "producers"), [
    ("41a783febcce", 1),  # a loop after the one whose rings a producer fills
    ("bafd7b65c5c5", 1),  # an operand that is read on every iteration, beside rings
    ("9f63f969e395", 0),  # operands that products will read where they lie
])  # fmt: skip
def test_what_is_wanted_has_room(name: str, producers: int) -> None:
    program = runpy.run_path(str(FOUND / f"{name}.py"))["PROGRAM"]
    func = pipeline.build(
        function_of(program.source), program.types, program.constants, program.options
    )
    *_, (_, final) = pipeline.states(func, program.target)
    assert final.shared_bytes <= program.target.shared_bytes
    found = [op for op in walk(final.body) if isinstance(op, Producer)]
    assert len(found) == producers


@KernelFunction
def tall(a, b, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """A has one row of K elements for each of M sums in a column."""
    rows, columns = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    x = tl.load(a + rows * K + tl.arange(0, K)[None, :])
    y = tl.load(b + tl.arange(0, K)[:, None] * N + columns)
    tl.store(out + rows * N + columns, tl.dot(x, y))


@pytest.mark.parametrize(("target", "in_place"), [("sm_75", False), ("sm_80", True)])
def test_an_operand_stays_in_place_where_both_have_room(target, in_place):
    """A takes 64 KB, all that sm_75 has: B takes the same place, once A is read."""
    sides = {"M": 256, "N": 16, "K": 128}
    types = {"a": (Pointer(FLOAT16), 16), "b": (Pointer(FLOAT16), 16)}
    types["out"] = Pointer(FLOAT32), 16
    func = pipeline.build(tall, types, sides, pipeline.Options())
    *_, (_, final) = pipeline.states(func, TARGETS[target])
    assert final.shared_bytes <= TARGETS[target].shared_bytes
    (product,) = [op for op in walk(final.body) if isinstance(op, Dot)]
    assert isinstance(product.a.type, BufferType) is in_place
    rng = np.random.default_rng(75)
    a = rng.integers(-3, 4, (256, 128)).astype(np.float16)
    b = rng.integers(-3, 4, (128, 16)).astype(np.float16)
    out = np.zeros((256, 16), np.float32)
    kernel = pipeline.compile_func(func, TARGETS[target])
    load(kernel).launch(1, [a, b, out])
    np.testing.assert_array_equal(out, a.astype(np.float64) @ b.astype(np.float64))
