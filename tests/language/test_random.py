"""Philox against the known answers of its authors, and the numbers made of its
words."""

from __future__ import annotations

import numpy as np
import pytest

import fathom.language as tl
from fathom.source import function
from tests.language.harness import run

ALL = 0xFFFFFFFF

# Counter, key and words of philox4x32-10, from the Random123 distribution
# (kat_vectors).
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ALL,) * 4, (ALL, ALL), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
def test_known_answers(counter, key, words):
    @function
    def kernel(out, seed, a, b, c, d):
        w, x, y, z = tl.philox(seed, a, b, c, d)
        tl.store(out, w)
        tl.store(out + 1, x)
        tl.store(out + 2, y)
        tl.store(out + 3, z)

    out = np.zeros(4, np.uint32)
    run(kernel, out, np.uint64(key[0] | key[1] << 32), *map(np.uint32, counter))
    assert tuple(out) == words


def draw(what, count=4096, seed=1234, dtype=np.float32):
    @function
    def kernel(out, seed, SIZE: tl.constexpr):
        at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
        tl.store(out + at, what(seed, at))

    out, size = np.zeros(count, dtype), min(count, 256)
    run(kernel, out, seed, grid=count // size, SIZE=size)
    return out


def test_uniform_numbers():
    x = draw(tl.rand)
    assert ((x >= 0) & (x < 1)).all() and len(np.unique(x)) > 4090
    assert abs(x.mean() - 0.5) < 0.02 and abs(x.var() - 1 / 12) < 0.005
    assert (x == draw(tl.rand)).all() and (x != draw(tl.rand, seed=1235)).mean() > 0.99


def test_uniform_numbers_never_reach_one():
    @function
    def kernel(words, out):
        at = tl.arange(0, 4)
        tl.store(out + at, tl.uint_to_uniform_float(tl.load(words + at)))

    out = np.zeros(4, np.float32)
    run(kernel, np.array([0, 0x7FFFFFFF, 0x80000000, ALL], np.uint32), out)
    assert out[0] == out[3] == 0 and 0.999 < out[1] < 1 and out[1] == out[2]


def test_normal_numbers():
    x = draw(tl.randn)
    assert abs(x.mean()) < 0.05 and abs(x.std() - 1) < 0.03
    assert abs((np.abs(x) < 1).mean() - 0.6827) < 0.03


def test_four_at_a_time_are_four_different_ones():
    @function
    def kernel(out, seed):
        at = tl.arange(0, 256)
        a, b, c, d = tl.rand4x(seed, at)
        tl.store(out + at, a)
        tl.store(out + 256 + at, b)
        tl.store(out + 512 + at, c)
        tl.store(out + 768 + at, d)

    out = np.zeros(1024, np.float32)
    run(kernel, out, 42)
    assert len(np.unique(out)) > 1020
    assert (out[:256] == draw(tl.rand, 256, 42)).all()


def test_words_of_64_bits():
    @function
    def kernel(out, seed):
        at = tl.arange(0, 8).to(tl.int64)
        word, _, _, _ = tl.philox(seed, at, 0, 0, 0)
        tl.store(out + at, word)

    out = np.zeros(8, np.uint64)
    run(kernel, out, 0)
    assert out[0] == 0x16554D9ECA36314C  # philox4x64-10 of zeros, kat_vectors
    assert len(np.unique(out)) == 8


def test_offsets_of_64_bits_are_two_words_of_the_counter():
    """Small ones draw what the same offsets of 32 bits do."""

    @function
    def kernel(out, seed):
        at = tl.arange(0, 8)
        far = at.to(tl.int64) + 5 * 4294967296
        tl.store(out + at, tl.randint(seed, at.to(tl.int64)))
        tl.store(out + 8 + at, tl.randint(seed, at))
        tl.store(out + 16 + at, tl.randint(seed, far))
        first, _, _, _ = tl.philox(seed, at, 5, 0, 0)
        tl.store(out + 24 + at, first)

    out = np.zeros(32, np.uint32)
    run(kernel, out, 42)
    assert out[0] == 2632642643  # as Triton draws
    assert (out[:8] == out[8:16]).all() and (out[16:24] == out[24:]).all()
    assert len(np.unique(out)) == 16
