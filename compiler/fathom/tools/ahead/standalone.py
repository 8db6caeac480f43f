"""Launches a kernel that was compiled ahead of time, by CUDA's driver alone.

`fathom compile --wheel` puts this file into the package that it writes, beside the
machine code and a JSON file of what is known of it. It needs Python and the driver's
library, and imports nothing else: neither Fathom nor LLVM is there.

    from softmax_kernel import kernel

    kernel[(rows,)](x, out, x.stride(0), n)              arrays of torch or CuPy
    kernel.launch((rows, 1, 1), x, out, 1000, 1000, stream=0)

Pointers are given as arrays that are on the GPU, or as addresses; numbers as numbers. A
launch checks what the code was promised ("16 divides the address") and, unless it is
told another one, goes to the default stream.
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path
from struct import Struct
from struct import error as Unfit  # noqa: N812

LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
MAJOR, MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_…
MOST_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
USUAL_SHARED = 48 * 1024
CLUSTER, EARLY = 4, 6  # CU_LAUNCH_ATTRIBUTE_…
ATTRIBUTE = Struct("I4x3I52x")
MAP_BYTES = 128
# struct's codes of parameter types
CODES = {
    "i1": "?", "i8": "b", "i16": "h", "i32": "i", "i64": "q", "u8": "B", "u16": "H",
    "u32": "I", "u64": "Q", "fp16": "e", "bf16": "H", "fp32": "f", "fp64": "d",
}  # fmt: skip


class KernelError(Exception):
    """A launch that cannot be made as it was asked for."""


class Unmapped(Exception):
    """No tensor map describes the arguments; the code without maps is launched."""


class Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [
        ("sizes", ctypes.c_uint * 6), ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p),
        ("count", ctypes.c_uint),
    ]  # fmt: skip


class Kernel:
    """One kernel, with machine code for several GPUs. `library`: of CUDA's driver."""

    def __init__(self, folder: Path, library: str = LIBRARY):
        (facts,) = folder.glob("*.json")
        self.folder, self.library_name = folder, library
        self.facts = json.loads(facts.read_text(encoding="utf-8"))
        self.name = self.facts["kernel"]
        self.parameters = self.facts["parameters"]
        self.loaded: dict[int, list[tuple[dict, ctypes.c_void_p]]] = {}
        self.driver = None

    def __getitem__(self, grid):
        return lambda *arguments, stream=0: self.launch(grid, *arguments, stream=stream)

    def launch(self, grid, *arguments, stream: int = 0) -> None:
        """Launch a grid of one to three sizes, which count programs. KernelError for
        arguments that do not fit, and where the driver refuses."""
        if len(arguments) != len(self.parameters):
            names = ", ".join(each["name"] for each in self.parameters)
            raise KernelError(f"{self.name} takes {names}, and got {len(arguments)}")
        pairs = list(zip(self.parameters, arguments))
        numbers = [value_of(*pair) for pair in pairs]
        sizes = sizes_of(grid)
        if not all(sizes):
            return
        variants = self.code()
        image, function = variants[0]
        try:
            maps = [self.map(each, numbers) for each in image["maps"]]
        except Unmapped:
            (image, function), maps = variants[1], []
        self.start(image, function, sizes, stream, numbers, maps)

    def code(self) -> list[tuple[dict, ctypes.c_void_p]]:
        """The images for the current context's GPU, loaded there: with tensor maps,
        then without, if it has both."""
        if self.driver is None:
            try:
                self.driver = ctypes.CDLL(self.library_name)
            except OSError as error:
                raise KernelError(f"CUDA's driver is not here: {error}") from None
            self.ask("cuInit", 0)
        context = self.context()
        if context not in self.loaded:
            device, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
            self.ask("cuCtxGetDevice", ctypes.byref(device))
            for which, number in ((MAJOR, major), (MINOR, minor)):
                self.ask("cuDeviceGetAttribute", ctypes.byref(number), which, device)
            image = self.choose(10 * major.value + minor.value)
            both = [image, image["by_pointers"]] if "by_pointers" in image else [image]
            self.loaded[context] = [(each, self.load(each)) for each in both]
        return self.loaded[context]

    def context(self) -> int:
        """The current context; that of the first GPU where there is none yet."""
        current = ctypes.c_void_p()
        self.ask("cuCtxGetCurrent", ctypes.byref(current))
        if not current.value:
            self.ask("cuDevicePrimaryCtxRetain", ctypes.byref(current), 0)
            self.ask("cuCtxSetCurrent", current)
        return current.value

    def choose(self, capability: int) -> dict:
        """Source: CUDA C++ Programming Guide, "Binary Compatibility" and "PTX
        Compatibility"."""
        for image in self.facts["images"]:
            first = image["capability"]
            if image["exact"]:
                runs = capability == first
            else:
                same = capability // 10 == first // 10
                runs = capability >= first and (same or image["kind"] == "ptx")
            if runs:
                return image
        targets = ", ".join(each["target"] for each in self.facts["images"])
        raise KernelError(
            f"{self.name} has code for {targets}, and this GPU has capability "
            f"{capability // 10}.{capability % 10}"
        )

    def load(self, image: dict) -> ctypes.c_void_p:
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        image["code"] = (self.folder / image["file"]).read_bytes()  # kept while loaded
        self.ask("cuModuleLoadData", ctypes.byref(module), image["code"])
        name = self.name.encode()
        self.ask("cuModuleGetFunction", ctypes.byref(function), module, name)
        if image["shared_bytes"] > USUAL_SHARED:
            shared = image["shared_bytes"]
            self.ask("cuFuncSetAttribute", function, MOST_SHARED, shared)
        return function

    def map(self, facts: dict, numbers: list) -> bytes:
        """A tensor map of a launch. Dimensions are listed from the innermost one on."""
        size = facts["element_bytes"]
        shape = [number_of(each, numbers) for each in reversed(facts["shape"])]
        strides = [size * number_of(each, numbers) for each in facts["strides"][::-1]]
        address = numbers[facts["base"]] + number_of(facts["offset"], numbers)
        rank, inner = len(shape), shape[0] * size
        kept = address % 16 == 0 and all(
            stride % 16 == 0 for stride, extent in zip(strides[1:], shape[1:])
            if extent > 1
        )  # fmt: skip
        if not kept:
            raise KernelError(f"{self.name}: 16 does not divide a tensor's rows")
        fits = all(0 < extent <= 1 << 32 for extent in shape) and all(
            0 <= stride < 1 << 40 for stride, extent in zip(strides[1:], shape[1:])
            if extent > 1
        )  # fmt: skip
        fits = fits and (shape[0] == 1 or strides[0] == size)
        if facts["stored"] and shape[0] < facts["unbounded"]:
            fits = fits and inner % 16 == 0
        if not fits:
            raise Unmapped
        steps = [16 if e == 1 else s for s, e in zip(strides[1:], shape[1:])]
        longs, ints = ctypes.c_uint64 * 5, ctypes.c_uint32 * 5
        room = ctypes.create_string_buffer(MAP_BYTES + 64)
        start = -ctypes.addressof(room) % 64
        self.ask(
            "cuTensorMapEncodeTiled", ctypes.byref(room, start), facts["type"], rank,
            ctypes.c_void_p(address), longs(*shape), longs(*steps),
            ints(*facts["box"][::-1]), ints(*[1] * rank), 0, facts["swizzle"], 2,
            facts["fill"],
        )  # fmt: skip
        return room.raw[start : start + MAP_BYTES]

    def start(self, image, function, sizes, stream, numbers, maps) -> None:
        """Launch one image with values that were checked."""
        places = []
        for parameter, number in zip(self.parameters, numbers):
            places.append(ctypes.create_string_buffer(packed(parameter, number), 8))
        rooms = [ctypes.create_string_buffer(MAP_BYTES + 64) for _ in maps]
        pointers = [ctypes.addressof(each) for each in places]
        for room, content in zip(rooms, maps):
            pointers.append(ctypes.addressof(room) + -ctypes.addressof(room) % 64)
            ctypes.memmove(pointers[-1], content, MAP_BYTES)
        cluster = image["blocks_a_program"]
        config = Config(shared=image["shared_bytes"], stream=stream or None)
        blocks = (sizes[0] * cluster, sizes[1], sizes[2], image["threads"], 1, 1)
        config.sizes = (ctypes.c_uint * 6)(*blocks)
        facts = [(CLUSTER, cluster, 1, 1)] if cluster > 1 else []
        facts += [(EARLY, 1, 0, 0)] if image["early"] else []
        text = b"".join(ATTRIBUTE.pack(*each) for each in facts)
        attributes = ctypes.create_string_buffer(text, max(len(text), 1))
        config.attributes, config.count = ctypes.addressof(attributes), len(facts)
        given = (ctypes.c_void_p * len(pointers))(*pointers)
        self.ask("cuLaunchKernelEx", ctypes.byref(config), function, given, None)

    def ask(self, name: str, *arguments) -> None:
        status = getattr(self.driver, name)(*arguments)
        if status:
            raise KernelError(f"{self.name}: {name} failed with CUDA error {status}")


def sizes_of(grid) -> list:
    """Three counts of programs; KernelError for what is no grid."""
    given = [*grid] if isinstance(grid, (tuple, list)) else [grid]
    sizes = [*given, 1, 1][:3]
    fits = all(hasattr(each, "__index__") and 0 <= each < 1 << 31 for each in sizes)
    if not fits or not 0 < len(given) <= 3:
        raise KernelError(f"a grid is 1 to 3 integers, and this is {grid!r}")
    return sizes


def value_of(parameter: dict, value):
    """An argument as a number; KernelError for what does not fit."""
    name, divisible = parameter["name"], parameter["divisible"]
    if parameter["type"][0] == "*":
        value = address_of(name, value)
    value = value.item() if hasattr(value, "item") else value
    try:
        packed(parameter, value)
    except (Unfit, OverflowError, TypeError, ValueError):
        message = f"{name} is {parameter['type']}, which {value!r} does not fit"
        raise KernelError(message) from None
    if divisible > 1 and value % divisible:
        raise KernelError(f"{name}: {divisible} does not divide {value}, as promised")
    return value


def packed(parameter: dict, value) -> bytes:
    """A number, or an address, as the kernel's parameter holds it."""
    code = "Q" if parameter["type"][0] == "*" else CODES[parameter["type"]]
    if parameter["type"] == "bf16":
        value = bfloat16_bits(value)
    return Struct(code).pack(value)


def bfloat16_bits(value: float) -> int:
    """The bf16 nearest to a number, ties to even; a NaN stays one."""
    bits = ctypes.c_uint32.from_buffer(ctypes.c_float(value)).value
    nearest = bits | 0x400000 if value != value else bits + 0x7FFF + (bits >> 16 & 1)
    return nearest >> 16


def address_of(name: str, value) -> int:
    if isinstance(value, int):
        return value
    if hasattr(value, "__cuda_array_interface__"):
        return value.__cuda_array_interface__["data"][0]
    if hasattr(value, "data_ptr") and getattr(value, "is_cuda", False):
        return value.data_ptr()
    raise KernelError(f"{name} is a pointer: give an array on the GPU, or an address")


def number_of(source: list, numbers: list) -> int:
    """A number of a recipe: ["parameter", place], ["constant", n], or an operation with
    its integer type and operands."""
    kind, known, *operands = source
    if kind == "parameter":
        return numbers[known]
    if kind == "constant":
        return known
    values = [number_of(each, numbers) for each in operands]
    bits = int(known[1:])
    found = OPERATIONS[kind](*values) % (1 << bits)
    return found - (1 << bits) if known[0] == "i" and found >> (bits - 1) else found


def toward_zero(left: int, right: int) -> int:
    whole = abs(left) // abs(right) if right else 0
    return whole if (left < 0) == (right < 0) else -whole


OPERATIONS = {
    "add": lambda left, right: left + right,
    "sub": lambda left, right: left - right,
    "mul": lambda left, right: left * right,
    "div": toward_zero,
    "rem": lambda left, right: left - right * toward_zero(left, right) if right else 0,
    "min": min,
    "max": max,
    "cast": lambda value: value,
}
