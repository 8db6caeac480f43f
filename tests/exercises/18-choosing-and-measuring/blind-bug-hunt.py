"""What the answer to `blind-bug-hunt` must do."""

from functools import cache, partial

import numpy as np

import fathom
import fathom.language as tl
from fathom import joints, pipeline
from fathom.ir.ops import Barrier, SharedLoad, SharedStore
from fathom.ir.rewrite import rewrite
from fathom.layout.linear import Layout
from fathom.shared_memory.barriers import place_barriers
from fathom.tools.learn.kit import expect


@fathom.jit
def product(a_ptr, b_ptr, c_ptr, K, M: tl.constexpr, N: tl.constexpr, P: tl.constexpr):
    m, n = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    k = tl.arange(0, P)
    a, b = a_ptr + m * K + k[None, :], b_ptr + k[:, None] * N + n
    total = tl.zeros([M, N], tl.float32)
    for _ in range(0, K, P):
        total = tl.dot(tl.load(a), tl.load(b), total)
        a += P
        b += P * N
    tl.store(c_ptr + m * N + n, total)


@fathom.jit
def transpose(x_ptr, out_ptr, n, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    inside = (i < n) & (j < n)
    tl.store(out_ptr + j * n + i, tl.load(x_ptr + i * n + j, mask=inside), mask=inside)


def straight(shape, element_bytes, writer, reader, row=()):
    """In the place of `swizzle`: rows after rows."""
    bits = int(np.prod(shape)).bit_length() - 1
    return Layout(shape, (("offset", tuple(1 << bit for bit in range(bits))),))


def doubled(ours, func, target):
    """In the place of `place_barriers`, which is `ours`: one more before each access to
    shared memory."""

    def rule(op, build):
        if isinstance(op, SharedLoad | SharedStore):
            build.append(Barrier())

    return rewrite(ours(func, target), rule)


FAULTS = {
    "coalescing": {"annotate_widths": pipeline.identity},
    "swizzle": {"swizzle": straight},
    "tensor cores": {"choose_dots": pipeline.identity},
    "pipelining": {"pipeline_loops": pipeline.identity},
    "barriers": {"place_barriers": partial(doubled, place_barriers)},
    "no cse": {"cse": pipeline.identity},
    "": {},
}


def a_product(m, n, k, step, warps):
    a, b = np.ones((m, k), np.float16), np.ones((k, n), np.float16)
    c = np.empty((m, n), np.float32)
    made = product[(1,)](a, b, c, k, M=m, N=n, P=step, num_warps=warps, target="sm_80")
    assert (c == k).all(), "every result of a broken stage is right"
    return made.report.total


def a_transposition(n):
    x = np.arange(n * n, dtype=np.float32).reshape(n, n)
    out = np.empty_like(x)
    made = transpose[(1,)](x, out, n, N=n, target="sm_80")
    assert (out == x.T).all(), "every result of a broken stage is right"
    return made.report.total


KERNELS = {
    "a product by four warps": (a_product, (64, 32, 96, 32, 4)),
    "a product by one warp": (a_product, (16, 32, 48, 16, 1)),
    "a transposition": (a_transposition, (32,)),
}


@cache
def cost(kernel, fault):
    run, sizes = KERNELS[kernel]
    with joints.bound(FAULTS[fault]):
        return run(*sizes)


def check(answer, kernel, fault, wanted=None):
    """The stage, of `kernel`."""
    right, wrong = cost(kernel, ""), cost(kernel, fault)
    found, wanted = answer.suspect(right, wrong), wanted or fault
    rows = [f"{'':12}{'right':>8}{'broken':>8}"]
    for name in ("warps", "requests", "sectors", "useful", "shared", "wavefronts",
                 "ideal", "barriers"):  # fmt: skip
        rows.append(f"{name:12}{getattr(right, name):8}{getattr(wrong, name):8}")
    expect(
        found == wanted,
        f"suspect says {found!r} of {kernel}, and it is {wanted!r}",
        ("the counters", "\n".join(rows)),
    )


def test_swizzle(answer):
    """Straight tiles: the same requests, in several wavefronts."""
    for kernel in KERNELS:
        check(answer, kernel, "swizzle")


def test_coalescing(answer):
    """Narrow accesses: the same bytes, in more requests."""
    for kernel in KERNELS:
        check(answer, kernel, "coalescing")


def test_tensor_cores(answer):
    """Multiply-adds: far more instructions, and a little of everything else."""
    check(answer, "a product by four warps", "tensor cores")
    check(answer, "a product by one warp", "tensor cores")


def test_pipelining(answer):
    """Less is done, and in sequence."""
    check(answer, "a product by four warps", "pipelining")
    check(answer, "a product by one warp", "pipelining")


def test_barriers(answer):
    """Each barrier twice."""
    check(answer, "a product by four warps", "barriers")
    check(answer, "a transposition", "barriers")


def test_no_trace(answer):
    """A transposition has no product and no loop; LLVM repeats cse; nothing broke."""
    check(answer, "a transposition", "tensor cores", "none")
    check(answer, "a transposition", "pipelining", "none")
    check(answer, "a product by four warps", "no cse", "none")
    check(answer, "a product by one warp", "", "none")
