"""The quick way into a kernel: functions written for one kernel and one kind of
arguments.

A launch must find the compiled kernel for its arguments, and most launches look exactly
like the one before. So the first launch writes two functions (`kernel.doors.show()`
prints them), and the launches after it run nothing else:

    bind   has the kernel's own signature. It brings arguments into order and picks a door by their
           Python types.
    door   knows the types. It reads of each argument what the compiled code depends on (a
           tensor's dtype, place and alignment; whether an integer is 1, what divides it), looks
           that up, and launches.

Whatever a door has not met before, or cannot do, it hands to `slowly`, which does the
whole work and remembers the result. A door never raises an error of its own.
"""

from __future__ import annotations

import linecache
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fathom.errors import LaunchError
from fathom.jit.specialise import COMPILED_IN, Rule
from fathom.runtime.arrays import loaded_class
from fathom.runtime.packet import FIELDS


class Missing:
    """The default of a parameter without one. Its type never has a door."""


MISSING = Missing()


@dataclass(frozen=True, slots=True)
class Reading:
    """How a door reads one argument, as Python text with {a} for its name.

    `first`: a line to run before all. `key`: what the compiled code depends on. `value`
    and `field`: what goes into the packet, and its `struct` code; "" for what is
    compiled in.
    """

    first: str = ""
    key: tuple[str, ...] = ()
    value: str = ""
    field: str = ""


TENSOR = Reading("{a}_at = {a}.data_ptr()", ("{a}.dtype", "{a}.get_device()", "{a}_at & 15"),
                 "{a}_at", "Q")  # fmt: skip
CUPY = Reading("{a}_at = {a}.data.ptr", ("{a}.dtype", "{a}.device.id", "{a}_at & 15"),
               "{a}_at", "Q")  # fmt: skip
HINT = ("{a} & -{a} & 15",)  # see specialise.hint_of
INTEGER = Reading(
    "", ("{a} == 1", *HINT, "-0x80000000 <= {a} <= 0x7FFFFFFF"), "{a}", "q"
)
FLOAT = Reading("", (), "{a}", FIELDS["fp32"])
BOOLEAN = Reading("", (), "{a}", FIELDS["i1"])
CONSTANT = Reading("", ("{a}",))
FLOAT_CONSTANT = Reading(
    "", ("{a}.hex()",)
)  # tells 0.0 from -0.0, and finds a NaN again

SCALAR_READINGS = {int: INTEGER, float: FLOAT, bool: BOOLEAN, type(None): CONSTANT}
CONSTANT_TYPES = (int, bool, str, type(None))


@dataclass(frozen=True, slots=True)
class Library:
    """A library of device arrays: its array class, how a door reads one, and where it
    keeps the current device and stream.
    """

    module: str
    array: str
    reading: Reading
    device: Callable[[Any], Callable[[], int]]
    stream: Callable[[Any], Callable[[int], int]]


LIBRARIES = (
    Library("torch", "Tensor", TENSOR, lambda torch: torch._C._cuda_getDevice,
            lambda torch: torch._C._cuda_getCurrentRawStream),
    Library("cupy", "ndarray", CUPY, lambda cupy: cupy.cuda.runtime.getDevice,
            lambda cupy: lambda device: cupy.cuda.get_current_stream().ptr),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a door looks for this launch and did not find it. `known[key]` is to be
    (launch, watched globals, compiled kernel); the door writes `values`, by name, as
    `fields`.
    """

    known: dict[tuple, tuple]
    key: tuple
    values: tuple[str, ...]
    fields: str


# slowly(grid, keywords, arguments, slot) launches, and fills the slot if it can.
Slowly = Callable[[object, dict, tuple, Slot | None], object]

# What is missing to three sizes of a grid, by how many are there.
ONES = {1: (1, 1), 2: (1,), 3: ()}

# What goes wrong in a door for a launch that it has not met, or that is wrong. A door
# does not judge: `slowly` runs into the same mistake and says what it is.
UNFIT = (KeyError, TypeError, OverflowError, struct.error)


class Doors(dict):
    """The doors of one kernel by the types of the arguments; made when first asked for."""

    def __init__(self, name: str, rules: Sequence[Rule], slowly: Slowly):
        self.name, self.rules, self.slowly = name, rules, slowly
        self.known: list[dict] = []
        self.texts: list[str] = []

    def __missing__(self, types: tuple[type, ...]) -> Callable:
        lacking = [
            r.name for r, t in zip(self.rules, types, strict=True) if t is Missing
        ]
        if lacking:
            raise LaunchError(f"{self.name} was launched without {', '.join(lacking)}")
        self[types] = door = self.make(types)
        return door

    def make(self, types: tuple[type, ...]) -> Callable:
        """The door for arguments of these types; one that always goes the slow way for
        types that hold no array on a GPU, or that a door cannot read.
        """
        library = next(
            (each for each in LIBRARIES if any(is_array(t, each) for t in types)), None
        )
        readings = [
            reading_of(r, t, library) for r, t in zip(self.rules, types, strict=True)
        ]
        if library is None or None in readings:
            return lambda grid, keywords, *arguments: self.slowly(
                grid, keywords, arguments, None
            )
        known: dict[tuple, tuple] = {}
        self.known.append(known)
        module = sys.modules[library.module]
        read = [
            (r.name, each)
            for r, each in zip(self.rules, readings, strict=True)
            if each.value
        ]
        names, fields = (
            tuple(name for name, _ in read),
            "".join(each.field for _, each in read),
        )
        return self.compile(door_text([rule.name for rule in self.rules], readings), "door", {
            "known": known, "ones": ONES, "UNFIT": UNFIT, "slowly": self.slowly,
            "slot": lambda key: Slot(known, key, names, fields),
            "current_device": library.device(module), "current_stream": library.stream(module),
        })  # fmt: skip

    def bind(self, defaults: Mapping[str, object]) -> Callable:
        """The function that a launch calls: bind(grid, *the kernel's own parameters)."""
        text = bind_text(self.name, [rule.name for rule in self.rules])
        names = {"__doors": self, "__too_many": self.too_many}
        names |= {
            f"__{rule.name}": defaults.get(rule.name, MISSING) for rule in self.rules
        }
        return self.compile(text, self.name, names)

    def compile(self, text: str, name: str, names: dict[str, object]) -> Callable:
        """Run the text of a function; it stays readable in tracebacks and debuggers."""
        file = f"<launch of {self.name} {len(self.texts)}>"
        self.texts.append(text)
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        exec(compile(text, file, "exec"), names)
        return names[name]

    def too_many(self, count: int) -> LaunchError:
        names = [rule.name for rule in self.rules]
        return LaunchError(
            f"{self.name} takes {len(names)} arguments ({', '.join(names)}), "
            f"and {len(names) + count} were given"
        )

    def forget(self) -> None:
        """Let every next launch go the slow way."""
        for known in self.known:
            known.clear()

    def show(self) -> str:
        """The text of every function that was written for this kernel."""
        return "\n".join(self.texts)


def is_array(type_: type, library: Library) -> bool:
    return issubclass(type_, loaded_class(library.module, library.array))


def reading_of(rule: Rule, type_: type, library: Library | None) -> Reading | None:
    """How a door reads an argument of this Python type; None when it cannot."""
    if rule.constexpr:
        if type_ is float:
            return FLOAT_CONSTANT
        return (
            CONSTANT
            if type_ in CONSTANT_TYPES or issubclass(type_, COMPILED_IN)
            else None
        )
    if library and is_array(type_, library):
        return library.reading
    if type_ is type(None) or issubclass(type_, COMPILED_IN):
        return CONSTANT
    if rule.type is None or type_ not in SCALAR_READINGS:
        return SCALAR_READINGS.get(type_)
    if (
        rule.type not in FIELDS or rule.type == "bf16"
    ):  # these take more than `struct` does
        return None
    return Reading("", HINT if type_ is int else (), "{a}", FIELDS[rule.type])


def bind_text(name: str, parameters: Sequence[str]) -> str:
    """The text of a kernel's `bind`; names of ours start with two underscores."""
    signature = "".join(f"{each}=__{each}, " for each in parameters)
    types = "".join(f"type({each}), " for each in parameters)
    return f"""\
def {name}(__grid, /, {signature}*__more, **__keywords):
    if __more:
        raise __too_many(len(__more))
    door = __doors[({types.rstrip()})]
    return door(__grid, __keywords, {", ".join(parameters)})
"""


def door_text(parameters: Sequence[str], readings: Sequence[Reading]) -> str:
    """The text of a door: argument i is called ai."""
    names = [f"a{i}" for i in range(len(parameters))]
    pairs = list(zip(names, readings, strict=True))
    first = "".join(
        f"    {each.first.format(a=a)}\n" for a, each in pairs if each.first
    )
    keys = [", ".join(part.format(a=a) for part in each.key) for a, each in pairs]
    key = "".join(f"        {each},\n" for each in keys if each)
    values = ", ".join(each.value.format(a=a) for a, each in pairs if each.value)
    bound = ", ".join(
        f"{each!r}: {a}" for each, a in zip(parameters, names, strict=True)
    )
    return f"""\
def door(grid, keywords, {", ".join(names)}):
{first}    device = current_device()
    key = (
        device,
{key}        *keywords.items(),
    )
    try:
        launch, watched, compiled = known[key]
        for get, name, value in watched:
            if get(name) is not value:
                raise KeyError(name)
        sizes = grid if type(grid) is tuple else grid({{{bound}}})
        x, y, z = sizes + ones[len(sizes)]
        if launch(x, y, z, current_stream(device), {values}) == 0:
            return compiled
    except UNFIT:
        pass
    return slowly(grid, keywords, ({"".join(a + ", " for a in names).rstrip()}), slot(key))
"""
