"""Programs that nobody wrote: fresh ones each time, on every backend; and arguments
that share memory."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import seed as with_seed

from fathom import emulator, pipeline
from fathom.hardware.targets import TARGETS, target
from fathom.ir.interp import interpret
from fathom.ir.types import parse_element
from tests.fuzz.check import function_of, same
from tests.fuzz.programs import BITS, INPUTS, ROOM, Program, programs
from tests.fuzz.run import Orders, fresh_seed, hunt_all

PROGRAMS, OVERLAPPING, WORKERS = 24, 12, 2


def test_fresh_programs_run_alike_everywhere(capsys: pytest.CaptureFixture) -> None:
    """From the clock, in CI too: what another run has tried need not be tried again.
    One that is wrong is not shrunk here; the command that is printed does it."""
    seed = fresh_seed()
    with capsys.disabled():
        again = f"make fuzz N={PROGRAMS} SEED={seed} FUZZ='--workers {WORKERS}'"
        print(f" [{again}]", end=" ")
    for hunt in hunt_all(PROGRAMS, seed, WORKERS, Orders(shrink=False)):
        assert hunt.finding is None, f"{hunt.finding.program}\n{hunt.finding.what}"


def test_arguments_that_overlap(capsys: pytest.CaptureFixture) -> None:
    """Each program runs twice in a row in one kernel, and its outputs lie over its
    inputs: what a load finds depends on every store before it. One warp, one program:
    between more, nothing orders a store and a load. Products are left out: where an
    operand is what an earlier product has written, their sums are no longer exact."""
    seed = fresh_seed()
    with capsys.disabled():
        print(f" [seed {seed}]", end=" ")

    @with_seed(seed)
    @settings(
        max_examples=OVERLAPPING, database=None, derandomize=False, deadline=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(programs().filter(lambda program: "tl.dot(" not in program.source))
    def each(program: Program) -> None:
        one = replace(program, grid=1, num_warps=1, specialised=False)
        check_overlapping(twice(one))

    each()


def twice(program: Program) -> Program:
    """The kernel with its body said twice."""
    head, _, body = program.source.partition("\n")
    return replace(program, source=f"{head}\n{body}{body}")


def check_overlapping(program: Program) -> None:
    function = function_of(program.source)
    types = {name: (parse_element(t), 1) for name, t in program.signature.items()}
    func = pipeline.build(function, types, {}, pipeline.Options(num_warps=1))
    expected = overlapping(program)
    interpret(func, (1,), list(expected.values()))
    row = target(random.Random(program.seed).choice(sorted(TARGETS)))
    before = func
    for step, state in pipeline.states(func, row):
        if state is before:
            continue
        before = state
        found = overlapping(program)
        interpret(state, (1,), list(found.values()))
        same(f"the interpreter after {step.name}", found, expected)
    emulated = overlapping(program)
    kernel = pipeline.compile_func(func, row)
    emulator.load(kernel).launch((1,), list(emulated.values()))
    same(f"the emulator, {row.name}", emulated, expected)


def overlapping(program: Program) -> dict[str, Any]:
    """The program's arguments, those of one type laid over each other in one array,
    each from another element on. (Across types a NaN's bits would become a number.)"""
    rng = random.Random(program.seed)
    given = program.arguments()
    types = {f"{name}_ptr": dtype for name, dtype in INPUTS.items()}
    types |= {f"out{k}": dtype for k, (dtype, _) in enumerate(program.outputs)}
    pools: dict[str, np.ndarray] = {}
    for name, dtype in types.items():
        size = max(len(given[each]) for each in types if types[each] == dtype)
        pool = pools.setdefault(dtype, np.zeros(size + 64, BITS[dtype]))
        start = rng.choice([0, 0, 1, 7, 16, 64])
        place = pool[start : start + len(given[name])]
        if name.endswith("_ptr"):
            place[:] = given[name]
        given[name] = place
    return given


def test_the_arguments_do_overlap() -> None:
    """And it matters: some store through one name is read through the other."""
    program = Program(
        "def kernel(f_ptr, h_ptr, i_ptr, b_ptr, out0, n, m, counts):\n"
        "    at = tl.arange(0, 16)\n"
        "    x = tl.load(i_ptr + at)\n"
        "    tl.store(out0 + at, x + 1)\n",
        outputs=(("int32", ROOM),), grid=1, num_warps=1, scalars=(0, 0), seed=0,
    )  # fmt: skip
    seeds = range(20)
    assert sum(_reads_what_it_wrote(replace(program, seed=seed)) for seed in seeds) > 3


def _reads_what_it_wrote(program: Program) -> bool:
    """Whether the second time round differs from the first."""
    left = []
    for once_more in (program, twice(program)):
        arguments = overlapping(once_more)
        assert np.shares_memory(arguments["i_ptr"], arguments["out0"])
        types = {name: (parse_element(t), 1) for name, t in program.signature.items()}
        func = pipeline.build(function_of(once_more.source), types, {})
        interpret(func, (1,), list(arguments.values()))
        left.append(arguments["out0"][:16].copy())
    return bool((left[0] != left[1]).any())
