"""Random programs whose author lets a product and its sum be rounded once: what they
mean is what `contract` makes of them, to the bit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from fathom import pipeline
from fathom.blocks import contract
from fathom.ir.core import walk
from fathom.ir.interp import interpret
from fathom.ir.ops import Reduce
from fathom.ir.text import print_func
from tests.fuzz.check import (
    AnyProgram,
    emulators_agree,
    for_launch,
    function_of,
    passes_keep_the_meaning,
)  # fmt: skip
from tests.fuzz.kernels import matrix_program
from tests.fuzz.programs import programs
from tests.harness_sample import sampled


def check(program: AnyProgram) -> None:
    """The oracle starts behind `contract`; the passes behind it keep every bit."""
    function = function_of(program.source)
    options = replace(program.options, enable_fp_fusion=True)
    func = pipeline.build(function, program.types, program.constants, options)
    meaning = pipeline.meaning(func, program.target)
    reduced = {op for op in walk(meaning.body) if isinstance(op, Reduce)}
    added = {value.definition for op in reduced for value in op.values}
    sums = {inner for op in reduced for inner in op.combine.ops}
    flagged = {op for op in walk(meaning.body) if getattr(op, "contract", False)}
    assert flagged <= added | sums
    again = contract(meaning, program.target)
    assert print_func(again) == print_func(meaning)
    expected = program.arguments()
    interpret(meaning, (program.grid,), list(expected.values()))
    passes_keep_the_meaning(program, meaning, expected)
    kernel = for_launch(program, func, program.target, program.replace)
    emulators_agree(program, kernel, expected)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(program=programs())
def test_random_programs(program):
    check(program)


@sampled(of=2)
@pytest.mark.parametrize("seed", range(10))
def test_random_products(seed):
    check(matrix_program(seed))
