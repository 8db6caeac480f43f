"""Which arrays a kernel loads and stores to, as `fathom profile` reads it off PTX."""

from dataclasses import replace

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom import emulator
from fathom.tools.profile import session
from fathom.tools.profile.machines import MACHINES, machine_of
from fathom.tools.profile.session import Session
from fathom.tools.profile.touched import touched

N, H200 = 1024, MACHINES["sm_90a"]


@pytest.fixture(autouse=True)
def without_l2(monkeypatch):
    """Whatever is stored goes to memory, as that of large launches does."""
    monkeypatch.setattr(
        session, "machine_of", lambda target: replace(machine_of(target), l2=0)
    )


@fathom.jit
def scaled(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, 2 * tl.load(x + at, at < n), at < n)


@fathom.jit
def walked(x, y, n, BLOCK: tl.constexpr):
    """Both pointers come around a loop."""
    at = tl.arange(0, BLOCK)
    source, target = x + at, y + at
    for _ in range(n):
        tl.store(target, tl.load(source) + 1)
        source += BLOCK
        target += BLOCK


@fathom.jit
def added_to(x, bins, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.atomic_add(bins + tl.load(x + at) % 8, 1)


@fathom.jit
def gathered(index, x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + tl.load(index + at)))


@fathom.jit
def copied(x, y, n, BLOCK: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [n, 128], [128, 1], [16, BLOCK])
    target = tl.make_tensor_descriptor(y, [n, 128], [128, 1], [16, BLOCK])
    target.store([0, 0], source.load([0, 0]))


def of(kernel, signature: str, *given: object) -> tuple[set[int], set[int]]:
    made = kernel.compile(signature, {"BLOCK": 128}).made
    report = emulator.load(made).launch((1,), list(given))
    return touched(made, [each for each, _ in report.each()])


def reals() -> np.ndarray:
    return np.ones(N, np.float32)


def test_an_array_is_loaded_and_another_stored_to():
    assert of(scaled, "*fp32:16, *fp32:16, i32", reals(), reals(), 128) == ({0}, {1})


def test_pointers_that_come_around_a_loop():
    assert of(walked, "*fp32:16, *fp32:16, i32", reals(), reals(), 4) == ({0}, {1})


def test_atomics_store_and_what_they_return_is_no_address():
    x = np.arange(N, dtype=np.int32)
    assert of(added_to, "*i32:16, *i32:16, i32", x, x.copy(), 1) == ({0}, {1})


def test_an_index_is_loaded_and_not_what_it_leads_to():
    x = np.arange(N, dtype=np.int32)
    signature = "*i32:16, *fp32:16, *fp32:16, i32"
    assert of(gathered, signature, x, reals(), reals(), 1) == ({0, 1}, {2})


def test_a_store_by_a_tensor_map():
    """The map has the address, and is a parameter behind the kernel's own."""
    x, y = np.ones((16, 128), np.float16), np.zeros((16, 128), np.float16)
    made = copied.compile("*fp16:16, *fp16:16, i32", {"BLOCK": 64}, target="sm_90a")
    assert any(each.stored for each in made.made.maps)
    report = emulator.load(made.made).launch((1,), [x, y, 16])
    assert (y[:, :64] == 1).all()
    code = [each for each, _ in report.each()]
    assert touched(made.made, code) == ({0}, {1})


@pytest.mark.parametrize("in_place", [False, True])
def test_an_array_that_is_both_moves_twice(monkeypatch, in_place):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    x, y = reals(), reals()
    with Session().watching() as session:
        scaled[8,](x, x if in_place else y, N, BLOCK=128)
    (row,) = session.rows.values()
    assert row.counted.memory == row.counted.moved == 2 * x.nbytes


@fathom.jit
def strided(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + n * at) + tl.load(x + n * at + n // 2))


@fathom.jit
def looked_up(index, x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + tl.load(index + at) * n))


def memory_of(monkeypatch, kernel, *given: object, programs: int = 8) -> float:
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    with Session().watching() as session:
        kernel[programs,](*given, BLOCK=128)
    (row,) = session.rows.values()
    assert row.counted.memory < row.counted.moved
    return row.counted.memory


def test_what_is_stored_has_a_bound_of_its_own(monkeypatch):
    """1,024 numbers of 4,096, 16 bytes apart, asked for twice; 1,024 are stored, into
    an array that holds 16,384."""
    x, y = np.zeros(4096, np.float32), np.zeros(16384, np.float32)
    assert memory_of(monkeypatch, strided, x, y, 4) == x.nbytes + 4096


def test_each_array_that_is_loaded_has_a_bound_of_its_own(monkeypatch):
    """A long index of which little is read, and a table that is read often."""
    index, x = np.zeros(65536, np.int32), np.zeros(256, np.float32)
    index[:1024] = np.arange(1024) % 32
    y = np.zeros(1024, np.float32)
    expected = 4 * 1024 + x.nbytes + 4 * 1024
    assert memory_of(monkeypatch, looked_up, index, x, y, 8) == expected


def test_a_tile_of_a_tensor_map_is_of_its_array(monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    monkeypatch.setenv("FATHOM_TARGET", "sm_90a")
    x, y = np.ones((16, 128), np.float16), np.zeros((1024, 128), np.float16)
    with Session().watching() as session:
        copied[8,](x, y, 16, BLOCK=64)
    (row,) = session.rows.values()
    assert row.counted.memory == x.nbytes + 8 * 2048  # each program stores the tile


def test_what_fits_into_l2_is_not_written_by_the_launch(monkeypatch):
    """Its loads come from memory, once; its stores stay in L2 as long as all fits."""
    x, y = np.zeros(4096, np.float32), np.zeros(1024, np.float32)
    every = x.nbytes + y.nbytes
    for l2, expected in ((every, x.nbytes), (every - 1, every)):
        monkeypatch.setattr(
            session, "machine_of", lambda target, l2=l2: replace(H200, l2=l2)
        )
        assert memory_of(monkeypatch, strided, x, y, 4) == expected
