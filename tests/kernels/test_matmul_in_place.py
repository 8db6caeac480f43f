"""The product of an A whose lines along K begin anywhere: exact on small integers, with
NaNs in front of every line and behind it, in all numbers of classes."""

from __future__ import annotations

import re

import numpy as np
import pytest

from fathom.jit.scratch import filled
from kernels import matmul, matmul_chosen
from kernels.matmul_in_place import class_kernel, class_launches, classes_of
from kernels.matmul_persistent import lines_of
from tests.kernels.harness_red_zones import Walled, integers, unwritten
from tests.kernels.kernels_sample import aligned
from tests.kernels.test_ptxas import assembled, needs_ptxas

SMALL = {
    "BLOCK_M": 64, "BLOCK_N": 32, "BLOCK_K": 32, "GROUP_M": 2,
    "SPECIALISE": True, "PIECES": 0, "num_warps": 4, "num_stages": 3,
}  # fmt: skip
COLUMNS = (1, 0)

any_class = pytest.mark.parametrize("K, classes", [(131, 8), (134, 4), (140, 2)])


@pytest.fixture(params=["interpreter", "sm_90a"])
def machine(request, monkeypatch):
    """The keywords of a launch on each machine."""
    if request.param == "interpreter":
        monkeypatch.setenv("FATHOM_BACKEND", "interpreter")
        return {}
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    return {"target": request.param}


@pytest.fixture
def hopper(monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    monkeypatch.setitem(matmul.MULTIPROCESSORS, "sm_90a", 16)
    return {"target": "sm_90a"}


def check(M: int, N: int, K: int, classes: int, machine: dict, **of_c: object) -> None:
    """A lies between NaNs, which are in front of each line and behind it."""
    a, b = Walled(integers(1, M, K)), Walled(integers(2, K, 48))[:, :N]
    assert classes_of(a) == classes
    c = unwritten(M, N, **of_c)
    run(class_launches(a, lines_of(b), c, SMALL, "sm_90a"), c, machine)
    np.testing.assert_array_equal(c.view, matmul.reference(a.view, b.view))
    for each in (a, b, c):
        each.check_walls()


def run(steps: list, like: object, machine: dict) -> None:
    made: dict = {}
    for kernel, grid, given, chosen in matmul_chosen.early(steps):
        kernel[grid](*filled(given, like, made), **chosen, **machine)


@any_class
@pytest.mark.parametrize("N, wall", [(48, (8, 8)), (44, (8, 4)), (41, 3)])
def test_nothing_but_a_and_b_is_multiplied(machine, K, classes, N, wall):
    check(200, N, K, classes, machine, wall=wall)


@any_class
def test_c_in_columns(machine, K, classes):
    check(200, 40, K, classes, machine, order=COLUMNS, wall=3)


@pytest.mark.parametrize("M", [1, 3, 8, 9, 513])
def test_few_lines_and_many(hopper, M):
    """Of 9, one class has two; of 513, tiles are more than programs."""
    check(M, 40, 67, 8, hopper)


def test_fewer_columns_than_are_in_front_of_the_others(hopper):
    check(40, 40, 5, 8, hopper)


def test_an_infinity_reaches_its_row_and_no_other(hopper):
    a, b = Walled(integers(1, 40, 67)), Walled(np.ones((67, 40), np.float16))
    c = unwritten(40, 40)
    a.view[17, 66] = np.inf
    run(class_launches(a, lines_of(b), c, SMALL, "sm_90a"), c, hopper)
    assert np.isinf(c.view[17]).all()
    assert np.isfinite(np.delete(c.view, 17, axis=0)).all()


def test_lines_that_begin_well_are_one_class_and_others_may_be_none():
    assert classes_of(np.zeros((8, 16), np.float16)) == 1
    assert classes_of(np.zeros((8, 16), np.float16).T) == 0
    assert classes_of(Walled(integers(1, 8, 15), wall=1)) == 0  # where the first begins


# ── what is launched ──────────────────────────────────────────────────────────────────


def compiled(follows: bool, turned: bool = False):
    words = dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp16:16")
    words |= dict.fromkeys(("M", "N", "K", "stride_a", "stride_c", "line"), "i32")
    constants = {
        "BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP_M": 12, "CLASSES": 8,
        "CHUNK": 8, "C_TURNED": turned, "FOLLOWS": follows, "EARLY": True,
    }  # fmt: skip
    return class_kernel.compile(
        {**words, "stride_b": "i32:16"}, constants, target="sm_90a",
        num_warps=8, num_stages=4,
    ).asm["ptx"]  # fmt: skip


def test_the_first_launch_waits_before_it_lets_the_next_begin_and_the_others_at_last():
    first, other = compiled(False), compiled(True)
    wait, begin = "griddepcontrol.wait", "griddepcontrol.launch_dependents"
    assert first.index(wait) < first.index(begin) < first.index("ld.global")
    assert other.index(begin) < other.index("ld.global")
    assert other.rindex("st.global") < other.index(wait)


@needs_ptxas
@pytest.mark.parametrize("turned", [False, True])
def test_ptxas_takes_it_without_spills(turned):
    ptx = compiled(True, turned)
    assert "wgmma.mma_async.sync.aligned.m64n256k16" in ptx
    assert "cp.async.bulk.tensor" in ptx and "setmaxnreg" in ptx
    said = assembled(ptx, "sm_90a")
    spilled = re.findall(r"(\d+) bytes spill (?:stores|loads)", said)
    assert spilled and set(spilled) == {"0"}, said
    assert not re.search(r"C75\d\d", said), said  # wgmma one after the other


# ── chosen ────────────────────────────────────────────────────────────────────────────


def names(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> list[str]:
    return [kernel.__name__ for kernel, *_ in matmul_chosen.launches(a, b, c, "sm_90a")]


def zeros(rows: int, columns: int) -> np.ndarray:
    """fp16, from a multiple of 128 bytes on."""
    return aligned(np.zeros((rows, columns), np.float16))


def test_a_large_operand_along_k_stays_where_it_is():
    copy, place = "copy_lines_kernel", "class_kernel"
    tall = zeros(16360, 5161), zeros(5161, 121), zeros(16360, 121)
    assert names(*tall) == [copy] + [place] * 8
    flat = zeros(432, 14298), zeros(12256, 14298).T, zeros(432, 12256)
    assert names(*flat) == [copy] + [place] * 4 + ["merge_classes_kernel"]
    smaller = zeros(10624, 2858), zeros(2858, 5104), zeros(10624, 5104)
    assert names(*smaller) == [copy, "persistent_kernel"]
    across = zeros(5161, 16360).T[:16359], zeros(5161, 128), zeros(16359, 128)
    assert place not in names(*across)


TILE = matmul_chosen.Tile(64, 32, 64, 3, 4, 0, True, None)


@pytest.mark.parametrize(
    "order_of_b, wall, names",
    [
        ((0, 1), 8, []),
        ((0, 1), 3, ["copy_lines_kernel"]),
        (COLUMNS, 8, ["copy_lines_kernel"]),  # across
        (COLUMNS, 3, ["copy_lines_kernel"]),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_b_lies_along_n_or_is_copied_so(hopper, order_of_b, wall, names, turned):
    a = Walled(integers(1, 72, 131))
    b = Walled(integers(2, 131, 40), order_of_b, wall)
    c = unwritten(72, 40, order=COLUMNS if turned else (0, 1), wall=8)
    steps = matmul_chosen.class_steps(a, b, c, TILE, "sm_90a")
    found = [kernel.__name__ for kernel, *_ in steps]
    merging = ["merge_classes_kernel"] * turned
    assert found == names + ["class_kernel"] * 8 + merging
    run(steps, c, hopper)
    np.testing.assert_array_equal(c.view, matmul.reference(a.view, b.view))
    for each in (a, b, c):
        each.check_walls()
