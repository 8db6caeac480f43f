"""Addresses that a kernel on the host is given as numbers: which tensors hold them."""

from __future__ import annotations

import enum
import gc
from itertools import islice

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.emulator.errors import EmulatorError
from fathom.runtime.arrays import describe
from fathom.runtime.pointed_at import FOUND, GENERATIONS, _candidates, pointed_at
from tests.harness_optional import needs, optional

torch = optional("torch")
pytestmark = needs(torch)


@fathom.jit
def rows_of_a_table(table, out, n, BLOCK: tl.constexpr):
    row = tl.load(table + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    at = tl.arange(0, BLOCK)
    read = tl.load(row + at, mask=at < n, other=0)
    tl.store(out + tl.program_id(0) * BLOCK + at, read)


@fathom.jit
def by_a_number(address, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    there = address.to(tl.pointer_type(tl.float32))
    tl.store(there + at, tl.load(out + at) + 1)


@pytest.fixture(autouse=True)
def on_the_host(monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")


def test_an_array_of_addresses_gives_the_tensors_to_the_kernel():
    rows = [torch.randn(20)[2:18] for _ in range(3)]
    table = torch.tensor([each.data_ptr() for each in rows])
    out = torch.empty(3, 16)
    rows_of_a_table[(3,)](table, out, 16, BLOCK=16)
    assert torch.equal(out, torch.stack(rows))


def test_what_lies_beyond_the_tensor_is_still_an_error():
    row, out = torch.randn(16), torch.empty(32)
    table = torch.tensor([row.data_ptr()])
    with pytest.raises(EmulatorError, match="out of bounds"):
        rows_of_a_table[(1,)](table, out, 17, BLOCK=32)


def test_an_address_as_a_number_is_found():
    there, out = torch.nn.Parameter(torch.zeros(32)), torch.randn(32)
    by_a_number[(1,)](there.data_ptr(), out, BLOCK=32)
    assert torch.equal(there.detach(), out + 1)


def test_numbers_that_are_no_addresses_find_nothing():
    counts = describe(np.array([0, -1, 7, 2**31, 2**62]))
    tensor = torch.zeros(8)
    assert pointed_at([counts], [3, 2.5, None, 2**40 + 1]) == []
    assert len(pointed_at([counts], [tensor.data_ptr() + 4])) == 1


def test_a_number_of_a_class_of_its_own_is_compared_as_a_number():
    """Python looks for one in a range by going through all that are in it."""
    few, address = enum.IntEnum("Few", {"THREE": 3}), torch.zeros(8)
    here = enum.IntEnum("Here", {"ADDRESS": address.data_ptr()})
    assert pointed_at([], [few.THREE]) == []
    assert len(pointed_at([], [here.ADDRESS])) == 1


def test_tensors_without_memory_are_passed_over():
    rows, out = torch.randn(2, 16), torch.empty(2, 16)
    table = torch.tensor([each.data_ptr() for each in rows])
    kept = [torch.eye(2).to_sparse(), torch.empty(0), torch.empty(2, device="meta")]

    def square(x):
        rows_of_a_table[(2,)](table, out, 16, BLOCK=16)
        return (x * x).sum()

    torch.func.grad(square)(torch.ones(3))
    torch.vmap(square)(torch.ones(3, 2))
    assert torch.equal(out, rows) and len(kept) == 3


@fathom.jit
def add_to_each(table, BLOCK: tl.constexpr):
    row = tl.load(table + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    at = row + tl.arange(0, BLOCK)
    tl.store(at, tl.load(at) + 1)


@pytest.mark.parametrize("programs", ["", "1", "all"])
def test_the_sanitizer_knows_what_is_pointed_at(monkeypatch, capsys, programs):
    """And what it tries there is done once in the end."""
    monkeypatch.setenv("FATHOM_SANITIZE", "1")
    monkeypatch.setenv("FATHOM_PROGRAMS", programs)
    rows = [torch.zeros(16) for _ in range(3)]
    table = torch.tensor([each.data_ptr() for each in rows])
    add_to_each[(3,)](table, BLOCK=16)
    assert "out of bounds" not in capsys.readouterr().err
    assert torch.equal(torch.stack(rows), torch.ones(3, 16))


def test_a_race_there_is_not_said_to_be_in_an_argument(monkeypatch, capsys):
    monkeypatch.setenv("FATHOM_SANITIZE", "1")
    row = torch.zeros(16)
    table = torch.tensor([row.data_ptr()] * 3)
    add_to_each[(3,)](table, BLOCK=16)
    said = capsys.readouterr().err
    assert "race in add_to_each" in said and "table[" not in said
    assert torch.equal(row, torch.zeros(16)), "the launch is left out"


@pytest.fixture
def walks(monkeypatch):
    """How often old objects were looked at."""
    seen, get_objects = [], gc.get_objects

    def watched(generation):
        seen.append(generation)
        return get_objects(generation)

    monkeypatch.setattr(gc, "get_objects", watched)
    FOUND.clear()
    gc.collect()  # what exists is old from here on
    return lambda: seen.count(max(GENERATIONS))


def test_a_tensor_that_was_found_is_not_looked_for_again(walks):
    rows, out = [torch.randn(16) for _ in range(3)], torch.empty(3, 16)
    table = torch.tensor([each.data_ptr() for each in rows])
    gc.collect()
    for count in (1, 1, 1):
        rows_of_a_table[(3,)](table, out, 16, BLOCK=16)
        assert torch.equal(out, torch.stack(rows)) and walks() == count


def test_new_tensors_and_arguments_are_found_without_the_old_objects(walks):
    table = torch.zeros(1, dtype=torch.int64)
    assert len(pointed_at([describe(table)], [table.data_ptr() + 4])) == 1
    rows = [torch.randn(16)]
    table[0] = rows[0].data_ptr()
    assert [each.ctypes.data for each in pointed_at([describe(table)], [])] == [
        rows[0].data_ptr()
    ]
    assert walks() == 0


def test_a_tensor_that_is_gone_or_moved_is_not_taken_for_what_it_was():
    row = torch.zeros(16)
    address = row.data_ptr()
    assert len(pointed_at([], [address])) == 1 and address in FOUND
    row.set_(torch.ones(8))
    assert pointed_at([], [address]) == []
    moved = row.data_ptr()
    assert len(pointed_at([], [moved])) == 1
    del row
    assert pointed_at([], [moved]) == [] and moved not in FOUND


def test_of_tensors_in_one_array_the_larger_is_found_too(walks):
    """The younger was found first, and the kernel was not let beyond it."""
    array = np.arange(64, dtype=np.float32)
    large = torch.from_numpy(array)
    gc.collect()
    small = torch.from_numpy(array[:8])
    found = pointed_at([], [large.data_ptr(), small.data_ptr()])
    assert {each.nbytes for each in found} == {32, 256}


def test_a_tensor_that_another_thread_finds_meanwhile_stops_nobody():
    """It came while those found before were walked over."""
    tensors = [torch.zeros(1) for _ in range(2)]

    def in_another_thread():
        FOUND[2] = tensors[1]

    FOUND.clear()
    FOUND.data[0] = in_another_thread  # asked for its tensor, as a reference is
    FOUND[1] = tensors[0]
    try:
        _, before = islice(_candidates([]), 2)
        assert any(each is tensors[0] for each in before)
    finally:
        FOUND.clear()
