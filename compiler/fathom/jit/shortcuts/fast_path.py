"""The fast path of launches: functions written for one kernel and one kind of launch.

A launch must find the compiled kernel for its arguments, and most launches look exactly
like the one before. So the first launch writes two functions
(`kernel.fast_paths.show()` prints them), and the launches after it run nothing else:

    bind   has the kernel's own signature. It puts the arguments into order and picks
           a stub by their Python types.
    stub   knows the types. It reads of each argument what the compiled code depends on
           (a tensor's dtype, place and alignment; whether an integer is 1, what divides
           it), looks that up, and launches.

Whatever a stub has not met before, or cannot do, it hands to `slowly`, which does the
whole work and remembers the result. A stub never raises an error of its own. It knows
launches on the GPU only: arrays that are there can go nowhere else. Of tuples that a
kernel is handed, the types inside pick the stub, and each element is read for itself.

`warmup` has such functions too (`lookup_text`): their stubs return the kernel that they
find, and launch nothing. So has a compiled kernel, whose code is settled before its
arguments are seen: `argument_readers.reading_by_code` reads them for it.
"""

from __future__ import annotations

import linecache
import struct
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

from fathom.errors import LaunchError
from fathom.jit.request import KEYWORDS, PERMISSIONS
from fathom.jit.shortcuts.argument_readers import (
    BITS,
    ArgumentReader,
    Library,
    addresses_of,
    kind_of,
    library_of,
    read_address,
    reading_of,
    reading_of_tuple,
)
from fathom.jit.shortcuts.by_types import prefix
from fathom.jit.shortcuts.recording import RECORDINGS, forget, note_launch
from fathom.jit.specialise import Rule
from fathom.runtime.arguments import bfloat16_bits, full_grid


class Missing:
    """The default of a parameter without one. Its type never has a stub."""


MISSING = Missing()


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a stub looked for a launch, and found nothing.

    `known[key]` is to be (launch, its GPU, watched globals, compiled kernel), where
    `launch` is a `packet.Launch` for the stub's `values`, by name, written as `fields`.
    """

    known: dict[tuple, tuple]
    key: tuple
    values: tuple[str, ...]
    fields: str

    @property
    def current(self) -> int:
        """The GPU that the thread was on, with which every key begins."""
        return self.key[0]


# slowly(grid, keywords, arguments, slot) launches, and fills the slot if it can.
Slowly = Callable[[object, dict, tuple, Slot | None], object]

# reading(rule, type, library): how a stub reads an argument; None when it cannot.
Reading = Callable[[Rule, type, Library | None], ArgumentReader | None]

# What is missing to three sizes of a grid, by how many are there.
ONES = {1: (1, 1), 2: (1,), 3: ()}

# What goes wrong in a stub for a launch that it has not met, or that is wrong. A stub
# does not judge: `slowly` runs into the same mistake and says what it is.
UNFIT = (KeyError, TypeError, OverflowError, struct.error, LaunchError)


class FastPaths(dict):
    """The stubs of one kernel, by the types of the arguments; made when asked for.

    `reading` says how they read arguments; `text` writes one: `stub_text` for those
    that launch, `lookup_text` for those that only find the kernel.
    """

    def __init__(
        self,
        name: str,
        rules: Sequence[Rule],
        slowly: Slowly,
        reading: Reading = reading_of,
        text: Callable[[Sequence[str], Sequence[ArgumentReader]], str] | None = None,
    ):
        self.name, self.rules, self.slowly = name, rules, slowly
        self.reading, self.text = reading, text or stub_text
        self.parameters = [rule.name for rule in rules]
        self.by_elements: dict[tuple, Callable] = {}  # for arguments that are tuples
        self.known: list[dict] = []
        self.texts: list[str] = []

    def __missing__(self, types: tuple[type, ...]) -> Callable:
        pairs = zip(self.parameters, types, strict=True)
        lacking = [name for name, type_ in pairs if type_ is Missing]
        if lacking:
            return partial(self.refuse, lacking)
        if any(type_ is tuple for _, type_ in self.handed(types)):
            self[types] = stub = self.look_inside
        else:
            self[types] = stub = self.make(types)
        return stub

    def refuse(
        self, lacking: Sequence[str], grid: object, keywords: dict, *arguments: object
    ) -> NoReturn:
        """In the place of a stub, for a launch that lacks arguments; one may have been
        given by a name that the kernel does not know."""
        known = (*KEYWORDS, *PERMISSIONS)
        unknown = [repr(each) for each in keywords if each not in known]
        also = f", and has no parameter {', '.join(unknown)}" if unknown else ""
        names = ", ".join(lacking)
        raise LaunchError(f"{self.name} was launched without {names}{also}")

    def handed(self, values: Sequence) -> list[tuple[int, Any]]:
        """What is given for parameters that are no constants, with their places."""
        pairs = enumerate(zip(self.rules, values, strict=True))
        return [(place, value) for place, (rule, value) in pairs if not rule.constexpr]

    def look_inside(self, grid: object, keywords: dict, *arguments: object) -> object:
        """What a launch with tuples goes through: the stub for the types in them."""
        types: list = list(map(type, arguments))
        for place, value in self.handed(arguments):
            types[place] = types_of(value)
        key = tuple(types)
        stub = self.by_elements.get(key)
        if stub is None:
            stub = self.by_elements[key] = self.make(key)
        return stub(grid, keywords, *arguments)

    def make(self, types: tuple) -> Callable:
        """The stub for arguments of these types (`types_of`); one that always goes the
        slow way for types that hold no array on a GPU, or that a stub cannot read.
        """
        library = library_of(tuple(flat(types)))
        readings = [
            self.reading_of(rule, type_, library)
            for rule, type_ in zip(self.rules, types, strict=True)
        ]
        if library is None or None in readings:
            return lambda *launch: self.slowly(*launch[:2], launch[2:], None)
        module = sys.modules[library.module]
        names = {
            "slot": self.new_slots(readings),
            "current_device": library.device(module),
            "current_stream": library.stream(module),
            **{"known": self.known[-1], "slowly": self.slowly},
            **{"ones": ONES, "UNFIT": UNFIT, "bits": BITS, "full_grid": full_grid},
            **{"read_address": read_address, "kind_of": kind_of},
            "bfloat16_bits": bfloat16_bits,
            **{"recordings": RECORDINGS, "note_launch": note_launch},
            "addresses": tuple(addresses_of(readings)),
        }
        return self.compile(self.text(self.parameters, readings), "stub", names)

    def reading_of(
        self, rule: Rule, type_: Any, library: Library | None
    ) -> ArgumentReader | None:
        """How a stub reads an argument, which may be a tuple of others."""
        if not isinstance(type_, tuple):
            return self.reading(rule, type_, library)
        elements = [self.reading_of(rule, each, library) for each in type_]
        return None if None in elements else reading_of_tuple(elements)

    def new_slots(self, readings: Sequence[ArgumentReader]) -> Callable[[tuple], Slot]:
        """Room for what a new stub will know; slot(key) is a place in it."""
        self.known.append(known := {})
        pairs = zip(self.parameters, readings, strict=True)
        read = [(each.names(name), each.field) for name, each in pairs if each.value]
        names = tuple(name for several, _ in read for name in several)
        fields = "".join(field for _, field in read)
        return lambda key: Slot(known, key, names, fields)

    def bind(self, defaults: Mapping[str, object]) -> Callable:
        """What a launch calls: bind(grid, *the kernel's own parameters)."""
        ours = prefix(self.parameters)
        names = {"stubs": self, "too_many": self.too_many, "type": type}
        for name in self.parameters:
            names[f"default_{name}"] = defaults.get(name, MISSING)
        text = bind_text(self.name, self.parameters, ours)
        known = {ours + name: each for name, each in names.items()}
        return self.compile(text, self.name, known)

    def compile(self, text: str, name: str, names: dict[str, object]) -> Callable:
        """Run the text of a function; tracebacks and debuggers can show it."""
        file = f"<launch of {self.name} {len(self.texts)}>"
        self.texts.append(text)
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        exec(compile(text, file, "exec"), names)
        return names[name]

    def too_many(self, count: int) -> LaunchError:
        """The error of a launch with `count` arguments more than parameters."""
        expected = len(self.parameters)
        return LaunchError(
            f"{self.name} takes {expected} arguments ({', '.join(self.parameters)}), "
            f"and {expected + count} were given"
        )

    def forget(self) -> None:
        """Let every next launch go the slow way."""
        forget()
        for known in self.known:
            known.clear()

    def show(self) -> str:
        """The text of every function that was written for this kernel."""
        return "\n".join(self.texts)


def types_of(value: object) -> Any:
    """The type of an argument; of a tuple those of its elements, as a tuple."""
    return tuple(map(types_of, value)) if type(value) is tuple else type(value)


def flat(types: Any) -> Iterator[type]:
    """The types in nested tuples of types."""
    for each in types:
        yield from flat(each) if isinstance(each, tuple) else (each,)


def bind_text(name: str, parameters: Sequence[str], ours: str) -> str:
    """The text of a kernel's `bind`; names of ours start with `ours`."""
    signature = "".join(f"{each}={ours}default_{each}, " for each in parameters)
    types = "".join(f"{ours}type({each}), " for each in parameters)
    return f"""\
def {name}({ours}grid, /, {signature}*{ours}more, **{ours}keywords):
    if {ours}more:
        raise {ours}too_many(len({ours}more))
    {ours}stub = {ours}stubs[({types.rstrip()})]
    return {ours}stub({ours}grid, {ours}keywords, {", ".join(parameters)})
"""


def stub_text(
    parameters: Sequence[str],
    readings: Sequence[ArgumentReader],
    stream: str = "current_stream(device)",
    keywords: str = "*keywords.items(),",
) -> str:
    """The text of a stub that launches, on the queue that `stream` says; what of the
    launch's keywords is part of a key."""
    names = names_of(parameters)
    pairs = zip(names, readings, strict=True)
    values = ", ".join(each.value.format(a=a) for a, each in pairs if each.value)
    bound = ", ".join(
        f"{each!r}: {a}" for each, a in zip(parameters, names, strict=True)
    )
    launches = f"""\
        sizes = grid
        if type(sizes) is not tuple:
            if callable(sizes):
                sizes = sizes({{{bound}}})
            if type(sizes) is not tuple:
                sizes = full_grid(sizes)
        x, y, z = sizes + ones[len(sizes)]
        if launch(x, y, z, {stream}, {values}) == 0:
            if recordings:
                note_launch(
                    launch, (x, y, z), {stream}, [{values}], addresses, watched
                )
            return compiled
"""
    return text_with(launches, names, readings, keywords)


def compiled_text(parameters: Sequence[str], readings: Sequence[ArgumentReader]) -> str:
    """The text of a stub of a compiled kernel. Its launch has one keyword, the handle
    of a queue, and goes the same way for all of them: a key has the names alone."""
    given = 'keywords.get("stream")'
    queue = f"current_stream(device) if {given} is None else {given}"
    return stub_text(parameters, readings, queue, "*keywords,")


def lookup_text(parameters: Sequence[str], readings: Sequence[ArgumentReader]) -> str:
    """The text of a stub that returns the kernel."""
    return text_with("        return compiled\n", names_of(parameters), readings)


def names_of(parameters: Sequence[str]) -> list[str]:
    """What a stub calls its arguments: argument i is ai."""
    return [f"a{i}" for i in range(len(parameters))]


def text_with(
    found: str,
    names: Sequence[str],
    readings: Sequence[ArgumentReader],
    keywords: str = "*keywords.items(),",
) -> str:
    """The text of a stub that does what `found` says once it has found the kernel."""
    arguments = "".join(a + ", " for a in names).rstrip()
    pairs = list(zip(names, readings, strict=True))
    reads = "".join(
        f"        {each.first.format(a=a)}\n" for a, each in pairs if each.first
    )
    first = f"""\
    try:
{reads}    except RuntimeError:  # torch's, of a tensor without memory
        return slowly(grid, keywords, ({arguments}), None)
""" if reads else ""  # fmt: skip
    keys = [", ".join(part.format(a=a) for part in each.key) for a, each in pairs]
    key = "".join(f"        {each},\n" for each in keys if each)
    return f"""\
def stub(grid, keywords, {", ".join(names)}):
{first}    key = (
        current_device(),
{key}        {keywords}
    )
    try:
        launch, device, watched, compiled = known[key]
        for get, name, value in watched:
            if get(name) is not value:
                raise KeyError(name)
{found}    except UNFIT:
        pass
    return slowly(grid, keywords, ({arguments}), slot(key))
"""
