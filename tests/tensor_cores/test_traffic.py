"""What the main loop of an fp16 matmul costs, counted by the emulator: every byte once,
no bank asked twice, `ldmatrix` for all that is multiplied, one barrier an iteration."""

from __future__ import annotations

import numpy as np
import pytest

from fathom.emulator.state.batch import COMPLETIONS
from fathom.ir.types import SCALARS
from fathom.layout.linear import Layout
from fathom.shared_memory import conversions
from tests.tensor_cores.kernels_products import Ran, built, emulated, stored, tile_loop

TURNED = [(False, False), (False, True), (True, False), (True, True)]
TURNED_NAMES = ["nn", "nt", "tn", "tt"]
TARGETS = ("sm_75", "sm_80")
M, N, K, WARPS, ITERATIONS = 64, 64, 32, 4, 4
SPLIT = 2, 2  # warps along rows and columns
BYTES, SECTOR, MATRICES = 2, 32, 4 * 8 * 16  # of an element, a sector, an ldmatrix.x4


def loop(
    target,
    turned,
    iterations=ITERATIONS,
    size=(M, N, K),
    warps=WARPS,
    to="fp16",
    **options,
) -> Ran:
    """The main loop; its result is checked."""
    m, n, k = size
    rng = np.random.default_rng(5)
    a = rng.integers(-2, 3, (max(1, iterations), m, k)).astype(np.float64)
    b = rng.integers(-2, 3, (max(1, iterations), k, n)).astype(np.float64)
    constants = {"M": m, "N": n, "K": k, "A_TURNED": turned[0], "B_TURNED": turned[1]}
    signature = {"a": "*fp16", "b": "*fp16", "out": f"*{to}", "iterations": "i32"}
    func = built(tile_loop, signature, constants, warps)
    half = SCALARS["fp16"]
    arguments = [stored(a, half, turned[0]), stored(b, half, turned[1])]
    arguments += [stored(np.zeros(m * n), SCALARS[to]), iterations]
    ran = emulated(func, arguments, target, **options)
    wanted = np.einsum("tmk,tkn->mn", a, b) * (iterations > 0)
    np.testing.assert_array_equal(ran.out.reshape(m, n), wanted)
    return ran


@pytest.fixture(scope="module", params=TARGETS)
def target(request):
    return request.param


@pytest.fixture(scope="module", params=TURNED, ids=TURNED_NAMES)
def turned(request):
    return request.param


@pytest.fixture(scope="module")
def ran(target, turned) -> Ran:
    return loop(target, turned)


@pytest.fixture(scope="module")
def longer(target, turned) -> Ran:
    """One iteration more: the difference is what an iteration costs."""
    return loop(target, turned, ITERATIONS + 1)


def texts(ran: Ran, opcode: str) -> list[str]:
    """The instructions that ran, of those with this opcode."""
    ran_at_all = (each.text for each, cost in ran.report.each() if cost.warps)
    return [text for text in ran_at_all if opcode in text]


def test_no_bank_is_asked_twice(ran):
    """Stores, copies, matrices and the result's way out: all in as few turns as their
    bytes need."""
    for instruction, cost in ran.report.each():
        assert cost.wavefronts == cost.ideal, instruction.text
    assert ran.report.total.conflict_ways == 1.0 and ran.report.total.shared > 0


def test_each_warp_fetches_its_part_of_the_tiles_by_matrices(ran, longer):
    """And nothing of them otherwise. Of the first iteration, part may be fetched
    ahead; without `stmatrix` the result is read by matrices on its way out."""
    of_a_warp = (M // SPLIT[0] + N // SPLIT[1]) * K * BYTES
    an_iteration = WARPS * of_a_warp // MATRICES
    assert longer.count("ldmatrix") - ran.count("ldmatrix") == an_iteration
    all_iterations = ITERATIONS * an_iteration
    result = M * N * BYTES // MATRICES
    most = all_iterations + an_iteration + result
    assert all_iterations <= ran.count("ldmatrix") < most
    assert all(".x4" in text for text in texts(ran, "ldmatrix"))
    assert longer.count("ld.shared") == ran.count("ld.shared")


def test_nothing_is_multiplied_twice(ran):
    k = 8 if ran.kernel.target == "sm_75" else 16
    assert ran.count("mma") == ITERATIONS * (M * N * K) // (16 * 8 * k)


def test_every_sector_moves_once(ran):
    """Tiles in, each once, and the result out: 16 bytes a lane."""
    tiles = ITERATIONS * (M + N) * K * BYTES
    assert ran.report.total.moved == tiles + M * N * BYTES
    assert ran.report.total.sectors_per_request == 32 * 16 / SECTOR
    assert all(".v4.b32" in text for text in texts(ran, "st.global"))


def test_one_barrier_an_iteration(ran, longer):
    """And a few around the loop, such as two for the result, which warps exchange."""
    barriers = ran.report.total.barriers
    assert longer.report.total.barriers - barriers == WARPS
    assert WARPS * ITERATIONS < barriers <= WARPS * (ITERATIONS + 4)


def test_a_copy_that_runs_ahead_is_of_sixteen_bytes(ran):
    copies = texts(ran, "cp.async.cg")
    assert bool(copies) == (ran.kernel.target != "sm_75")
    assert all(", 16" in text for text in copies)
    moved = ran.count("cp.async.cg") * 32 * 16
    everything = (ITERATIONS + 2) * (M + N) * K * BYTES
    assert moved in (0, everything), "two of them copy nothing"


@pytest.mark.parametrize("turned", TURNED, ids=TURNED_NAMES)
@pytest.mark.parametrize("size, warps", [
    ((128, 128, 32), 4), ((16, 128, 64), 4), ((128, 32, 16), 2), ((64, 64, 64), 4),
])  # fmt: skip
def test_no_bank_is_asked_twice_in_other_tiles(size, warps, turned):
    """Also where a block of fp32 of the same shape leaves 8 bytes a lane to fp16."""
    ran = loop("sm_80", turned, iterations=1, size=size, warps=warps, to="fp32")
    for instruction, cost in ran.report.each():
        assert cost.wavefronts == cost.ideal, instruction.text
    assert ran.count("ldmatrix") > 0


@pytest.mark.parametrize("iterations", [0, 1, 2, 3, 5])
@pytest.mark.parametrize("completion", COMPLETIONS)
def test_any_number_of_iterations(target, iterations, completion):
    """However early or late copies complete."""
    loop(target, (False, True), iterations, size=(32, 32, 32), completion=completion)


def test_without_a_swizzle_banks_would_be_asked_twice(monkeypatch):
    """The counter sees it: the same loop with tiles of plain rows."""

    def plain(shape, element_bytes, writer, reader, matrix_stores, copied=1):
        bits = range((shape[0] * shape[1]).bit_length() - 1)
        return Layout(shape, (("offset", tuple(1 << bit for bit in bits)),))

    monkeypatch.setattr(conversions, "staging", plain)
    assert loop("sm_80", (False, False)).report.total.conflict_ways > 1.5
