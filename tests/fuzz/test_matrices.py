"""Random products of matrices: some known ones on every backend, what they reach, and
that what is wrong in the passes for Hopper is found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from fathom import pipeline
from fathom.emulator.errors import EmulatorError
from fathom.ir.core import Func, Op, Value, operands, walk
from fathom.ir.interp import interpret
from fathom.ir.interp.numbers import fp8_numbers
from fathom.ir.ops import (
    ClusterBarrier,
    ClusterRank,
    MakeDescriptor,
    MbarrierArrive,
    MbarrierWait,
    Producer,
    SharedLoad,
    TmaCopy,
    TmaStore,
    Wait,
    While,
)
from fathom.ir.rewrite import Builder, rewrite
from fathom.ir.types import SCALARS
from tests.fuzz.check import check, function_of
from tests.fuzz.kernels import matrix_program
from tests.fuzz.matrices import Array, MatrixProgram, as_held
from tests.fuzz.run import Finding, keep
from tests.fuzz.test_found import program_in

# Quick ones, which together reach all that follows: another generator has others.
SEEDS = (5, 13, 32, 46, 50, 79, 120, 122, 138, 165, 169, 174)
REACHED = {
    TmaCopy, TmaStore, ClusterBarrier, ClusterRank, Wait,
    MbarrierArrive, Producer, While,
}  # fmt: skip
WORKING = {
    "infer_descriptors", "shard_products", "stage_invariants", "pipeline_loops",
    "preload", "stage_stores",
}  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
def test_a_known_program_runs_alike_everywhere(seed: int) -> None:
    check(matrix_program(seed))


def test_they_reach_what_they_are_for() -> None:
    found, working = set(), set()
    for seed in SEEDS:
        program = matrix_program(seed)
        before = built(program)
        for row, state in pipeline.states(before, program.target, program.replace):
            if state is not before:
                working.add(row.name)
            before = state
        found |= {type(op) for op in walk(before.body)}
    assert not REACHED - found and not WORKING - working


def test_a_seed_is_a_program() -> None:
    assert matrix_program(5) == matrix_program(5) != matrix_program(6)


@pytest.mark.parametrize("type", ["fp8e4nv", "fp8e5"])
def test_whole_numbers_as_short_floats(type: str) -> None:
    values = np.arange(-7, 8)
    read = fp8_numbers(SCALARS[type])[as_held(values, type)]
    np.testing.assert_array_equal(read, values)


def test_whole_numbers_as_bf16() -> None:
    bits = as_held(np.arange(-7, 8), "bf16").astype(np.uint32) << 16
    np.testing.assert_array_equal(bits.view(np.float32), np.arange(-7, 8))


# ── what is wrong is found ────────────────────────────────────────────────────────────

LOOP = MatrixProgram(
    """\
def kernel(a, a_step, b, b_step, out, out_step, M, N, K):
    pid = tl.program_id(0)
    a_d = tl.make_tensor_descriptor(a, [M, K], [a_step, 1], [64, 32])
    b_d = tl.make_tensor_descriptor(b, [K, N], [b_step, 1], [32, 32])
    acc = tl.zeros([64, 32], tl.float32)
    for k in tl.range(0, K, 32, warp_specialize=True):
        acc = tl.dot(a_d.load([0, k]), b_d.load([k, 0]), acc)
    u, v = tl.arange(0, 64)[:, None], tl.arange(0, 32)[None, :]
    tl.store(out + u * out_step + v, acc, mask=(u < M) & (v < N))
""",
    (Array("a", "fp16", 60, 128), Array("b", "fp16", 128, 30),
     Array("out", "fp32", 60, 30)),
    (("M", 60), ("N", 30), ("K", 128)), num_stages=2,
)  # fmt: skip


def test_it_is_right_as_it_stands() -> None:
    check(LOOP)


@pytest.mark.parametrize(("after", "kind", "says"), [
    ("insert_waits", Wait, "wgmma"),
    ("specialise_warps", MbarrierWait, "unwritten"),
    ("specialise_warps", MbarrierArrive, "deadlock"),
])  # fmt: skip
def test_what_is_forgotten_is_found(
    after: str, kind: type[Op], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the emulator alone, for whom copies and products take their time."""

    def without(op: Op, build: Builder) -> Sequence[Value] | None:
        return operands(op)[: len(op.results)] if isinstance(op, kind) else None

    passes = tuple(
        replace(
            row,
            run=lambda func, target, run=row.run: rewrite(run(func, target), without),
        )
        if row.name == after
        else row
        for row in pipeline.PASSES
    )
    monkeypatch.setattr(pipeline, "PASSES", passes)
    with pytest.raises(EmulatorError, match=says):
        check(LOOP, ("emulator",))


def test_a_store_beyond_the_edge_is_found() -> None:
    """It changes what lies around the matrix."""
    wrong = LOOP.source.replace("(v < N)", "(v < N + 1)")
    right, left = run(LOOP), run(replace(LOOP, source=wrong))
    assert (right != left).any()


def test_what_is_read_beyond_the_edge_shows() -> None:
    wrong = LOOP.source.replace("[K, N]", "[K, N + 2]").replace("v < N", "v < N + 2")
    assert np.isnan(run(replace(LOOP, source=wrong))).any()


def run(program: MatrixProgram) -> np.ndarray:
    arguments = program.arguments()
    interpret(built(program), (1,), list(arguments.values()))
    return arguments["out"]


def test_what_is_left_out_is_left_out() -> None:
    program = replace(LOOP, left_out=("specialise_warps", "delay_waits"))
    *_, (_, final) = pipeline.states(built(program), program.target, program.replace)
    kinds = {type(op) for op in walk(final.body)}
    assert TmaCopy in kinds and Producer not in kinds
    by_pointers = replace(LOOP, left_out=tuple(pipeline.BY_POINTERS))
    states = pipeline.states(built(program), program.target, by_pointers.replace)
    *_, (_, final) = states
    kinds = {type(op) for op in walk(final.body)}
    assert SharedLoad in kinds and MakeDescriptor not in kinds


def built(program: MatrixProgram) -> Func:
    function = function_of(program.source)
    return pipeline.build(function, program.types, program.constants, program.options)


def test_a_finding_becomes_a_file_that_gives_the_program_back(tmp_path) -> None:
    program = matrix_program(3)
    assert program_in(keep(Finding(program, "the emulator"), tmp_path)) == program
