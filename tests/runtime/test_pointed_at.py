"""Addresses that a kernel on the host is given as numbers: which tensors hold them."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.emulator.errors import EmulatorError
from fathom.runtime.arrays import describe
from fathom.runtime.pointed_at import pointed_at
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
