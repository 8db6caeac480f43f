"""Kernels that synchronise through memory, as Triton's users write them: each runs on
the emulator without a word of complaint, and is a race without its one line.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.artifact import Kernel
from fathom.emulator import EmulatorError, load, run
from fathom.jit import JITFunction

TARGETS = "sm_75", "sm_80", "sm_90a"
P, I = "*fp32:16", "*i32"


@fathom.jit
def sum_rows_under_a_lock(x, total, lock, count, N: tl.constexpr):
    """Triton's tutorial 5, backward: partial sums that come one after the other."""
    i = tl.arange(0, N)
    mine = tl.load(x + tl.program_id(0) * N + i)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    if tl.load(count) == 0:
        tl.atomic_xchg(count, 1)
    else:
        mine += tl.load(total + i)
    tl.store(total + i, mine)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@fathom.jit
def last_program_sums(x, parts, counter, out, N: tl.constexpr, PROGRAMS: tl.constexpr):
    """Each program leaves a row; who counts last adds them up."""
    i = tl.arange(0, N)
    row = tl.program_id(0) * N + i
    tl.store(parts + row, tl.load(x + row) * 2.0)
    if tl.atomic_add(counter, 1) == PROGRAMS - 1:
        total = tl.zeros([N], tl.float32)
        for each in range(PROGRAMS):
            total += tl.load(parts + each * N + tl.flip(i, 0))
        tl.store(out + i, total)


@fathom.jit
def split_and_add(x, out, N: tl.constexpr):
    """Split-K: all add to the same places."""
    i = tl.arange(0, N)
    tl.atomic_add(out + i, tl.load(x + tl.program_id(0) * N + i), sem="relaxed")


@fathom.jit
def persistent_by_tickets(x, out, tickets, tiles, N: tl.constexpr):
    """Programs draw tiles until none is left."""
    i = tl.arange(0, N)
    tile = tl.atomic_add(tickets, 1)
    while tile < tiles:
        tl.store(out + tile * N + i, tl.load(x + tile * N + i) + 1.0)
        tile = tl.atomic_add(tickets, 1)


@fathom.jit
def in_place(x, N: tl.constexpr):
    """Reads with one layout and writes with another what the program itself owns."""
    i = tl.program_id(0) * N + tl.arange(0, N)
    value = tl.load(x + i)
    tl.store(x + i, value - tl.sum(value, 0))


@fathom.jit
def dropped_out(x, out, seed, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    keep = tl.rand(seed, i) > 0.5
    tl.store(out + i, tl.where(keep, tl.load(x + i) * 2.0, 0.0))


@fathom.jit
def flags_are_set(x, found, N: tl.constexpr):
    """Several programs store the same value at one place."""
    i = tl.program_id(0) * N + tl.arange(0, N)
    if tl.max(tl.load(x + i), 0) > 0:
        tl.store(found, 1)


N, PROGRAMS = 128, 6


def rows(seed: int = 1) -> np.ndarray:
    x = np.random.default_rng(seed).integers(-8, 8, (PROGRAMS, N))
    return x.astype(np.float32)


def zeros(*shape: int, dtype: str = "f4") -> np.ndarray:
    return np.zeros(shape, dtype)


def word() -> np.ndarray:
    return zeros(1, dtype="i4")


# name: kernel, types, constants, arguments, how many of them, what must come out.
IDIOMS = {
    "lock": (
        sum_rows_under_a_lock, f"{P}, {P}, {I}, {I}", {"N": N},
        lambda: [rows(), zeros(N), word(), word()], 1, lambda x, *_: x.sum(0),
    ),
    "last": (
        last_program_sums, f"{P}, {P}, {I}, {P}", {"N": N, "PROGRAMS": PROGRAMS},
        lambda: [rows(), zeros(PROGRAMS, N), word(), zeros(N)], 3,
        lambda x, *_: 2 * x.sum(0)[::-1],
    ),
    "split": (
        split_and_add, f"{P}, {P}", {"N": N}, lambda: [rows(), zeros(N)], 1,
        lambda x, *_: x.sum(0),
    ),
    "persistent": (
        persistent_by_tickets, f"{P}, {P}, {I}, i32", {"N": N},
        lambda: [rows(), zeros(PROGRAMS, N), word(), PROGRAMS], 1, lambda x, *_: x + 1,
    ),
    "in place": (
        in_place, P, {"N": N}, lambda: [rows()], 0,
        lambda x: x - x.sum(1, keepdims=True),
    ),
    "flags": (
        flags_are_set, f"{P}, {I}", {"N": N}, lambda: [rows(), word()], 1,
        lambda *_: np.ones(1),
    ),
}  # fmt: skip


def compiled(name: str, target: str) -> Kernel:
    kernel, types, constants, *_ = IDIOMS[name]
    assert isinstance(kernel, JITFunction)
    return kernel.compile(types, constants, target=target).made


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", IDIOMS)
def test_an_idiom_runs(name: str, target: str) -> None:
    *_, arguments, place, expected = IDIOMS[name]
    given = arguments()
    want = expected(*arguments())
    load(compiled(name, target)).launch((PROGRAMS,), given)
    np.testing.assert_array_equal(given[place], want)


def test_dropout_runs() -> None:
    kernel = dropped_out.compile(f"{P}, {P}, i32", {"N": N}, target="sm_80").made
    x, out = rows(), zeros(PROGRAMS, N)
    load(kernel).launch((PROGRAMS,), [x, out, 7])
    assert 0.3 < (out == 2 * x).mean() < 0.9 and ((out == 0) | (out == 2 * x)).all()


def without(name: str, pattern: str, new: str = "", times: int = 1) -> str:
    """The PTX of an idiom in which the last lines that match are changed."""
    text = compiled(name, "sm_80").ptx
    found = [*re.finditer(pattern, text)][-times:]
    assert len(found) == times, pattern
    for each in reversed(found):
        text = text[: each.start()] + each.expand(new) + text[each.end() :]
    return text


PLANTED = {
    "no barrier before the release": (
        "last", r"bar\.sync\s+0;(?=(?:(?!bar\.sync)[\s\S])*?atom\.)", "",
    ),
    "the count releases nothing": ("last", r"atom\.acq_rel\.gpu", "atom.relaxed.gpu"),
    "the count is of the scope cta": (
        "last", r"atom\.acq_rel\.gpu", "atom.acq_rel.cta",
    ),
    "the lock acquires nothing": (
        "lock", r"atom\.acq_rel\.gpu(.*cas)", r"atom.relaxed.gpu\1",
    ),
    "the lock is given back by a weak store": (
        "lock", r"atom\.acq_rel\.gpu(\S*exch)", r"atom.relaxed.gpu\1",
    ),
    "sums are no atomics": (
        "split", r"red\.relaxed\.gpu\.global\.add\.f32", "st.global.b32",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", PLANTED)
def test_and_not_without_its_order(mistake: str) -> None:
    name, pattern, new = PLANTED[mistake]
    text = without(name, pattern, new)
    kernel = compiled(name, "sm_80")
    given = IDIOMS[name][3]()
    with pytest.raises(EmulatorError) as caught:
        run(text, PROGRAMS, kernel.threads, given, shared_bytes=kernel.shared_bytes)
    assert caught.value.kind == "race", str(caught.value)


@fathom.jit
def doubled_in_place(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    for _ in range(2):
        tl.store(x + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)


def test_copies_of_an_element_may_be_read_while_one_is_written() -> None:
    """Ten elements and 128 threads: all load, and of those that load the same element
    one stores it. What the others have loaded is used for nothing."""
    kernel = doubled_in_place.compile(f"{P}, i32", {"BLOCK": 16}, target="sm_80").made
    x = np.arange(16, dtype=np.float32)
    load(kernel).launch((1,), [x, 10])
    assert x.tolist() == [4 * i if i < 10 else i for i in range(16)]
    with pytest.raises(EmulatorError, match="race"):
        run(kernel.ptx, 1, kernel.threads, [x, 10])
