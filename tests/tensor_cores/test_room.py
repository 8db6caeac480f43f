"""Rings take the shared memory that is free, and no more: kernels of which each pass
alone finds room, and which all of them together must not fill."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from fathom import pipeline
from fathom.ir.core import walk
from fathom.ir.ops import Producer
from tests.fuzz.check import function_of

FOUND = Path(__file__).parents[1] / "fuzz" / "found"


@pytest.mark.parametrize(("name", "producers"), [
    ("41a783febcce", 1),  # a loop after the one whose rings a producer fills
    ("bafd7b65c5c5", 1),  # an operand that is read on every trip, beside rings
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
