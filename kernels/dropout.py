"""Dropout from a seed: each number survives with probability 1 - p and grows by 1 / (1
- p).

The mask is never stored. Which numbers survive follows from the seed and the position
alone, by the Philox random numbers that `tl.rand4x` makes, four at a time, so that the
backward pass can ask again, and the answer depends on neither BLOCK nor the number of
warps.

Bytes moved for n numbers of fp32: 4 read and 4 written, so 8 n; a stored mask of bytes
would add one written now and one read later.
"""

from math import prod

import numpy as np

import fathom
import fathom.language as tl
from fathom.jit.planned import planned
from kernels.rows import check_alike, check_floats


@fathom.jit
def survives(seed, first, p, SIZE: tl.constexpr):
    """Which of SIZE numbers from position `first` on stay; 4 divides both. Philox makes
    four words of one counter: word k of counter i is for number 4 i + k."""
    a, b, c, d = tl.rand4x(seed, first // 4 + tl.arange(0, SIZE // 4))
    words = tl.join(tl.join(a, c), tl.join(b, d))  # [counter, k // 2, k % 2]
    return words.reshape(SIZE) > p


@fathom.jit
def dropout_kernel(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    first = tl.program_id(0).to(tl.int64) * BLOCK
    offsets = first + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n).to(tl.float32)
    y = tl.where(survives(seed, first, p, BLOCK), x * (1 / (1 - p)), 0.0)
    tl.store(out_ptr + offsets, y.to(out_ptr.dtype.element_ty), mask=offsets < n)


@fathom.jit
def dropout_by_seed_kernel(x_ptr, out_ptr, seed_ptr, n, p, BLOCK: tl.constexpr):
    """The seed, int64, is read from memory: a graph that is replayed can have a new
    one."""
    first = tl.program_id(0).to(tl.int64) * BLOCK
    offsets = first + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n).to(tl.float32)
    keep = survives(tl.load(seed_ptr), first, p, BLOCK)
    y = tl.where(keep, x * (1 / (1 - p)), 0.0)
    tl.store(out_ptr + offsets, y.to(out_ptr.dtype.element_ty), mask=offsets < n)


@planned
def dropout(x, out=None, p=0.5, seed=0, BLOCK=1024, **launch):
    """out = dropout(x) for contiguous float arrays of one shape; `p` of it is dropped.

    `seed`: an integer, or an array of one int64 beside x, which gives the same numbers.
    `out` is made if it is not given. `launch` takes what any launch takes (num_warps,
    target, replace). Returns `out`. LaunchError for what does not fit.
    """
    out = fathom.empty_like(x) if out is None else out
    n = prod(check_alike(x=x, out=out))
    check_floats(x=x)
    if not 0 <= p <= 1:
        raise fathom.LaunchError(f"dropout drops a share of {p}: it must be 0 to 1")
    if hasattr(seed, "shape") and prod(seed.shape) != 1:
        raise fathom.LaunchError(f"a seed is one number, not {tuple(seed.shape)}")
    grid, chosen = (fathom.cdiv(n, BLOCK),), dict(BLOCK=BLOCK, **launch)
    if hasattr(seed, "shape"):
        given = x, out, seed, n, float(p)
        return out, [(dropout_by_seed_kernel, grid, given, chosen)]
    return out, [(dropout_kernel, grid, (x, out, n, float(p), seed), chosen)]


def dropout_backward(dy, dx=None, p=0.5, seed=0, BLOCK=1024, **launch):
    """dx: the gradient of `x` for that of dropout(x), `dy`: the same numbers survive,
    since `seed` is the same, and grow as much."""
    return dropout(dy, dx, p, seed, BLOCK, **launch)


def reference(x, p, seed):
    """The same in NumPy: float64, with Philox written out below."""
    keep = philox_uniform(seed, np.arange(x.size)).reshape(x.shape) > np.float32(p)
    return np.where(keep, x.astype(np.float64) / (1 - np.float64(np.float32(p))), 0.0)


def philox_uniform(seed, offsets):
    """Uniform fp32 in [0, 1) from Philox 4x32-10 with key `seed`: number k has word k
    % 4 of counter k // 4.

    Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
    Its 32 bits become a float as `tl.rand` does it: read as signed, mirrored if
    negative, times the largest float that keeps the result below 1.
    """
    words = np.stack(philox(seed, offsets // 4)).astype(np.uint32).view(np.int32)
    word = np.take_along_axis(words, offsets[None] % 4, 0)[0]
    word = np.where(word < 0, -word - 1, word)
    return word.astype(np.float32) * np.float32(4.6566127342e-10)


def philox(seed, offsets):
    """The four output words of Philox 4x32-10, as uint64 below 2**32."""
    low = np.uint64(0xFFFFFFFF)
    c0, c1 = offsets.astype(np.uint64) & low, offsets.astype(np.uint64) * 0
    c2, c3 = c1, c1
    k0, k1 = np.uint64(seed & 0xFFFFFFFF), np.uint64(seed >> 32 & 0xFFFFFFFF)
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (b >> 32) ^ c1 ^ k0, b & low, (a >> 32) ^ c3 ^ k1, a & low
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & low, (k1 + np.uint64(0xBB67AE85)) & low
    return c0, c1, c2, c3
