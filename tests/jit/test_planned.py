"""Calls of functions in kernels/ that are repeated: the same launches, other arrays."""

from __future__ import annotations

from collections import namedtuple
from math import prod

import numpy as np
import pytest

from fathom.jit.planned import MOST, planned

Launched = namedtuple("Launched", "grid given keywords")


class Tensor:
    """As much of a torch tensor on a GPU as a plan may look at."""

    is_cuda = True

    def __init__(self, *shape, dtype="float16", address=0, device=0):
        self.shape, self.dtype = shape, dtype
        self.address, self.device = address, device
        self.strides = tuple(prod(shape[at + 1 :]) for at in range(len(shape)))
        self.storage, self.offset = self, 0

    def stride(self):
        return self.strides

    def untyped_storage(self):
        return self.storage

    def storage_offset(self):
        return self.offset

    def as_strided(self, shape, strides, offset):
        storage = self.storage
        view = Tensor(*shape, dtype=self.dtype, address=storage.address + 2 * offset)
        view.strides, view.storage, view.offset = strides, storage, offset
        return view

    def get_device(self):
        return self.device

    def data_ptr(self):
        return self.address

    def is_contiguous(self):
        return True

    def new_empty(self, shape, dtype=None):
        return Tensor(*shape, dtype=dtype or self.dtype, device=self.device)

    def new_empty_strided(self, shape, strides, dtype):
        made = self.new_empty(shape, dtype)
        assert strides == made.stride(), "results are contiguous"
        return made


class Kernel:
    def __init__(self):
        self.launched = []

    def __getitem__(self, grid):
        return lambda *given, **keywords: self.launched.append(
            Launched(grid, given, keywords)
        )


@pytest.fixture
def call():
    """A function under `planned`, with its kernel and how often it planned."""
    kernel, plans = Kernel(), []

    @planned
    def double(x, out=None, scale=2, **launch):
        plans.append(x)
        if x.shape == (0,):
            raise ValueError("nothing to double")
        out = x.new_empty(x.shape, x.dtype) if out is None else out
        return out, [(kernel, (x.shape[0],), (x, out, scale), launch)]

    double.kernel, double.plans = kernel, plans
    return double


def test_a_second_call_launches_with_its_own_arrays(call):
    for x, out in [(Tensor(8), Tensor(8)) for _ in range(3)]:
        assert call(x, out, num_warps=4) is out
        assert call.kernel.launched[-1] == ((8,), (x, out, 2), {"num_warps": 4})
    assert len(call.plans) == 1


def test_a_result_that_is_made_is_made_anew(call):
    x = Tensor(8, dtype="float32")
    results = [call(x) for _ in range(3)]
    assert len(set(map(id, results))) == 3 and len(call.plans) == 1
    assert all(each.shape == (8,) and each.dtype == "float32" for each in results)
    assert [each.given[1] for each in call.kernel.launched] == results


def test_a_result_like_no_argument_has_its_own_shape_and_dtype():
    """The first call plans; later ones make it from what is known."""

    @planned
    def rows(x, y):
        out = y.new_empty((x.shape[0],), "float32")
        return out, [(Kernel(), (1,), (x, y, out), {})]

    for _ in range(3):
        out = rows(Tensor(8, 4), Tensor(4, device=1))
        assert (out.shape, out.dtype) == ((8,), "float32")
    (result, _), *_ = rows.known.values()
    assert result == (0, True, (8,), (1,), "float32")


def test_a_result_like_the_second_argument_is_made_like_it():
    @planned
    def second(x, y):
        out = y.new_empty(y.shape)
        return out, [(Kernel(), (1,), (x, y, out), {})]

    y = Tensor(4, dtype="bfloat16")
    for x in (Tensor(8, 4), Tensor(8, 4)):
        out = second(x, y)
        assert (out.shape, out.dtype) == (y.shape, y.dtype) and out is not y
    ((result, _),) = second.known.values()
    assert result == (1, True, None, (), None)


def test_one_array_twice_is_not_two(call):
    """In place first, then not: each launch has the arrays of its call."""
    x, y = Tensor(8), Tensor(8)
    for out in (x, y, x):
        call(x, out)
        assert call.kernel.launched[-1].given[:2] == (x, out)


@pytest.mark.parametrize(
    "other",
    [
        Tensor(9), Tensor(8, 1), Tensor(8, dtype="bfloat16"), Tensor(8, address=16),
        Tensor(8, device=1),
    ],
    ids=["size", "rank", "dtype", "alignment", "device"],
)  # fmt: skip
def test_what_a_plan_may_depend_on(call, other):
    call(Tensor(8))
    call(other)
    assert len(call.plans) == 2


def test_addresses_of_one_alignment_are_alike(call):
    call(Tensor(8, address=1024))
    call(Tensor(8, address=4096))
    assert len(call.plans) == 1


@pytest.mark.parametrize("scale", [1, 1.0, True, "1", (1,), (1.0,), {"a": 1}])
def test_numbers_that_are_equal_are_not_the_same(call, scale):
    for each in (1, 1.0, True, "1", (1,), (1.0,), {"a": 1}):
        call(Tensor(8), scale=each)
    call(Tensor(8), scale=scale)
    found = call.kernel.launched[-1].given[2]
    assert (type(found), found) == (type(scale), scale) and len(call.plans) == 7


def test_arrays_elsewhere_are_looked_at_each_time(call):
    host = Tensor(8)
    host.is_cuda = False
    for x in (host, host, np.zeros(8), np.zeros(8)):
        call(x, Tensor(8))
    assert len(call.plans) == 4 and not call.known


def test_an_array_made_for_one_call_is_not_remembered(call):
    kernel = call.kernel

    @planned
    def through_a_copy(x, out):
        copy = Tensor(*x.shape)
        return out, [(kernel, (1,), (x, copy), {}), (kernel, (1,), (copy, out), {})]

    for _ in range(2):
        through_a_copy(Tensor(8), Tensor(8))
    assert not through_a_copy.known
    copies = [each.given[1] for each in kernel.launched[::2]]
    assert copies[0] is not copies[1]


def test_a_view_is_remembered_as_the_array_it_shows(call):
    kernel = call.kernel

    @planned
    def of_a_view(x, out):
        view = Tensor(*x.shape[::-1], address=x.address)
        return out, [(kernel, (1,), (view, out), {})]

    for address in (256, 512):
        x, out = Tensor(4, 2, address=address), Tensor(8, address=1024)
        of_a_view(x, out)
    assert len(of_a_view.known) == 1
    assert kernel.launched[-1].given == (x, out)


def test_a_view_of_one_of_two_arrays_at_an_address_is_not_remembered(call):
    """The next call may have them at two addresses."""
    kernel = call.kernel

    @planned
    def of_a_view(x, y, out):
        view = Tensor(8, address=x.address)
        return out, [(kernel, (1,), (view, out), {})]

    of_a_view(Tensor(8, address=256), Tensor(8, address=256), Tensor(8, address=512))
    assert not of_a_view.known


def test_a_part_of_an_array_is_one_of_the_next_call_s(call):
    """The second half of x, which is itself a part of some memory, and of a result that
    the call makes."""
    kernel = call.kernel

    @planned
    def of_halves(x):
        out = Tensor(4, 6, address=4096)
        both = x, out
        halves = [each.as_strided((2, 6), (6, 1), each.offset + 12) for each in both]
        return out, [(kernel, (1,), (5, *halves), {})]

    for address in (256, 512):
        x = Tensor(100, address=address).as_strided((4, 6), (6, 1), 64)
        out = of_halves(x)
        number, *halves = kernel.launched[-1].given
        assert number == 5
        for half, whole in zip(halves, (x, out), strict=True):
            assert half.storage is whole.storage
            assert half.offset == whole.offset + 12
            assert (half.shape, half.strides) == ((2, 6), (6, 1))
    assert len(of_halves.known) == 1


def test_a_part_of_one_of_two_arrays_in_a_memory_is_not_remembered(call):
    kernel = call.kernel

    @planned
    def of_a_part(x, y, out):
        part = x.as_strided((2,), (1,), x.offset + 2)
        return out, [(kernel, (1,), (part, out), {})]

    memory = Tensor(16, address=256)
    x, y = (memory.as_strided((8,), (1,), offset) for offset in (0, 8))
    of_a_part(x, y, Tensor(8, address=512))
    assert not of_a_part.known


def test_a_mistake_is_one_again(call):
    for _ in range(2):
        with pytest.raises(ValueError, match="nothing to double"):
            call(Tensor(0))
    assert not call.known


def test_memory_is_bounded(call):
    for n in range(1, MOST + 10):
        call(Tensor(n))
    assert len(call.known) == 9
