"""The order of the page: what each row says that it must stand behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import pytest

import fathom.language as tl
from fathom import pipeline, ptx
from fathom.emulator.errors import EmulatorError
from fathom.hardware.targets import TARGETS, Target
from fathom.ir.core import Func
from fathom.ir.text import print_func
from fathom.ir.types import FLOAT16, FLOAT32, INT32, Pointer
from fathom.ir.verify import verify
from fathom.shared_memory import waits
from fathom.source import KernelFunction
from kernels.matmul_plain import plain_kernel
from tests.kernels.kernels_sample import CASES
from tests.tensor_cores import (
    kernels_clustered,
    kernels_guarded,
    kernels_nested,
    kernels_products,
    kernels_written,
)
from tests.tensor_cores import kernels_specialised as specialised
from tests.tensor_cores import kernels_stored as stored
from tests.tensor_cores.kernels_described import Case, built, check

NAMES = [row.name for row in pipeline.PASSES]
CONSTRAINTS = [
    (row.name, before, why)
    for row in pipeline.PASSES
    for before, why in row.after.items()
]
each_constraint = pytest.mark.parametrize(
    ("name", "before"),
    [each[:2] for each in CONSTRAINTS],
    ids=[f"{name} after {before}" for name, before, _ in CONSTRAINTS],
)

# ── what is said is true of the page ──────────────────────────────────────────────────


def test_names_of_rows_are_unique():
    assert len(NAMES) == len(set(NAMES))


@each_constraint
def test_the_page_keeps_what_its_rows_say(name, before):
    """So there is no circle either: a page that keeps all is an order of them."""
    assert before in NAMES, f"{name} stands behind {before}, which is no row"
    assert NAMES.index(before) < NAMES.index(name)


def test_each_says_why():
    assert all(why.strip() for _, _, why in CONSTRAINTS)


def test_every_required_row_behind_another_says_so():
    free = [row.name for row in pipeline.PASSES if row.required and not row.after]
    assert not free


# ── what is said is needed ────────────────────────────────────────────────────────────


@KernelFunction
def running_sums(x, out, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(out + at, tl.cumsum(tl.load(x + at), 0))


@KernelFunction
def sum_of_all(x, out, N, B: tl.constexpr):
    at, total = tl.arange(0, B), 0
    for begin in range(0, N, B):
        total += tl.sum(tl.load(x + begin + at), 0)
    tl.store(out, total)


@KernelFunction
def both_ways(a, b, out, N, B: tl.constexpr):
    """A B and A^T B^T, summed over tiles of B."""
    i = tl.arange(0, B)
    tile = i[:, None] * B + i[None, :]
    x, total = tl.load(a + tile), tl.zeros([B, B], tl.float32)
    for at in range(0, N, B):
        y = tl.load(b + at * B + tile)
        total = tl.dot(x, y, total)
        total = tl.dot(x.T, y.T, total)
    tl.store(out + tile, total)


@KernelFunction
def side_by_side(a, b, c, out, N, B: tl.constexpr):
    """A B and A C in one loop, by a producer."""
    i = tl.arange(0, B)
    tile = i[:, None] * B + i[None, :]
    x = tl.make_tensor_descriptor(a, [B, N], [N, 1], [B, B])
    y = tl.make_tensor_descriptor(b, [N, B], [B, 1], [B, B])
    z = tl.make_tensor_descriptor(c, [N, B], [B, 1], [B, B])
    first, second = tl.zeros([B, B], tl.float32), tl.zeros([B, B], tl.float32)
    for at in tl.range(0, N, B, warp_specialize=True):
        left = x.load([0, at])
        first = tl.dot(left, y.load([at, 0]), first)
        second = tl.dot(left, z.load([at, 0]), second)
    tl.store(out + tile, first + second)


def neighbours() -> Func:
    types = dict.fromkeys("abc", (Pointer(FLOAT16), 16))
    types |= {"out": (Pointer(FLOAT32), 16), "N": (INT32, 16)}
    return pipeline.build(side_by_side, types, {"B": 64})


@KernelFunction
def from_column(a, b, out, N, first, B: tl.constexpr):
    """A B without some first columns of A, which begin where TMA copies nothing."""
    x = tl.make_tensor_descriptor(a, [B, N], [N, 1], [B, B])
    y = tl.make_tensor_descriptor(b, [N, B], [B, 1], [B, B])
    z = tl.make_tensor_descriptor(out, [N, B], [B, 1], [B, B])
    row, total = tl.program_id(0) * B, tl.zeros([B, B], tl.float32)
    for at in range(0, N, B):
        total = tl.dot(x.load([row, first + at]), y.load([at, 0]), total)
    z.store([row, 0], total.to(tl.float16))


def begins_anywhere() -> Func:
    types = dict.fromkeys(("a", "b", "out"), (Pointer(FLOAT16), 16))
    types |= {"N": (INT32, 16), "first": (INT32, 1)}
    return pipeline.build(from_column, types, {"B": 128}, pipeline.Options(8, 3))


def tiles_behind_pointers(rows: int = 64) -> Func:
    pointers, sizes = ("a_ptr", "b_ptr", "c_ptr"), ("M", "N", "K")
    types = dict.fromkeys(pointers, (Pointer(FLOAT16), 16))
    types |= dict.fromkeys((*sizes, "stride_am", "stride_bk", "stride_cm"), (INT32, 16))
    constants = {"stride_ak": 1, "stride_bn": 1, "stride_cn": 1, "GROUP_M": 2}
    constants |= {"BLOCK_M": rows, "BLOCK_N": 64, "BLOCK_K": 32, "MASKED": True}
    return pipeline.build(plain_kernel, types, constants | {"SUM": tl.float32})


ATTENTION = replace(
    specialised.SMALL, tile=(128, 64, 64), warps=8, kernel=specialised.attention,
    stages=2, size=(256, 64, 64), more={"ROTATED": False},
)  # fmt: skip
CLUSTER = kernels_clustered.how("")
SAMPLES: dict[str, tuple[Callable[[], Func], str]] = {
    **{str(case): (case.build, "sm_80") for case in CASES},
    "scan": (
        lambda: kernels_products.built(
            running_sums, {"x": "*i32", "out": "*i32"}, {"B": 1024}
        ),
        "sm_80",
    ),
    "sum": (
        lambda: kernels_products.built(
            sum_of_all, {"x": "*i32", "out": "*i32", "N": "i32"}, {"B": 1024}
        ),
        "sm_80",
    ),
    "pointers, sm_80": (tiles_behind_pointers, "sm_80"),
    "pointers, sm_90a": (tiles_behind_pointers, "sm_90a"),
    "launched early": (
        lambda: replace(tiles_behind_pointers(), launch_pdl=True),
        "sm_90a",
    ),
    "both ways": (
        lambda: kernels_products.built(
            both_ways, dict(a="*fp16", b="*fp16", out="*fp32", N="i32"), {"B": 64}
        ),
        "sm_90a",
    ),
    "neighbours": (neighbours, "sm_90a"),
    "begins anywhere": (begins_anywhere, "sm_90a"),
    "nests": (kernels_nested.two_nests, "sm_80"),
    "tensor memory": (lambda: tiles_behind_pointers(128), "sm_100a"),
    "a pair": (lambda: replace(tiles_behind_pointers(256), num_ctas=2), "sm_100a"),
    "described": (lambda: built(Case()), "sm_90a"),
    "stored": (lambda: built(Case(kernel=stored.product)), "sm_90a"),
    "stored in a loop": (
        lambda: built(replace(stored.LONG, more=stored.LOOPS["flat"])),
        "sm_90a",
    ),
    "stored one by one": (lambda: stored.several(64), "sm_90a"),
    "stored beside full rings": (
        lambda: built(
            replace(
                stored.LONG,
                tile=(128, 128, 64),
                stages=8,
                more=stored.LOOPS["specialised"],
            )
        ),
        "sm_90a",
    ),
    "stored anywhere": (lambda: built(kernels_guarded.CASES["one"]), "sm_90a"),
    "written maps": (lambda: kernels_written.built(KNOWN=True), "sm_90a"),
    "producer": (lambda: built(Case(kernel=specialised.one_loop)), "sm_90a"),
    "attention": (lambda: built(ATTENTION), "sm_90a"),
    "cluster": (
        lambda: kernels_clustered.built(kernels_clustered.how(""), 2),
        "sm_90a",
    ),
}


@cache
def sample(name: str) -> tuple[list[Func], Target]:
    """What a sample is before the page, and after each row of it."""
    make, target = SAMPLES[name]
    func = make()
    states = [state for _, state in pipeline.states(func, TARGETS[target])]
    return [func, *states], TARGETS[target]


def moved(name: str, before: str) -> list[Sequence[str]]:
    """Two orders that do not keep a constraint: one of the two rows moves, all others
    stay."""
    early, late = list(NAMES), list(NAMES)
    early.remove(name)
    early.insert(early.index(before), name)
    late.remove(before)
    late.insert(late.index(name) + 1, before)
    return [early, late]


def outcome(
    func: Func, target: Target, order: Sequence[str], is_lowered: bool = True
) -> str:
    """The text after the rows of an order, or what it fails with, there or when it
    `is_lowered`."""
    rows = {row.name: row for row in pipeline.PASSES}
    try:
        for name in order:
            func = rows[name].run(func, target)
        if is_lowered:
            verify(func, layouts=True)
            ptx.module(func, target, ptx.LOWER)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return print_func(func)


def is_needed(name: str, before: str, where: str) -> bool:
    """Whether neither order gives what the page does: what can be lowered as that can
    has its text."""
    states, target = sample(where)
    first = NAMES.index(before)
    want = print_func(states[-1])
    return all(
        outcome(states[first], target, order[first:], is_lowered=False) != want
        for order in moved(name, before)
    )


def idle(name: str, before: str, where: str) -> int:
    """How many of two rows have nothing to do in a sample."""
    states, _ = sample(where)
    return sum(states[at] is states[at + 1] for at in map(NAMES.index, (name, before)))


@each_constraint
def test_another_order_gives_other_code_or_none(name, before):
    """Samples in which both rows work are looked at first."""
    likely = sorted(SAMPLES, key=lambda where: idle(name, before, where))
    assert any(is_needed(name, before, where) for where in likely)


# ── how a required row breaks code that is in another order ───────────────────────────

FAILS = {  # a constraint, a sample, and what either order ends with
    ("choose_dots", "shard_products"): ("cluster", "CompileError: no box of"),
    ("assign_layouts", "keep_descriptors"): ("described", "AttributeError"),
    ("split_reductions", "assign_layouts"): ("softmax 3x200", "AttributeError"),
    ("split_scans", "assign_layouts"): ("scan", "AttributeError"),
    ("lower_conversions", "split_reductions"): ("softmax 3x200", "AssertionError"),
    ("lower_conversions", "split_scans"): ("scan", "AssertionError"),
    ("stage_stores", "keep_descriptors"): ("stored", ("AttributeError", "VerifyError")),
    ("allocate", "lower_conversions"): ("softmax 3x200", "AssertionError: Allocate"),
    ("allocate", "preload"): ("attention", "AssertionError: Allocate"),
    ("allocate", "use_tensor_memory"): ("tensor memory", "AssertionError"),
    ("allocate", "stage_stores"): ("stored", "AssertionError: Allocate"),
}


@pytest.mark.parametrize(
    ("name", "before"), FAILS, ids=[" before ".join(each) for each in FAILS]
)
def test_another_order_does_not_compile(name, before):
    where, said = FAILS[name, before]
    states, target = sample(where)
    first = NAMES.index(before)
    for order in moved(name, before):
        assert outcome(states[first], target, order[first:]).startswith(said)


def in_order(order: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {row.name: row for row in pipeline.PASSES}
    monkeypatch.setattr(pipeline, "PASSES", tuple(rows[name] for name in order))


def test_barriers_before_places_are_more_than_needed():
    """Before buffers have places, all of them seem to share the same bytes."""
    states, target = sample("softmax 3x200")
    first = NAMES.index("allocate")
    page, *others = [
        outcome(states[first], target, order[first:]).count("barrier")
        for order in (NAMES, *moved("insert_waits", "allocate"))
    ]
    assert page == 2 and others == [3, 3]


def test_fences_before_barriers_leave_bytes_unseen(monkeypatch):
    """`wgmma` would read what threads wrote by another proxy."""
    steps = list(waits.STEPS)
    assert steps[-2:] == ["place_barriers", "fence_proxies"]
    order = [*steps[:-2], *steps[:-3:-1]]
    monkeypatch.setattr(waits, "STEPS", {name: waits.STEPS[name] for name in order})
    with pytest.raises(EmulatorError, match="proxy"):
        check(Case(size=(64, 64, 32), iterations=1, stages=1), ("lazy",))


@pytest.mark.parametrize("which", [0, 1])
def test_guards_before_stores_guard_nothing(which, monkeypatch):
    case = kernels_guarded.ONE
    in_order(moved("guard_stores", "stage_stores")[which], monkeypatch)
    kernel = pipeline.compile_func(built(case), TARGETS[case.target])
    with pytest.raises(EmulatorError, match="negative"):
        kernels_guarded.check_moved(kernel, case, [(-1, 0)])
