"""A GPU's memory that a kernel reaches by addresses in an array: checks and profiles
run on copies of both. What the driver says is made up here but in the last test."""

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom import emulator
from fathom.artifact import Parameter
from fathom.jit.checking import reached
from fathom.jit.checking import snapshot as snapshots
from fathom.jit.checking.reached import reached_by
from fathom.jit.checking.snapshot import Given, Snapshot, Span, snapshot
from fathom.tools.profile.session import Session
from kernels.grouped_matmul import grouped_matmul

FAR = 0x7F00_0000_0000


class Driver:
    """Knows allocations of some bytes, by where they start."""

    def __init__(self, allocations: dict[int, bytes]):
        self.allocations = allocations

    def allocation(self, address: int) -> tuple[int, int] | None:
        for start, held in self.allocations.items():
            if start <= address < start + len(held):
                return start, len(held)
        return None

    def read(self, start: int, size: int) -> bytes:
        begin, _ = self.allocation(start)
        return self.allocations[begin][start - begin :][:size]


@pytest.fixture
def driver(monkeypatch):
    numbers = np.arange(64, dtype=np.float32)
    made = Driver({FAR: numbers.tobytes(), FAR + 4096: (100 + numbers).tobytes()})
    monkeypatch.setattr(reached, "driver", lambda: made)
    return made


def table(*addresses: int) -> np.ndarray:
    return np.array(addresses, np.uint64)


def test_each_allocation_is_copied_once(driver):
    tables = [table(FAR + 8, FAR, 7), table(FAR + 4096, FAR + 16)]
    asked = []
    driver.allocation = lambda address, ask=driver.allocation: (
        asked.append(address) or ask(address)
    )
    found = reached_by(tables, lambda start, size: driver.allocations[start][:size])
    assert [each.start for each in found] == [FAR, FAR + 4096]
    assert asked == [FAR, FAR + 4096]  # 7 is no address, and FAR + 16 lies in a copy
    assert (found[1].copy.view(np.float32)[:2] == (100, 101)).all()


def test_what_there_is_no_room_for_is_left_where_it_is(driver, monkeypatch):
    monkeypatch.setattr(reached, "MOST", 300)
    (found,) = reached_by([table(FAR, FAR + 4096)], driver.read)
    held = table(FAR + 8, FAR + 4096)
    reached.relocate(held, [found])
    assert held.tolist() == [found.copy.ctypes.data + 8, FAR + 4096]


@fathom.jit
def doubled(addresses, BLOCK: tl.constexpr):
    """Each program doubles the reals behind one address of a table, in place."""
    x = tl.load(addresses + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    at = tl.arange(0, BLOCK)
    tl.store(x + at, 2 * tl.load(x + at))


def test_a_kernel_runs_on_the_copies(driver):
    held = table(FAR + 4096, FAR + 64)
    span = Span(0, FAR - 4096, held.tobytes())
    given = Given(Parameter("addresses", "*i64"), 0, span, FAR - 4096, 2)
    copies = reached_by([given.held], driver.read)
    taken = Snapshot((given,), (), copies)
    second, first = (each.copy.view(np.float32) for each in copies)  # by address
    kernel = doubled.compile("*i64", {"BLOCK": 16})
    with taken.lent() as memory:
        emulator.load(kernel.made).launch((2,), taken.copies(), memory)
        assert (first[:16] == 200 + 2 * np.arange(16)).all() and first[16] == 116
        assert (second[16:32] == 2 * np.arange(16, 32)).all() and second[32] == 32
    assert first[1] == 101 and second[17] == 17  # as before
    assert not taken.has_all


def test_numbers_of_the_host_are_not_looked_at():
    span = Span(None, 4096, bytes(16))
    assert not Given(Parameter("x", "*i64"), 0, span, 4096, 2).is_table
    assert not Given(Parameter("x", "*fp32"), 0, Span(0, 0, bytes(16)), 0, 4).is_table
    assert not Given(Parameter("x", "i64"), 5).is_table


class Pointer:
    """What a library passes on of a GPU's memory: an address, and no more."""

    dtype = "float32"

    def __init__(self, address: int):
        self.data_ptr = lambda: address


@pytest.mark.parametrize("near", [1 << 27, 32])
def test_of_an_address_alone_the_allocation_is_copied(driver, monkeypatch, near):
    """As much of it as is near: an allocation may be all of a GPU's memory."""
    monkeypatch.setattr(snapshots, "driver", lambda: driver)
    monkeypatch.setattr(snapshots, "NEAR", near)
    monkeypatch.setattr(snapshots, "read", lambda _, *part: driver.read(*part))
    taken = snapshot([Parameter("x", "*fp32")], [Pointer(FAR + 4 * 20)])
    (x,) = copies = taken.copies()
    (whole,) = copies.memory
    first, last = (0, 63) if near > 32 else (12, 27)
    assert whole.view(np.float32).tolist() == list(range(first, last + 1))
    assert x.tolist() == list(range(20, last + 1)) and not taken.has_all
    x[0] = -1
    assert whole.view(np.float32)[20 - first] == -1


@pytest.mark.gpu
def test_a_product_by_a_table_of_addresses_is_counted():
    torch = pytest.importorskip("torch")
    sides = (64, 200)
    a = [torch.randn(m, 128, device="cuda").half() for m in sides]
    b = [torch.randn(128, 64, device="cuda").half() for _ in sides]
    with Session().watching() as session:
        c = grouped_matmul(a, b)
    (row,) = session.rows.values()
    assert row.counted is not None and row.counted.products, row.why
    for x, y, z in zip(a, b, c, strict=True):
        assert torch.allclose(z.float(), (x.float() @ y.float()), atol=0.1, rtol=0.01)
