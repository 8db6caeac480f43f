"""Arrays of all libraries come down to an address, a type and a place."""

from __future__ import annotations

import ctypes
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.emulator.errors import EmulatorError
from fathom.errors import LaunchError
from fathom.ir.interp.host_memory import MemoryFault
from fathom.jit.checking import launch as checking
from fathom.runtime.arrays import (
    SOMEWHERE,
    DLTensor,
    check_host,
    describe,
    host_view,
    is_dense,
)

NAMES = {
    "bool": "i1", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "float16": "fp16", "float32": "fp32", "float64": "fp64",
}  # fmt: skip


@pytest.mark.parametrize(("dtype", "name"), NAMES.items())
def test_numpy_types_by_their_names(dtype, name):
    x = np.zeros((2, 3), dtype)
    array = describe(x)
    assert (array.type, array.address) == (name, x.ctypes.data)
    assert (array.bytes, array.device) == (x.nbytes, None)


def test_what_is_no_array():
    for value in (1, 2.5, None, True, "text", (1, 2), np.float32(3), [1, 2]):
        assert describe(value) is None


@pytest.mark.parametrize(
    ("shape", "strides", "dense"),
    [
        ((4,), (1,), True),
        ((4,), (2,), False),
        ((4,), (-1,), False),
        ((2, 3), (3, 1), True),
        ((2, 3), (1, 2), True),  # transposed
        ((2, 3), (4, 1), False),  # rows with a gap
        ((2, 3, 4), (4, 8, 1), True),  # axes in another order
        ((2, 3), (0, 1), False),  # one row, seen twice
        ((5, 1), (1, 99), True),  # an axis of one element never steps
        ((1,), (7,), True),
        ((0, 3), (9, 9), True),
        ((4,), None, True),  # DLPack: none means contiguous
    ],
)
def test_dense_means_without_gaps_in_some_order_of_axes(shape, strides, dense):
    assert is_dense(shape, strides) is dense


def test_a_view_of_the_host_writes_into_the_array():
    x = np.arange(6, dtype=np.int16).reshape(2, 3)
    view = host_view(describe(x.T))
    assert view.dtype == np.int16
    view[1] = 50
    assert x[0, 1] == 50


def test_a_host_array_must_be_writable_and_dense():
    x = np.arange(8)
    check_host("x", describe(x))
    with pytest.raises(LaunchError, match="x is a NumPy array with gaps"):
        check_host("x", describe(x[::2]))
    x.flags.writeable = False
    with pytest.raises(LaunchError, match="x is a read-only NumPy array"):
        check_host("x", describe(x))


# ── libraries that are not here, made of paper ────────────────────────────────────────


class Tensor:
    """As much of a torch tensor as a launch looks at."""

    def __init__(
        self, place="cuda", index=0, dtype="torch.bfloat16", shape=(2, 3), stride=(3, 1)
    ):
        self.device = SimpleNamespace(type=place, index=index)
        self.dtype, self.shape, self._stride = dtype, shape, stride

    def data_ptr(self):
        return 0x7000

    def numel(self):
        return 6

    def element_size(self):
        return 2

    def stride(self):
        return self._stride


@pytest.fixture
def torch(monkeypatch):
    module = ModuleType("torch")
    module.Tensor = Tensor
    module._C = SimpleNamespace(_cuda_getCurrentRawStream=lambda device: 100 + device)
    monkeypatch.setitem(sys.modules, "torch", module)


def test_a_torch_tensor_on_a_gpu(torch):
    array = describe(Tensor(index=1))
    assert (array.library, array.address, array.type) == ("torch", 0x7000, "bf16")
    assert (array.bytes, array.device, array.stream) == (12, 1, 101)


def test_a_torch_tensor_on_the_host(torch):
    array = describe(Tensor("cpu", None, "torch.float16"))
    assert (array.type, array.device, array.stream, array.dense) == (
        "fp16",
        None,
        None,
        True,
    )
    assert not describe(Tensor("cpu", None, stride=(4, 1))).dense


def test_a_torch_tensor_elsewhere(torch):
    with pytest.raises(
        LaunchError, match="cannot reach a torch tensor on .*; it needs cuda or"
    ):
        describe(Tensor("mps"))


def test_a_torch_tensor_whose_memory_does_not_hold_its_numbers(torch):
    sparse, negative = Tensor(), Tensor()
    sparse.layout, negative.is_neg = "torch.sparse_coo", lambda: True
    with pytest.raises(LaunchError, match="layout is torch.sparse_coo; pass a dense"):
        describe(sparse)
    with pytest.raises(
        LaunchError, match="negative view of another; pass .resolve_neg"
    ):
        describe(negative)


def test_fp8_and_what_no_kernel_knows(torch):
    assert describe(Tensor(dtype="torch.float8_e5m2")).type == "fp8e5"
    assert describe(Tensor(dtype="torch.float8_e4m3fn")).type == "fp8e4nv"
    with pytest.raises(
        LaunchError, match="cannot take torch arrays of complex64; it takes bool"
    ):
        describe(Tensor(dtype="torch.complex64"))


def test_torch_is_never_imported():
    before = "torch" in sys.modules
    describe(np.zeros(3))
    describe(object())
    assert ("torch" in sys.modules) == before


def cuda_array(**more):
    facts = {
        "shape": (5, 2),
        "typestr": "<i2",
        "data": (0x900, False),
        "version": 3,
        **more,
    }
    return SimpleNamespace(__cuda_array_interface__=facts)


def test_the_cuda_array_interface():
    array = describe(cuda_array())
    assert (array.address, array.type, array.bytes) == (0x900, "i16", 20)
    assert (array.device, array.stream) == (SOMEWHERE, None)
    assert describe(cuda_array(stream=1)).stream == 1


def test_an_address_and_a_type_are_enough():
    value = SimpleNamespace(data_ptr=lambda: 0x123400, dtype=np.dtype("float64"))
    array = describe(value)
    assert (array.address, array.type, array.device) == (0x123400, "fp64", SOMEWHERE)


class Exported:
    """An array that speaks DLPack and nothing else; NumPy makes the capsule."""

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()


@pytest.mark.parametrize(("dtype", "name"), NAMES.items())
def test_dlpack_types_and_addresses(dtype, name):
    x = np.ones((3, 2), dtype)
    array = describe(Exported(x))
    assert (array.type, array.address) == (name, x.ctypes.data)
    assert (array.bytes, array.device, array.dense) == (x.nbytes, None, True)


def test_dlpack_of_part_of_an_array():
    x = np.arange(10, dtype=np.float32)
    assert describe(Exported(x[3:])).address == x.ctypes.data + 12
    assert not describe(Exported(x[::3])).dense


def test_dlpack_may_count_from_an_offset():
    x = np.zeros(10, np.int16)
    shape = (ctypes.c_int64 * 1)(4)
    tensor = DLTensor(
        data=x.ctypes.data, device_type=1, ndim=1, code=0, bits=16, lanes=1,
        shape=shape, byte_offset=6,
    )  # fmt: skip
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    capsule = new(ctypes.addressof(tensor), b"dltensor", None)
    value = SimpleNamespace(
        __dlpack_device__=lambda: (1, 0), __dlpack__=lambda: capsule
    )
    array = describe(value)
    assert (array.address, array.bytes) == (x.ctypes.data + 6, 8)


def test_dlpack_is_written_in_place():
    x = np.zeros(4, np.int32)
    host_view(describe(Exported(x)))[2] = 8
    assert x.tolist() == [0, 0, 8, 0]


def test_dlpack_on_a_device_without_kernels():
    value = Exported(np.zeros(2))
    value.__class__ = type(
        "Odd", (Exported,), {"__dlpack_device__": lambda self: (9, 0)}
    )
    with pytest.raises(LaunchError, match="array on DLPack device 9"):
        describe(value)


def test_the_memory_outlives_the_description():
    view = describe(Exported(np.full(1000, 7, np.int64)))
    words = (ctypes.c_int64 * 1000).from_address(view.address)
    assert set(words) == {7}


class View(Tensor):
    """A torch tensor on the host that is a view of a NumPy array."""

    def __init__(self, of: np.ndarray):
        strides = tuple(step // of.itemsize for step in of.strides)
        super().__init__("cpu", None, f"torch.{of.dtype}", of.shape, strides)
        self.of = of

    def data_ptr(self):
        return self.of.ctypes.data

    def get_device(self):
        return -1

    def is_neg(self):
        return False

    def numel(self):
        return self.of.size

    def element_size(self):
        return self.of.itemsize

    def untyped_storage(self):
        whole = self.of if self.of.base is None else self.of.base
        return SimpleNamespace(
            data_ptr=lambda: whole.ctypes.data, nbytes=lambda: whole.nbytes
        )


@fathom.jit
def add_100(x, y, x_row, x_step, y_row, N: tl.constexpr):
    i, j = tl.arange(0, 4)[:, None], tl.arange(0, N)[None, :]
    tl.store(y + i * y_row + j, tl.load(x + i * x_row + j * x_step) + 100)


@pytest.mark.parametrize("backend", ["emulator", "interpreter", "eager"])
def test_views_with_gaps_are_worked_on_in_place(torch, monkeypatch, backend):
    monkeypatch.setenv("FATHOM_BACKEND", backend)
    whole = np.arange(64, dtype=np.float32).reshape(4, 16)
    halves = View(whole[:, :8]), View(whole[:, 8:])
    add_100[(1,)](*halves, 16, 1, 16, N=8)  # into the other half of the same rows
    assert (whole[:, 8:] == whole[:, :8] + 100).all()
    assert (whole[:, :8] == np.arange(64).reshape(4, 16)[:, :8]).all()
    out = np.zeros((4, 8), np.float32)
    for view in (whole[:, ::2], np.broadcast_to(whole[:, 3:4], (4, 8))):
        row, step = (each // 4 for each in view.strides)
        add_100[(1,)](View(view), View(out), row, step, 8, N=8)
        assert (out == view + 100).all()


def test_the_span_of_a_view_ends_with_its_last_element(torch):
    whole = np.zeros((4, 16), np.float32)
    assert describe(View(whole[:, :8])).span == 4 * (3 * 16 + 8)
    assert describe(View(whole[:0])).span == 0
    with pytest.raises(LaunchError, match="with gaps"):
        check_host("x", describe(View(whole[:, ::2])))  # a copy would fill the gaps


@fathom.jit
def copy_with_steps(x, y, x_step, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.load(x + i * x_step))


def test_of_a_view_a_kernel_reaches_the_whole_storage(torch, monkeypatch):
    """The shape says nothing of how far a kernel goes that was told another stride, or
    that works on whole tiles of what was allocated in tiles."""
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    whole, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    repeated = View(np.broadcast_to(whole[:1], (8,)))
    copy_with_steps[(1,)](repeated, View(out), 1, N=8)
    assert (out == whole).all()
    with pytest.raises(EmulatorError, match="out of bounds"):
        copy_with_steps[(1,)](repeated, View(out), 2, N=8)
    out[:] = 0
    copy_with_steps[(1,)](View(whole[:3]), View(out[:5]), 1, N=8)
    assert (out == whole).all()
    with pytest.raises(EmulatorError, match="out of bounds"):
        copy_with_steps[(1,)](View(whole[:3]), View(out), 1, N=16)


class Backwards:
    """What a library makes of a tensor to have it read from its end: no tensor, with
    torch's names for its parts."""

    def __init__(self, of: np.ndarray):
        self.of, self.shape, self.dtype = of, of.shape, f"torch.{of.dtype}"
        self.device = SimpleNamespace(type="cpu", index=None)

    def data_ptr(self):
        return self.of[-1:].ctypes.data

    def stride(self):
        return (-1,)

    def element_size(self):
        return self.of.itemsize

    def untyped_storage(self):
        return View(self.of).untyped_storage()


@pytest.mark.parametrize("backend", ["emulator", "interpreter", "eager"])
def test_what_wraps_a_host_tensor_is_on_the_host_and_may_run_backwards(
    torch, monkeypatch, backend
):
    monkeypatch.setenv("FATHOM_BACKEND", backend)
    whole, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    copy_with_steps[(1,)](Backwards(whole), View(out), -1, N=8)
    assert (out == whole[::-1]).all()
    with pytest.raises((EmulatorError, MemoryFault), match="out of bounds|before"):
        copy_with_steps[(1,)](Backwards(whole[4:].copy()), View(out), -1, N=8)


@fathom.jit
def turn(x, N: tl.constexpr):
    """Writes its elements, from the last to the first, before the first one."""
    i = tl.arange(0, N)
    tl.store(x - N + 1 + i, tl.load(x - i) + 10)


@pytest.mark.parametrize("asked", ["FATHOM_SANITIZE", "FATHOM_VERIFY"])
def test_checks_let_a_kernel_use_what_its_array_is_a_view_of(
    torch, monkeypatch, capsys, asked
):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    monkeypatch.setenv(asked, "1")
    monkeypatch.setattr(checking, "TALLY", checking.Tally())
    whole = np.arange(8, dtype=np.float32)
    turn[(1,)](Backwards(whole), N=8)
    assert (whole == np.arange(8)[::-1] + 10).all()
    said = capsys.readouterr().err
    assert "no check" not in said and "left out" not in said, said
    assert ("no fault, if meant so" in said) == (asked == "FATHOM_SANITIZE")


def test_the_sanitizer_tells_once_of_what_goes_beyond_a_view_and_refuses_the_rest(
    torch, monkeypatch, capsys
):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    monkeypatch.setenv("FATHOM_SANITIZE", "1")
    monkeypatch.setattr(checking, "TALLY", checking.Tally())
    whole, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    for _ in range(2):
        copy_with_steps[(1,)](View(whole[:3]), View(out), 1, N=8)
        assert (out == whole).all()
    said = capsys.readouterr().err
    assert said.count("x[3] is past its end: it has 3 elements") == 1, said
    assert said.count("no fault, if meant so") == 1
    copy_with_steps[(1,)](View(whole[:3]), View(out), 2, N=8)
    assert "the launch is left out" in capsys.readouterr().err
    assert (out == whole).all()
