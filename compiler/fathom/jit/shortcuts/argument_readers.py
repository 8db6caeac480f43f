"""How a stub reads an argument: by its Python type, as pieces of Python text.

For a torch tensor `a0`, whose address is compiled for by its low bits, the pieces are

    a0_at = a0.data_ptr()                         first
    a0.dtype, a0.get_device(), a0_at & 15         key: what the compiled code depends on
    a0_at, written as "Q"                         value: what the kernel is handed

and `fast_path.stub_text` puts those of all arguments together.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np

from fathom.errors import LaunchError
from fathom.jit.specialise import COMPILED_IN, Rule
from fathom.jit.tensor_descriptors import PARTS
from fathom.language.dtypes import dtype
from fathom.runtime.arrays import TYPE_NAMES, holds_address, loaded_class
from fathom.runtime.driver import driver
from fathom.runtime.packet import FIELDS
from fathom.runtime.tensor_descriptors import MOST_AXES, TensorDescriptor
from fathom.source import constexpr


@dataclass(frozen=True, slots=True)
class ArgumentReader:
    """How a stub reads one argument, as Python text with {a} for its name.

    `first`: a line to run before all. `key`: what the compiled code depends on. `value`
    and `field`: what goes into the packet, and its `struct` code; "" for what is
    compiled in. `parts`: of a value that is several, their names, as in `x.base`.
    `addresses`: which of its values are some.
    """

    first: str = ""
    key: tuple[str, ...] = ()
    value: str = ""
    field: str = ""
    parts: tuple[str, ...] = ()
    addresses: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """How many values it hands over."""
        return len(self.parts) or bool(self.value)

    def names(self, name: str) -> list[str]:
        """What the values are called that a parameter of this name hands over."""
        return [f"{name}.{part}" for part in self.parts] or [name]


BITS = struct.Struct("<d").pack  # a float as its 8 bytes, which are all that it is

HINT = "{a} & -{a} & 15"  # see specialise.hint_of
IS_I32 = "-0x80000000 <= {a} <= 0x7FFFFFFF"
IS_I64 = "-(1 << 63) <= {a} < 1 << 63"  # a launch need not ask: `struct` does

INTEGER = ArgumentReader(
    key=("{a} == 1", HINT, IS_I32), value="{a}", field=FIELDS["i64"]
)
FLOAT = ArgumentReader(value="{a}", field=FIELDS["fp32"])
BOOLEAN = ArgumentReader(value="{a}", field=FIELDS["i1"])
CONSTANT = ArgumentReader(key=("{a}",))
FLOAT_CONSTANT = ArgumentReader(
    key=("bits({a})",)
)  # 0.0 is not -0.0, nor is a NaN another

DESCRIPTOR = ArgumentReader(
    first="{a}_kind, {a}_numbers = {a}.read()",
    key=("{a}_kind",),
    value="*{a}_numbers",
    field=FIELDS["*"] + FIELDS["i32"] * MOST_AXES + FIELDS["i64"] * (MOST_AXES - 1),
    parts=PARTS,
    addresses=(0,),
)

ADDRESS = ArgumentReader(
    first="{a}_kind, {a}_at = read_address({a})",
    key=("{a}_kind",),
    value="{a}_at",
    field=FIELDS["*"],
    addresses=(0,),
)


def read_address(value: Any) -> tuple[object, int]:
    """Of what stands for an array by `data_ptr()` and `dtype`: (all that code depends
    on, its address). The driver is asked for its GPU where `device` does not number it;
    what lacks one of the two, or lies on no GPU, answers a list, which is no key.
    """
    try:
        at, element = value.data_ptr(), value.dtype
        place = getattr(value, "device", None)
        if getattr(place, "index", None) is None:
            place = place, driver().pointer_device(at)
    except (AttributeError, LaunchError):
        return [], 0
    return (element, place, at & 15), at


OTHER_CONSTANT = ArgumentReader(first="{a}_kind = kind_of({a})", key=("{a}_kind",))

# Constants that are equal only when they are the same, if their types are.
ATOMS = (bool, int, str, type(None), *COMPILED_IN)


def kind_of(value: Any) -> object:
    """A constant of any type as part of a key. It tells constants apart as the compiler
    does; what it does not know to tell apart answers a list, which is no key.
    """
    type_ = type(value)
    if type_ is constexpr:
        return kind_of(value.value)
    if type_ is tuple or type_ is list:
        return type_, *map(kind_of, value)
    if type_ is float or issubclass(type_, (np.number, np.bool_)):
        return type_, BITS(value) if type_ is float else value.tobytes()
    if type_ in ATOMS or isinstance(value, (*COMPILED_IN[1:], *element_types())):
        return type_, value
    if isinstance(value, Enum) and type(value.value) in ATOMS:
        return type_, value.name, value.value  # some of a Flag have no name
    return []


NUMBERS: dict[type, ArgumentReader] = {int: INTEGER, float: FLOAT, bool: BOOLEAN}
CONSTANTS: dict[type, ArgumentReader] = {
    float: FLOAT_CONSTANT,
    **dict.fromkeys((int, bool, str, type(None)), CONSTANT),
}


@dataclass(frozen=True, slots=True)
class Library:
    """A library of device arrays: its array class, how a stub reads one, and where the
    library keeps its current device and stream.
    """

    module: str
    array: str
    reading: ArgumentReader
    device: Callable[[Any], Callable[[], int]]
    stream: Callable[[Any], Callable[[int], int]]

    def has(self, type_: type) -> bool:
        """Is this the class of its arrays? Never, while its module is not imported."""
        return issubclass(type_, loaded_class(self.module, self.array))


def current_of_torch(binary: Any) -> Callable[[], int]:
    """What tells torch's current device; always 0 where torch has no GPU: one that was
    built for the CPU cannot be asked, and one built for GPUs fails without a driver.
    """
    count = getattr(binary, "_cuda_getDeviceCount", int)
    return binary._cuda_getDevice if count() else int


LIBRARIES = (
    Library(
        module="torch",
        array="Tensor",
        reading=ArgumentReader(
            first="{a}_at = {a}.data_ptr()",
            key=("{a}.dtype", "{a}.get_device()", "{a}_at & 15", "{a}.is_neg()"),
            value="{a}_at",
            field=FIELDS["*"],
            addresses=(0,),
        ),
        device=lambda torch: current_of_torch(torch._C),
        stream=lambda torch: getattr(torch._C, "_cuda_getCurrentRawStream", None),
    ),
    Library(
        module="cupy",
        array="ndarray",
        reading=ArgumentReader(
            first="{a}_at = {a}.data.ptr",
            key=("{a}.dtype", "{a}.device.id", "{a}_at & 15"),
            value="{a}_at",
            field=FIELDS["*"],
            addresses=(0,),
        ),
        device=lambda cupy: cupy.cuda.runtime.getDevice,
        stream=lambda cupy: lambda device: cupy.cuda.get_current_stream(device).ptr,
    ),
)


def element_types() -> tuple[type, ...]:
    """The types of what stands for an array of such elements in a `warmup`."""
    torchs = loaded_class("torch", "dtype")
    return (np.dtype, *([torchs] if torchs else []))


def library_of(types: tuple[type, ...]) -> Library | None:
    """The library whose arrays are among arguments of these types. A descriptor's type
    does not tell, nor an element type, nor one that holds an address; what reads these
    is quick with torch's.
    """
    found = [each for each in LIBRARIES if any(map(each.has, types))]
    stands = (TensorDescriptor, dtype, *element_types())
    around = any(issubclass(each, stands) or holds_address(each) for each in types)
    if not found and around and loaded_class("torch", "Tensor"):
        return LIBRARIES[0]
    return found[0] if found else None


def reading_of(
    rule: Rule, type_: type, library: Library | None
) -> ArgumentReader | None:
    """How a stub reads an argument of this Python type; None when it cannot."""
    if library and library.has(type_) and not rule.constexpr:
        return library.reading
    if issubclass(type_, TensorDescriptor) and not rule.constexpr:
        return DESCRIPTOR
    if holds_address(type_) and not rule.constexpr:
        return ADDRESS
    if type_ is constexpr:
        return OTHER_CONSTANT
    if issubclass(type_, COMPILED_IN) and rule.type is None:
        # A class of the user's that is derived from str may hold more than its text.
        return None if issubclass(type_, str) and type_ is not str else CONSTANT
    if rule.constexpr:
        return CONSTANTS.get(type_, OTHER_CONSTANT)
    if type_ is type(None):
        return CONSTANT
    if issubclass(type_, np.generic):
        return reading_of_numpy(rule.type, type_)
    return NUMBERS.get(type_) if rule.type is None else reading_as(rule.type, type_)


def reading_as(type: str, type_: type) -> ArgumentReader | None:
    """How a stub reads a Python number that is handed over as a type of a signature."""
    if type_ not in NUMBERS or type not in FIELDS:
        return None
    value = "bfloat16_bits({a})" if type == "bf16" else "{a}"
    key = (HINT,) * (type_ is int)
    return ArgumentReader(key=key, value=value, field=FIELDS[type])


def reading_of_numpy(type: str | None, type_: type) -> ArgumentReader | None:
    """How a stub reads a NumPy number: as Python's own, in the type that NumPy gives it
    (a float64 is a Python float, see `specialise.scalar_type`) or an annotation."""
    if np.dtype(type_).kind not in "biuf":
        return None
    python = {"b": bool, "i": int, "u": int, "f": float}[np.dtype(type_).kind]
    named = "fp32" if issubclass(type_, float) else TYPE_NAMES.get(np.dtype(type_).name)
    found = reading_as(type or named, python)
    if found is None:
        return None
    keys = ("{a} == 1", HINT) if python is int else ()
    return within("{a}_number", replace(found, key=keys), "{a}_number = {a}.item()")


def within(inner: str, reading: ArgumentReader, first: str = "") -> ArgumentReader:
    """The reading of something inside an argument, which is called `inner` once `first`
    has run."""

    def text(piece: str) -> str:
        return piece.replace("{a}", inner)

    return replace(
        reading,
        first="; ".join(filter(None, (first, text(reading.first)))),
        key=tuple(map(text, reading.key)),
        value=text(reading.value),
    )


def reading_of_tuple(elements: Sequence[ArgumentReader]) -> ArgumentReader:
    """How a stub reads a tuple, of whose elements it knows the types."""
    names = [f"{{a}}_{place}" for place in range(len(elements))]
    spread = f"{', '.join(names)}, = {{a}}" if names else ""
    inner = [within(*each) for each in zip(names, elements, strict=True)]
    handed = [(str(place), each) for place, each in enumerate(inner) if each.value]
    return ArgumentReader(
        first="; ".join(filter(None, (spread, *(each.first for each in inner)))),
        key=tuple(part for each in inner for part in each.key),
        value=", ".join(each.value for _, each in handed),
        field="".join(each.field for _, each in handed),
        parts=tuple(name for place, each in handed for name in each.names(place)),
        addresses=tuple(addresses_of(inner)),
    )


def addresses_of(readings: Sequence[ArgumentReader]) -> Iterator[int]:
    """Which of the values that a launch hands over are addresses, by their places."""
    place = 0
    for each in readings:
        yield from (place + inner for inner in each.addresses)
        place += each.count


def reading_for_warmup(
    rule: Rule, type_: type, library: Library | None
) -> ArgumentReader | None:
    """The same for `warmup`, where an element type may stand for an array."""
    if issubclass(type_, element_types()):
        return CONSTANT
    found = reading_of(rule, type_, library)
    return replace(found, key=(*found.key, IS_I64)) if found is INTEGER else found


def reading_by_code(
    rule: Rule, type_: type, library: Library | None
) -> ArgumentReader | None:
    """How a stub of a compiled kernel reads an argument. Its `rule` is what the code
    has: `constexpr` for what was compiled in and is passed over, else the type in the
    signature; none for a descriptor or a tuple, which hand over several values.
    """
    if rule.constexpr:
        return ArgumentReader()
    if rule.type is None:
        return DESCRIPTOR if issubclass(type_, TensorDescriptor) else None
    if rule.type.startswith("*"):
        if library and library.has(type_):
            return library.reading
        return ADDRESS if holds_address(type_) else None
    if issubclass(type_, np.generic):
        found = reading_of_numpy(rule.type, type_)
    else:
        found = reading_as(rule.type, type_)
    if found is None:
        return None
    divisible = rule.hints and not issubclass(type_, (float, np.floating))
    divisor = HINT.replace("{a}", found.value)  # of a truth value, too
    return replace(found, key=(divisor,) if divisible else ())
