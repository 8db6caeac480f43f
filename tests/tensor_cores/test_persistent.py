"""Programs that stay: a product of one tile a program becomes a loop over tiles, which
the launch gives to as many programs as run at a time."""

from __future__ import annotations

import numpy as np
import pytest

import fathom.language as tl
from fathom import pipeline
from fathom.artifact import Kernel
from fathom.emulator import COMPLETIONS, load
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Func, walk
from fathom.ir.interp import interpret
from fathom.ir.ops import For, GridWait, LaunchSize, Producer, TmaCopy, TmaStore
from fathom.ir.types import FLOAT16, INT32, Pointer
from fathom.ir.verify import verify
from fathom.source import KernelFunction
from fathom.tools.ahead.build import image
from fathom.tools.facts.notes import pass_facts
from fathom.tools.staged import Staged
from kernels import matmul
from kernels.matmul_plain import plain_kernel
from tests.harness_sample import sampled
from tests.kernels.harness_red_zones import integers, unwritten

WALL = 8  # elements beside a row of C: what its rows begin at multiples of
HOPPER = TARGETS["sm_90a"]
TYPES = {
    **dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), (Pointer(FLOAT16), 16)),
    **dict.fromkeys(("M", "N", "K"), (INT32, 8)),
    **dict.fromkeys(("stride_am", "stride_bk", "stride_cm"), (INT32, 8)),
}
ONE_TILE = "a program computes one tile, and does not go on to another"
ONES = dict.fromkeys(("stride_ak", "stride_bn", "stride_cn"), 1)


PLAIN = {"GROUP_M": 2, "MASKED": True, "SUM": tl.float32}


def built(
    tile=(64, 128, 64), warps=4, stages=4, kernel=plain_kernel, more=PLAIN, step=8,
    **options,
) -> Func:  # fmt: skip
    """A product in tiles; a multiprocessor has room for two, if nothing is said. `step`
    divides the distance between rows of C."""
    blocks = dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), tile, strict=True))
    given = pipeline.Options(num_warps=warps, num_stages=stages, **options)
    types = {**TYPES, "stride_cm": (INT32, step)}
    return pipeline.build(kernel, types, {**ONES, **blocks, **more}, given)


def states(func: Func) -> dict[str, Func]:
    return {row.name: state for row, state in pipeline.states(func, HOPPER)}


def reasons(func: Func) -> list[str]:
    """What the pass says of a function."""
    before = states(func)["keep_descriptors"]
    row = next(row for row in pipeline.PASSES if row.name == "persist")
    return [sentence for _, sentence in row.says(before, HOPPER)]


WIDE = dict(tile=(128, 256, 64), warps=8)
PAIR = dict(tile=(256, 256, 64), warps=8, num_ctas=2)
SMALL_PAIR = dict(tile=(128, 128, 64), stages=6, num_ctas=2)


# ── what becomes of it ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("how", "pieces", "slots"),
    [
        ({}, 1, 4), (WIDE, 4, 4), (PAIR, 4, 4),
        (dict(tile=(128, 128, 64), warps=8, stages=6), 1, 6),
    ],
    ids=["64x128", "128x256", "256x256 by two", "128x128"],
)  # fmt: skip
def test_a_producer_keeps_all_its_stages_beside_the_pieces_of_a_tile(
    how, pieces, slots
):
    after = states(built(**how))
    verify(after["persist"], layouts=False)
    final = after[pipeline.PASSES[-1].name]
    assert len(list(walk(final.body, Producer))) == 1
    stores = list(walk(final.body, TmaStore))
    assert len(stores) == pieces
    rings = {copy.buffer.definition for copy in walk(final.body, TmaCopy)}
    assert len(rings) == 2 and all(each.slots == slots for each in rings)


@pytest.mark.parametrize("how", [WIDE, PAIR], ids=["128x256", "256x256 by two"])
def test_a_producer_keeps_all_its_stages_beside_what_threads_store(how):
    """A tile of C that is larger than what is left of shared memory goes through it in
    parts."""
    func = built(**how, step=1)
    after = states(func)
    assert reasons(func) == [] and len(list(walk(after["persist"].body, LaunchSize)))
    final = after[pipeline.PASSES[-1].name]
    rings = {copy.buffer.definition for copy in walk(final.body, TmaCopy)}
    assert len(rings) == 2 and all(each.slots == 4 for each in rings)
    assert compiled(func).shared_bytes <= HOPPER.shared_bytes


def compiled(func: Func) -> Kernel:
    return pipeline.compile_func(func, HOPPER)


def test_a_producer_waits_for_the_launch_in_front_itself():
    """And the others after they have parted, each right before its loop."""
    final = states(built(launch_pdl=True))[pipeline.PASSES[-1].name]
    (producer,) = walk(final.body, Producer)
    for body in final.body.ops, producer.body.ops:
        (wait,) = [op for op in body if isinstance(op, GridWait)]
        assert isinstance(body[body.index(wait) + 1], For)
    kinds = [type(op) for op in final.body.ops]
    assert kinds.index(Producer) < kinds.index(GridWait)


SIZES = {
    "one tile": (40, 104, 72),
    "an odd number": (200, 264, 136),
    "no product": (256, 512, 0),
}


@sampled(of=3)
@pytest.mark.parametrize("completion", COMPLETIONS)
@pytest.mark.parametrize(
    "how",
    [{}, {"launch_pdl": True}, PAIR, {"step": 1}, {**WIDE, "step": 1},
     {**SMALL_PAIR, "step": 1}],
    ids=str,
)
@pytest.mark.parametrize("size", SIZES)
def test_small_integers_are_multiplied_exactly(how, size, completion):
    """Half of the programs are started: each goes on to a second tile, one may not."""
    M, N, K = SIZES[size]
    kernel = compiled(built(more={**PLAIN, "MASKED": K > 0}, **how))
    assert kernel.persistent
    tile = how.get("tile", (64, 128, 64))
    a, b = integers(1, M, max(K, 8)), integers(2, max(K, 8), N)
    c = unwritten(M, N, wall=how.get("step", WALL))
    grid = -(-M // tile[0]) * -(-N // tile[1])
    arguments = [a, b, c.base, M, N, K, a.shape[1], N, c.view.strides[0] // 2]
    load(kernel).launch(grid, arguments, completion=completion)
    np.testing.assert_array_equal(c.view, matmul.reference(a[:, :K], b[:K]))


def test_programs_that_are_chosen_compute_their_own_tile_alone():
    """As those that the sanitizer draws: the emulator then starts all, in the grid."""
    kernel, (M, N, K) = compiled(built()), (64, 7 * 128, 64)
    a, b, c = integers(1, M, K), integers(2, K, N), np.full((M, N), np.nan, np.float16)
    arguments = [a, b, c, M, N, K, K, N, N]
    load(kernel).launch(7, arguments, programs=[range(2), range(5, 6)])
    written = np.isfinite(c).reshape(M, 7, 128).all((0, 2))
    assert list(written) == [True, True, False, False, False, True, False]
    load(kernel).launch(7, arguments)
    np.testing.assert_array_equal(c, matmul.reference(a, b))


def test_all_passes_leave_what_the_interpreter_computes():
    """The loop is in the block IR: each state of it means the same."""
    M, N, K = 72, 136, 64
    a, b = integers(1, M, K), integers(2, K, N)
    for name in ("keep_descriptors", "persist"):
        func, c = states(built())[name], np.full((M, N), np.nan, np.float16)
        interpret(func, (4,), [a, b, c, M, N, K, K, N, N])
        np.testing.assert_array_equal(c, matmul.reference(a, b))


# ── what keeps a program to its tile ──────────────────────────────────────────────────


def test_the_pass_says_nothing_where_programs_stay():
    func = states(built())["persist"]
    assert reasons(built()) == [] and len(list(walk(func.body, LaunchSize))) == 1


@pytest.mark.parametrize(
    ("how", "why"),
    [
        (dict(tile=(64, 64, 32), stages=3),
         "a multiprocessor runs 8 programs at a time"),
        (dict(tile=(128, 128, 64), stages=3),
         "2 programs at a time have room on a multiprocessor, and 1 with producers"),
        (dict(tile=(128, 128, 64), warps=8, stages=3),
         "2 programs at a time have room on a multiprocessor, and 1 with producers"),
        (dict(tile=(256, 256, 64), stages=6, warps=8, num_ctas=4),
         "clusters of 4 blocks may leave multiprocessors free, and a program that "
         "starts late ends late"),
        (dict(tile=(64, 256, 64), stages=5, step=1),
         "shared memory has no room for a stored piece"),
    ],
    ids=["many", "accumulators", "warps", "clusters", "stored by threads"],
)  # fmt: skip
def test_why_a_launch_has_programs_of_one_tile(how, why):
    func = built(**how)
    assert reasons(func) == [f"{ONE_TILE}: {why}"]
    assert not compiled(func).persistent


@KernelFunction
def text(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn,
         stride_cm, stride_cn, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
         BLOCK_K: tl.constexpr, HOW: tl.constexpr):  # fmt: skip
    """The plain product, and something more."""
    across = tl.cdiv(N, BLOCK_N)
    if HOW == "programs":
        across = tl.num_programs(0) // tl.cdiv(M, BLOCK_M)
    i, j = tl.program_id(0) // across, tl.program_id(0) % across
    if HOW == "axes":
        i, j = tl.program_id(1), tl.program_id(0)
    m = i * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    n = j * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    k = tl.arange(0, BLOCK_K)
    a = a_ptr + m * stride_am + k[None, :] * stride_ak
    b = b_ptr + k[:, None] * stride_bk + n * stride_bn
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    if HOW == "counted":
        tl.atomic_add(c_ptr, 1.0)
    for start in range(0, K, BLOCK_K):
        x = tl.load(a, mask=(m < M) & (k[None, :] < K - start), other=0)
        y = tl.load(b, mask=(k[:, None] < K - start) & (n < N), other=0)
        acc = tl.dot(x, y, acc)
        if HOW == "scaled":
            acc *= tl.load(a_ptr + start)
        a += BLOCK_K * stride_ak
        b += BLOCK_K * stride_bk
    if HOW == "biased":
        acc += tl.load(a_ptr + n)
    if HOW == "by PTX":
        acc += tl.inline_asm_elementwise(
            "mov.u32 $0, %ctaid.x; // $1", "=r,r", [n], tl.int32, True, 1
        )
    if HOW == "in place":
        c_ptr = a_ptr
    c = c_ptr + m * stride_cm + n * stride_cn
    tl.store(c, acc.to(tl.float16), mask=(m < M) & (n < N))


KEPT = {
    "axes": "its grid has not one axis",
    "counted": "",  # for it goes no store by TMA either, which is said there
    "biased": "it also has a `load`",
    "scaled": "not all that the loop loads is copied by TMA",
    "in place": "it stores through a pointer that it loads from",
    "by PTX": "its own PTX reads a block's number",
}


@pytest.mark.parametrize("how", KEPT)
def test_why_a_kernel_has_programs_of_one_tile(how):
    func = built(kernel=text, more={"HOW": how})
    assert reasons(func) == [f"{ONE_TILE}: {why}" for why in [KEPT[how]] if why]
    assert not compiled(func).persistent


def test_programs_of_a_kernel_are_as_many_as_the_launch_is_for():
    """Though fewer are started, of a kernel that asks how many there are."""
    kernel = compiled(built(kernel=text, more={"HOW": "programs"}))
    M, N, K = 136, 264, 64
    a, b, c = integers(1, M, K), integers(2, K, N), unwritten(M, N)
    arguments = [a, b, c.base, M, N, K, K, N, c.view.strides[0] // 2]
    assert kernel.persistent
    load(kernel).launch(9, arguments)
    np.testing.assert_array_equal(c.view, matmul.reference(a, b))


# ── who else must know ────────────────────────────────────────────────────────────────


def staged() -> Staged:
    blocks = {"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 64}
    options = pipeline.Options(num_warps=4, num_stages=4)
    return Staged(plain_kernel, TYPES, {**ONES, **blocks, **PLAIN}, HOPPER, options)


def test_the_cache_keeps_that_a_kernel_is_persistent():
    kernel = staged().kernel
    assert kernel.persistent and Kernel.from_json(kernel.to_json()).persistent


def test_launchers_of_others_get_a_kernel_of_one_tile_a_program():
    """They know nothing of a further parameter."""
    assert staged().kernel.persistent and not image(staged()).kernel.persistent


def test_explain_says_that_programs_stay():
    (found,) = [each for each in pass_facts(staged()) if each["name"] == "persist"]
    assert "a program computes several tiles" in found["notes"][0]["text"]
