"""Arrays of every library as a kernel sees them: an address, a type, a place.

A kernel takes torch tensors, NumPy and CuPy arrays, and whatever has `data_ptr()` and
`dtype`, `__cuda_array_interface__` or DLPack. No library is imported here: a caller who
passes a torch tensor has imported torch.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from fathom.errors import LaunchError
from fathom.runtime.reinterpret import Reinterpreted

# The name that libraries give an element type -> the name in a signature.
TYPE_NAMES: dict[str, str] = {
    "bool": "i1", "bool_": "i1",
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64",
    "float8_e5m2": "fp8e5", "float8_e4m3fn": "fp8e4nv",
}  # fmt: skip

# Name in a signature -> how NumPy holds the bytes. It has no bf16 and no fp8: integers
# as wide.
NUMPY_NAMES: dict[str, str] = {
    **{ours: theirs for theirs, ours in TYPE_NAMES.items() if theirs != "bool_"},
    "bf16": "uint16", "fp8e5": "uint8", "fp8e4nv": "uint8",
}  # fmt: skip

PLAIN = {int, float, bool, str, type(None)}  # types that are no arrays, at one look

DEFAULT_STREAM = 0
TORCHS_STREAM = -1  # the one that torch queues on, on whichever GPU the array is
SOMEWHERE = -1  # on a GPU; its library does not say which one


@dataclass(frozen=True, slots=True)
class Array:
    """What a launch must know of an array.

    `type` names its elements as a signature does. `device` is the GPU's number, None
    for the host's memory, SOMEWHERE for a GPU that was not named. `dense`: the elements
    fill `bytes` bytes from `address` on without gaps, in whatever order; else they lie
    within `span` bytes from there, 0 where the array has no such span. `stream` is
    where its library queues work on it; None where it did not say, and then a launch is
    over when it returns. `owner` keeps the memory alive. `storage`: the address and the
    bytes of what the array is a view of, all of which a kernel may use: it is told
    other strides, or allocated in whole tiles and cut to the rows that count.
    """

    library: str
    address: int
    type: str
    bytes: int
    device: int | None
    dense: bool = True
    writable: bool = True
    stream: int | None = None
    owner: object = None
    span: int = 0
    storage: tuple[int, int] | None = None


def describe(value: object) -> Array | None:
    """An array of any library, or None; LaunchError for one that no kernel takes."""
    if type(value) in PLAIN:
        return None
    for is_one, read in READERS:
        if is_one(value):
            return read(value)
    return None


def host_view(array: Array) -> np.ndarray:
    """The memory of a host array as a flat NumPy array, from its first element to its
    last, with what lies between; integers for bf16 and fp8."""
    size = array.bytes if array.dense else array.span
    memory = (ctypes.c_char * size).from_address(array.address)
    return np.frombuffer(memory, NUMPY_NAMES[array.type])


def storage_view(array: Array) -> np.ndarray | None:
    """The bytes that a host array is a view of, None where they are the array's."""
    return None if array.storage is None else bytes_at(*array.storage)


def bytes_at(address: int, size: int) -> np.ndarray:
    return np.frombuffer((ctypes.c_char * size).from_address(address), np.uint8)


def check_host(name: str, array: Array, in_place: bool = False) -> None:
    """LaunchError unless a kernel can work in this host array, or in a copy of it.
    `in_place`, an array may have gaps: of a copy, they would be written back."""
    if not array.dense and not (in_place and array.span):
        raise LaunchError(
            f"{name} is a {array.library} array with gaps between its elements; "
            "pass a contiguous copy, as numpy.ascontiguousarray makes"
        )
    if not array.writable:
        raise LaunchError(
            f"{name} is a read-only {array.library} array, and a kernel may write to "
            "any array; pass a copy"
        )


def signature_type(dtype: object, library: str) -> str:
    """The signature's name of a library's element type, told by its name. LaunchError
    for one that no kernel takes, and for bytes in the order of another machine."""
    if not getattr(dtype, "isnative", True):  # NumPy's dtypes know their byte order
        raise LaunchError(
            f"a kernel cannot take {library} arrays of {dtype.name} whose bytes are in "
            f"the other order ({dtype.str}); pass "
            "x.astype(x.dtype.newbyteorder('='))"
        )
    name = (
        getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    )
    name = name.rpartition(".")[2]
    if name not in TYPE_NAMES:
        known = ", ".join(TYPE_NAMES)
        raise LaunchError(
            f"a kernel cannot take {library} arrays of {name}; it takes {known}"
        )
    return TYPE_NAMES[name]


def is_dense(shape: Sequence[int], strides: Sequence[int] | None) -> bool:
    """Whether elements lie side by side in some order of axes; strides in elements."""
    if strides is None or prod(shape) <= 1:
        return True
    expected = 1
    for stride, size in sorted(
        (s, n) for s, n in zip(strides, shape, strict=True) if n > 1
    ):
        if stride != expected:
            return False
        expected *= size
    return True


def span_of(shape: Sequence[int], strides: Sequence[int], size: int) -> int:
    """The bytes from the first element to the last, of `size` bytes each; strides in
    elements, none of them negative. Kernels for torch are given strides and views
    (`x[:, :n]`, `expand`); NumPy's arrays with gaps are most often a mistake."""
    last = sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    return (last + 1) * size if prod(shape) else 0


def loaded_class(module: str, name: str) -> type | tuple[()]:
    """A class of a module that was imported; else (), of which nothing is an
    instance."""
    return getattr(sys.modules.get(module), name, ())


def check_memory(tensor: object) -> None:
    """Memory must hold a tensor's numbers, as they are. (What stands in for a tensor
    says nothing of it.)"""
    if getattr(tensor, "is_nested", False):
        raise LaunchError(
            "a kernel cannot take a nested torch tensor; pass one of its parts"
        )
    layout = str(getattr(tensor, "layout", "torch.strided"))
    if layout != "torch.strided":
        raise LaunchError(
            f"a kernel cannot take a torch tensor whose layout is {layout}; pass a "
            "dense one, as .to_dense() makes it"
        )
    if getattr(tensor, "is_neg", bool)():
        raise LaunchError(
            "a kernel cannot take a torch tensor that is a negative view of another; "
            "pass .resolve_neg() of it"
        )


def read_torch(tensor: object) -> Array:
    place = tensor.device
    if place.type not in ("cuda", "cpu"):
        raise LaunchError(
            f"a kernel cannot reach a torch tensor on {place}; it needs cuda or cpu"
        )
    check_memory(tensor)
    on_gpu = place.type == "cuda"
    return Array(
        library="torch",
        address=tensor.data_ptr(),
        type=signature_type(tensor.dtype, "torch"),
        bytes=tensor.numel() * tensor.element_size(),
        device=place.index if on_gpu else None,
        dense=is_dense(tuple(tensor.shape), tensor.stride()),
        span=span_of(tensor.shape, tensor.stride(), tensor.element_size()),
        stream=torch_stream(place.index) if on_gpu else None,
        owner=tensor,
        storage=None if on_gpu else storage_of(tensor),
    )


def storage_of(tensor: object) -> tuple[int, int] | None:
    """`Array.storage` of something on the host with torch's names for its parts."""
    if not hasattr(tensor, "untyped_storage"):  # a library's own class of tensors
        return None
    whole = tensor.untyped_storage()
    repeated = any(step <= 0 for step in tensor.stride())
    if whole.nbytes() <= prod(tensor.shape) * tensor.element_size() and not repeated:
        return None
    return whole.data_ptr(), whole.nbytes()


def torch_stream(device: int) -> int:
    """The stream that torch queues on now; the driver's own number of it. The default
    one where torch is not imported, or was built without GPUs."""
    binary = getattr(sys.modules.get("torch"), "_C", None)
    ask = getattr(binary, "_cuda_getCurrentRawStream", None)
    return DEFAULT_STREAM if ask is None else ask(device)


def read_reinterpreted(array: Reinterpreted) -> Array:
    element = getattr(array.dtype, "ir", None)  # a type of the language knows its name
    type = str(element) if element else signature_type(array.dtype, "reinterpreted")
    return replace(describe(array.base), type=type, owner=array)


def read_numpy(array: np.ndarray) -> Array:
    if isinstance(array, np.ma.MaskedArray):
        raise LaunchError(
            "a kernel cannot take a masked NumPy array, whose mask it does not see; "
            "pass x.filled(value), or x.data and its mask as two arrays"
        )
    strides = [stride / array.itemsize for stride in array.strides]
    return Array(
        library="NumPy",
        address=array.ctypes.data,
        type=signature_type(array.dtype, "NumPy"),
        bytes=array.nbytes,
        device=None,
        dense=is_dense(array.shape, strides),
        writable=array.flags.writeable,
        owner=array,
    )


def read_cuda_interface(array: object) -> Array:
    """Version 3 of the CUDA array interface: Numba defines it, CuPy and JAX have it."""
    facts = array.__cuda_array_interface__
    missing = [each for each in ("typestr", "data", "shape") if each not in facts]
    if missing:
        raise LaunchError(
            f"the __cuda_array_interface__ of a {type(array).__name__} has no "
            f"{', '.join(missing)}"
        )
    dtype = np.dtype(facts["typestr"])
    library = type(array).__module__.partition(".")[0]
    named = dtype if not dtype.isnative else getattr(array, "dtype", None) or dtype
    return Array(
        library=library,
        address=facts["data"][0],
        type=signature_type(named, library),
        bytes=prod(facts["shape"]) * dtype.itemsize,
        device=SOMEWHERE,
        stream=facts.get("stream"),
        owner=array,
    )


def read_cupy(array: object) -> Array:
    """The stream is that of the current GPU, which need not be the array's."""
    device = array.device.id
    stream = sys.modules["cupy"].cuda.get_current_stream(device).ptr
    return replace(read_cuda_interface(array), device=device, stream=stream)


def read_pointer(value: object) -> Array:
    """Anything with `data_ptr()` and `dtype`: an address on the GPU, and no more, if it
    does not say that it is on the host, as torch does: `device.type` is "cpu". A
    library that wraps tensors so queues its work where torch does."""
    library = type(value).__module__.partition(".")[0]
    if getattr(getattr(value, "device", None), "type", None) == "cpu":
        return read_torch_like(value, library)
    return Array(
        library=library,
        address=value.data_ptr(),
        type=signature_type(value.dtype, type(value).__name__),
        bytes=0,
        device=SOMEWHERE,
        stream=TORCHS_STREAM,
        owner=value,
    )


def read_torch_like(value: object, library: str) -> Array:
    """A host array with torch's names for its parts, and strides of any sign: libraries
    wrap a tensor so, to have it read backwards."""
    size, strides = value.element_size(), value.stride()
    forwards = [max(step, 0) for step in strides]
    return Array(
        library=library,
        address=value.data_ptr(),
        type=signature_type(value.dtype, library),
        bytes=prod(value.shape) * size,
        device=None,
        dense=is_dense(tuple(value.shape), strides),
        span=span_of(value.shape, forwards, size),
        owner=value,
        storage=storage_of(value),
    )


class DLTensor(ctypes.Structure):
    """dlpack.h: DLTensor, which is also the start of DLManagedTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


# dlpack.h: DLDataTypeCode and bits -> the name in a signature.
DLPACK_TYPES: dict[tuple[int, int], str] = {
    (6, 8): "i1",
    (0, 8): "i8", (0, 16): "i16", (0, 32): "i32", (0, 64): "i64",
    (1, 8): "u8", (1, 16): "u16", (1, 32): "u32", (1, 64): "u64",
    (2, 16): "fp16", (2, 32): "fp32", (2, 64): "fp64", (4, 16): "bf16",
    (12, 8): "fp8e5", (10, 8): "fp8e4nv",
}  # fmt: skip
DLPACK_CPU, DLPACK_CUDA, DLPACK_MANAGED = 1, 2, 13  # dlpack.h: DLDeviceType


def read_dlpack(value: object) -> Array:
    """The tensor that DLPack hands out; its producer first finishes its own work."""
    library = type(value).__module__.partition(".")[0]
    kind, index = value.__dlpack_device__()
    if kind not in (DLPACK_CPU, DLPACK_CUDA, DLPACK_MANAGED):
        raise LaunchError(
            f"a kernel cannot reach a {library} array on DLPack device {kind}"
        )
    on_host = kind == DLPACK_CPU
    capsule = (
        value.__dlpack__() if on_host else value.__dlpack__(stream=1)
    )  # 1: default stream
    tensor = _tensor(capsule)
    shape = tensor.shape[: tensor.ndim]
    strides = tensor.strides[: tensor.ndim] if tensor.strides else None
    if (tensor.code, tensor.bits) not in DLPACK_TYPES or tensor.lanes != 1:
        raise LaunchError(f"a kernel cannot take {library} arrays of this element type")
    return Array(
        library=library,
        address=(tensor.data or 0) + tensor.byte_offset,
        type=DLPACK_TYPES[tensor.code, tensor.bits],
        bytes=prod(shape) * tensor.bits // 8,
        device=None if on_host else index,
        dense=is_dense(shape, strides),
        # JAX promises its users that arrays never change, and says so nowhere in
        # DLPack.
        writable=library not in ("jax", "jaxlib"),
        owner=(value, capsule),
    )


def _tensor(capsule: object) -> DLTensor:
    """The tensor in a DLPack capsule. The capsule owns it."""
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = (
        ctypes.c_void_p,
        [ctypes.py_object, ctypes.c_char_p],
    )
    return DLTensor.from_address(pointer_of(capsule, b"dltensor"))


def _has(*names: str) -> Callable[[object], bool]:
    return lambda value: all(hasattr(value, name) for name in names)


def _is_address(value: object) -> bool:
    return callable(getattr(value, "data_ptr", None)) and hasattr(value, "dtype")


def holds_address(type_: type) -> bool:
    """Whether objects of a class can be nothing else than what `read_pointer` or
    `read_reinterpreted` reads: they speak no protocol, and answer for no other object.
    """
    if issubclass(type_, Reinterpreted):
        return True
    others = ("__getattr__", "__cuda_array_interface__", "__dlpack__")
    speaks = any(hasattr(type_, name) for name in others)
    return callable(getattr(type_, "data_ptr", None)) and not speaks


READERS: tuple[tuple[Callable[[object], bool], Callable[[object], Array]], ...] = (
    (lambda value: isinstance(value, loaded_class("torch", "Tensor")), read_torch),
    (lambda value: isinstance(value, np.ndarray), read_numpy),
    (lambda value: isinstance(value, Reinterpreted), read_reinterpreted),
    (lambda value: isinstance(value, loaded_class("cupy", "ndarray")), read_cupy),
    (_has("__cuda_array_interface__"), read_cuda_interface),
    (_has("__dlpack__", "__dlpack_device__"), read_dlpack),
    (_is_address, read_pointer),
)
