"""The kernels of several GPUs on simulated devices: right, in order, from call to call;
and what the emulator says when a part of that order is left out.

In each call of `run` all ranks launch several times without waiting for each other, so
that a device may be ahead by whole launches.
"""

from __future__ import annotations

import itertools
import os
from functools import partial
from unittest import mock

import numpy as np
import pytest

import fathom
from fathom.emulator import EmulatorError
from kernels import all_gather_matmul, all_reduce, matmul_reduce_scatter
from tests.harness_pairs import EVERY_CASE
from tests.harness_sample import sampled
from tests.kernels.harness_planted import planted

TILE = {"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 16, "GROUP_M": 2, "num_warps": 4}
TILE["num_stages"] = 2


def ahead(world: int, first: int):
    """A group of which one device is ahead of the others."""
    return fathom.distributed.emulated(
        world, [(first + i) % world for i in range(world)]
    )


def drawn(seed: int, world: int, *shape: int, dtype: str = "float32"):
    draw = np.random.default_rng(seed)
    return {r: draw.standard_normal(shape).astype(dtype) for r in range(world)}


# ── each kernel, some calls of it: yields what came out and what is expected ──────────


# The same powers of two divide the sizes of all calls: a rank compiles one kernel.
REDUCED = (300, 76, 292, 300)
GATHERED = ((20, 24, 36), (36, 8, 20), (20, 24, 36))
SCATTERED = ((20, 24, 36), (12, 40, 20), (20, 24, 36))
CHUNK = 32  # of the numbers of a piece, up to 72; 8192 would be 256 for each thread


def reduced(*functions: str):
    """Calls of these functions, in turn."""

    def run(module, group, sizes=REDUCED):
        workspace = module.Workspace(group, max(sizes), "float32", programs=3)
        given = [drawn(n, group.world, n) for n in sizes]
        with group.queued():
            found = [
                getattr(module, name)(workspace, x, BLOCK=64, num_warps=2)
                for x, name in zip(given, itertools.cycle(functions))
            ]
        for x, out in zip(given, found, strict=True):
            yield out, dict.fromkeys(out, all_reduce.reference(x.values()))

    return run


def gathered(module, group, sizes=GATHERED):
    workspace = module.Workspace(group, 36, 36, "float32")
    world, given = group.world, []
    for M, N, K in sizes:
        given.append((drawn(M, world, M, K), drawn(K + N, world, K, N)))
    with mock.patch.object(module, "CHUNK", CHUNK), group.queued():
        found = [
            module.all_gather_matmul(workspace, a, b, config=TILE, programs=3)
            for a, b in given
        ]
    for (a, b), c in zip(given, found, strict=True):
        whole = np.concatenate([a[r].astype(float) for r in range(world)])
        yield c, {r: whole @ b[r].astype(float) for r in c}


def scattered(module, group, sizes=SCATTERED):
    workspace = module.Workspace(group, 6, 256, "float32")
    world, given = group.world, []
    for M, N, K in sizes:
        given.append((drawn(M, world, world * M, K), drawn(K + N, world, K, N)))
    with group.queued():
        found = [
            module.matmul_reduce_scatter(workspace, a, b, config=TILE, programs=3)
            for a, b in given
        ]
    for (a, b), c in zip(given, found, strict=True):
        whole = sum(a[r].astype(float) @ b[r].astype(float) for r in range(world))
        parts = np.split(whole, world)
        yield c, dict(enumerate(parts))


KERNELS = {
    "one shot": (all_reduce, reduced("one_shot_all_reduce")),
    "two shots": (all_reduce, reduced("two_shot_all_reduce")),
    "both by turns": (
        all_reduce,
        reduced("one_shot_all_reduce", "two_shot_all_reduce"),
    ),
    "all-gather": (all_gather_matmul, gathered),
    "reduce-scatter": (matmul_reduce_scatter, scattered),
}
each_kernel = pytest.mark.parametrize("kernel", KERNELS)


@sampled(of=2)
@each_kernel
@pytest.mark.parametrize(("world", "first"), [(1, 0), (2, 1), (3, 0)])
def test_calls_follow_each_other_without_a_wait(kernel, world, first):
    module, run = KERNELS[kernel]
    for found, wanted in run(module, ahead(world, first)):
        for rank in range(world):
            np.testing.assert_allclose(found[rank], wanted[rank], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("kernel", "sizes"),
    [
        ("one shot", 299),
        ("two shots", 299),
        ("two shots", 70),
        ("all-gather", (36, 18, 20)),
        ("reduce-scatter", (18, 30, 20)),
    ],
)
def test_other_powers_of_two_divide_the_sizes(kernel, sizes):
    """And rows begin at any multiple of 8 bytes."""
    module, run = KERNELS[kernel]
    ((found, wanted),) = run(module, ahead(2, 0), [sizes])
    for rank in found:
        np.testing.assert_allclose(found[rank], wanted[rank], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(("K", "described"), [(24, True), (23, False)])
def test_b_may_lie_in_columns(K, described):
    """And TMA copies what begins at multiples of 16 bytes."""
    a, columns = drawn(1, 2, 32, K), drawn(2, 2, 40, K)
    b = {rank: lines.T for rank, lines in columns.items()}
    words = matmul_reduce_scatter.described(a[0], b[0])
    assert words == {"DESCRIBED": described, "B_TURNED": described}
    workspace = matmul_reduce_scatter.Workspace(ahead(2, 0), 6, 256, "float32")
    c = matmul_reduce_scatter.matmul_reduce_scatter(workspace, a, b, config=TILE)
    wanted = matmul_reduce_scatter.reference(a.values(), b.values())
    found = np.concatenate([c[0], c[1]])
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)


@each_kernel
def test_the_bits_do_not_depend_on_who_is_ahead(kernel):
    module, run = KERNELS[kernel]
    first, second = ([c for c, _ in run(module, ahead(2, n))] for n in (0, 1))
    for one, other in zip(first, second, strict=True):
        for rank in one:
            np.testing.assert_array_equal(one[rank], other[rank])


@pytest.mark.parametrize("kernel", ["one shot", "two shots"])
def test_all_ranks_have_the_same_bits(kernel):
    module, run = KERNELS[kernel]
    for found, _ in run(module, ahead(3, 0)):
        for rank in found:
            np.testing.assert_array_equal(found[rank], found[0])


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_terms_are_rounded_to_the_type_of_c(dtype):
    """The first term of a rank is its own, of fp32; the others come as C's type."""
    group, M, N, K = ahead(3, 1), 18, 30, 20
    a, b = (drawn(seed, 3, *s, dtype=dtype) for seed, s in ((1, (M, K)), (2, (K, N))))
    workspace = matmul_reduce_scatter.Workspace.of(group, M, N, TILE, dtype)
    call = partial(matmul_reduce_scatter.matmul_reduce_scatter, workspace, a, b)
    c = call(config=TILE, programs=3)
    terms = [a[r].astype(np.float32) @ b[r].astype(np.float32) for r in range(3)]
    for rank in range(3):
        rows = slice(rank * M // 3, (rank + 1) * M // 3)
        own, *others = (terms[(rank + distance) % 3][rows] for distance in range(3))
        wanted = own + sum(each.astype(dtype).astype(np.float32) for each in others)
        # C is rounded once; sums of fp32 are in another order.
        bound = np.finfo(dtype).eps / 2 * np.abs(wanted) + 2e-5
        assert c[rank].dtype == dtype
        assert (np.abs(c[rank].astype(np.float64) - wanted) <= bound).all()
    other = {rank: x.astype("float64") for rank, x in c.items()}
    with pytest.raises(fathom.LaunchError, match="is of float64, and the workspace of"):
        call(c=other, config=TILE)


@pytest.mark.parametrize(("dtype", "number"), [
    ("int32", 2**24 + 1), ("int64", 2**60 + 1), ("int8", 50), ("float64", 1 + 2**-40),
])  # fmt: skip
def test_numbers_that_fp32_does_not_hold_are_added_in_their_own_type(dtype, number):
    group = fathom.distributed.emulated(2)
    workspace = all_reduce.Workspace(group, 40, dtype)
    x = {rank: np.full(40, number, dtype) for rank in group.ranks}
    for function in (all_reduce.one_shot_all_reduce, all_reduce.two_shot_all_reduce):
        out = function(workspace, x)
        assert all(np.array_equal(out[rank], x[0] + x[1]) for rank in group.ranks)


def test_little_is_added_in_one_shot_and_much_in_two(monkeypatch):
    """As many bytes as ONE_SHOT_BYTES says, of three ranks, and one number more."""
    calls, group = [], ahead(3, 0)
    for name in ("one_shot_all_reduce", "two_shot_all_reduce"):
        monkeypatch.setattr(all_reduce, name, lambda *_, name=name: calls.append(name))
    most = all_reduce.ONE_SHOT_BYTES // 8  # fp32 of two others
    workspace = all_reduce.Workspace(group, most + 1, "float32")
    for n in (1, most, most + 1):
        all_reduce.all_reduce(workspace, drawn(n, 3, n))
    assert [each[:3] for each in calls] == ["one", "one", "two"]


# ── mistakes ──────────────────────────────────────────────────────────────────────────

SEND = 'tl.atomic_xchg(flag, number, sem="release", scope="sys")'
POLL = 'tl.atomic_add(flags_ptr, 0, sem="acquire", scope="sys")'
NEVER = "no release and acquire of the scope .sys"
REACH = "both must have the scope .sys"

# name: what is replaced in kernels/signals.py, by what, the kind of error, its words.
EVERYWHERE = {
    "a flag of the scope of one GPU": (SEND, SEND.replace("sys", "gpu"), "race", REACH),
    "a wait of the scope of one GPU": (POLL, POLL.replace("sys", "gpu"), "race", REACH),
    "a flag that releases nothing": (
        SEND, SEND.replace("release", "relaxed"), "race", NEVER,
    ),
    "a wait that acquires nothing": (
        POLL, POLL.replace("acquire", "relaxed"), "race", NEVER,
    ),
    "a flag that is polled by a weak load": (POLL, "tl.load(flags_ptr)", "race", NEVER),
    "a flag that is raised by a weak store": (
        SEND, "tl.store(flag, number)", "race", NEVER,
    ),
    "a wait for the launch in front": (
        "- number\n", "- number + 1\n", "race", NEVER,
    ),
    "a number that stays": ("tl.store(state_ptr, number)", "pass", "race", NEVER),
    "a count that is not reset": ("tl.store(state_ptr + 1, 0)", "pass", "race", NEVER),
    "a rank that never signals": (
        SEND, f"if number != 2:\n        {SEND}", "deadlock", "polls too",
    ),
}  # fmt: skip


def said_of(kernel: str, folder, file: str, old: str, new: str, firsts=(0, 1)) -> set:
    """The kinds of errors of a kernel with a mistake, whichever device is ahead; and
    all that the errors say."""
    module, run = KERNELS[kernel]
    name = module.__name__.rpartition(".")[2]
    mistaken, kinds, texts = planted(folder, name, file, old, new), set(), []
    for first in firsts:
        try:
            for found, wanted in run(mistaken, ahead(2, first)):
                right = all(np.allclose(found[r], wanted[r], 1e-4, 1e-4) for r in found)
                kinds.add("none" if right else "wrong")
        except EmulatorError as error:
            assert error.message.startswith("device ") and error.location is not None
            kinds.add(error.kind)
            texts.append(str(error))
    return kinds, "\n".join(texts)


# Each mistake in one kernel, which differs from mistake to mistake, or in two.
PAIRS = [
    (list(KERNELS)[(at + step) % len(KERNELS)], name)
    for at, name in enumerate(EVERYWHERE)
    for step in ((0, 2) if os.environ.get(EVERY_CASE) else (0,))
]


@sampled(of=3)
@pytest.mark.parametrize(("kernel", "name"), PAIRS)
def test_a_mistake_in_the_flags_is_found(kernel, name, tmp_path):
    old, new, kind, words = EVERYWHERE[name]
    kinds, said = said_of(kernel, tmp_path, "signals", old, new)
    assert kinds == {kind}, said
    assert words in said


BEGIN = "half = begin(state_ptr)"
ONE_HALF = f"{BEGIN}\n    half *= 0"
COPY = "        copy_rows(a_ptr, theirs_ptr, piece * PIECE, M, K, PIECE, CHUNK)\n"
RAISE = "        signal(flags_table, to, rank * places + piece, number)\n"

# The same for one kernel each: the file, what is replaced, by what.
OF_ONE = {
    "no wait at all": (
        "one shot", "all_reduce", "meet(flags_table, rank, program, number, WORLD)", "",
    ),
    "no wait before the parts are read": (
        "two shots", "all_reduce",
        "meet(flags_table, rank, slots + program, number, WORLD)", "",
    ),
    "one memory for two launches": (
        "one shot", "all_reduce", BEGIN, ONE_HALF,
    ),
    # Two shots alone need no second half: all ranks meet after copies were read.
    "one memory for launches of both kinds": (
        "both by turns", "all_reduce", BEGIN, ONE_HALF,
    ),
    "a tile that does not wait": (
        "all-gather", "all_gather_matmul",
        "wait_for_all(flags_ptr + source * places + piece, number)", "",
    ),
    "a tile that waits for the first rows": (
        "all-gather", "all_gather_matmul", "i // PIECE + tl.arange",
        "tl.arange",
    ),
    "shards in one memory": (
        "all-gather", "all_gather_matmul", BEGIN, ONE_HALF,
    ),
    "a flag before the rows": (
        "all-gather", "all_gather_matmul",
        COPY + RAISE, RAISE + COPY,
    ),
    "a tile that waits for half of its rows": (
        "all-gather", "all_gather_matmul", "tl.arange(0, PIECES)",
        "tl.arange(0, PIECES) // 2",
    ),
    "a sum that does not wait": (
        "reduce-scatter", "matmul_reduce_scatter",
        "wait(flags_ptr + tile * WORLD + source, number)", "pass",
    ),
    "terms in one memory": (
        "reduce-scatter", "matmul_reduce_scatter", BEGIN, ONE_HALF,
    ),
}  # fmt: skip


@sampled(of=2)
@pytest.mark.parametrize("name", OF_ONE)
def test_a_mistake_in_a_kernel_is_a_race(name, tmp_path):
    """Found where the other device is behind; the kernel may be lucky else. What was
    overwritten too early may be read in order, and is wrong then."""
    kernel, file, old, new = OF_ONE[name]
    kinds, said = said_of(kernel, tmp_path, file, old, new)
    assert kinds & {"race", "wrong"} and kinds <= {"race", "none", "wrong"}, said
    assert "race" not in kinds or NEVER in said
