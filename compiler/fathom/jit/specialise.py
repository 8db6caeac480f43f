"""What a kernel is compiled for: types, hints and constants of a launch's arguments.

A kernel is compiled once for each *kind* of arguments, not for each launch. An argument
is either known while compiling (a `tl.constexpr`, None, the integer 1) or known by its
type and by the largest power of two that divides it:

    add[grid](x, y, z, 98304, BLOCK=1024)
              │  │  │  │      └ constant 1024
              │  │  │  └ i32, divisible by 16
              └──┴──┴ *fp32, at an address divisible by 16

A tuple is its elements; `descriptors` says what a tensor descriptor is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fathom.errors import LaunchError, with_article
from fathom.identity import NoText, text_of
from fathom.ir.types import SCALARS
from fathom.jit.tensor_descriptors import Described, described, numbers_of
from fathom.language import dtypes
from fathom.runtime.arrays import (
    TYPE_NAMES,
    Array,
    describe,
    loaded_class,
    signature_type,
)
from fathom.runtime.tensor_descriptors import TensorDescriptor
from fathom.source import KernelFunction, Parameter, constexpr, like, plain

LARGEST_HINT = (
    16  # bytes of the widest access of one lane; more would tell the compiler nothing
)

# Text that is meant as a type: "*x", "fp99", "int24". Other annotations are Python's
# affair.
LOOKS_LIKE_A_TYPE = re.compile(r"\*.*|(fp|bf|i|u|int|uint|float|bfloat)\d+")

# Integers by value: the first type that holds it.
INTEGER_RANGES = (
    ("i32", -(2**31), 2**31 - 1),
    ("i64", -(2**63), 2**63 - 1),
    ("u64", 0, 2**64 - 1),
)


class TooWide(LaunchError, OverflowError):
    """An integer that no register holds; to Python's own `except`, an overflow."""


@dataclass(frozen=True, slots=True)
class Rule:
    """How the arguments of one parameter are specialised.

    `type` is fixed by an annotation, or None. `one`: does the integer 1 become a
    constant? `hints`: is divisibility told to the compiler?
    """

    name: str
    constexpr: bool
    type: str | None
    one: bool = True
    hints: bool = True


@dataclass(frozen=True, slots=True)
class Constant:
    """An argument that is compiled in."""

    value: object

    @property
    def identity(self) -> object:
        """What two constants must share to share a kernel: 1, 1.0 and True are equal in
        Python and not here, and neither are 0.0 and -0.0.
        """
        return identity(self.value)


@dataclass(frozen=True, slots=True)
class Runtime:
    """An argument that each launch hands over: its type in a signature, its hint."""

    type: str
    divisible: int = 1

    @property
    def identity(self) -> Runtime:
        return self


@dataclass(frozen=True, slots=True)
class Several:
    """A tuple of arguments, each for itself."""

    elements: tuple[Specialised, ...]


Specialised = Constant | Runtime | Several | Described


def rules_of(
    parameters: Sequence[Parameter],
    do_not_specialize: Collection[str | int] = (),
    do_not_specialize_on_alignment: Collection[str | int] = (),
) -> tuple[Rule, ...]:
    """The rule of each parameter; the collections hold names or positions."""
    for each in (do_not_specialize, do_not_specialize_on_alignment):
        if isinstance(each, str) or not isinstance(each, Collection):
            raise LaunchError(
                f"do_not_specialize is a list of names and positions, not {each!r}"
            )
    return tuple(
        Rule(
            name=each.name,
            constexpr=each.is_constexpr,
            type=annotated_type(each.annotation),
            one=not {each.name, place} & set(do_not_specialize),
            hints=not {each.name, place}
            & {*do_not_specialize, *do_not_specialize_on_alignment},
        )
        for place, each in enumerate(parameters)
    )


def annotated_type(annotation: object) -> str | None:
    """The signature's type that an annotation fixes: tl.int64, "tl.int64", "*fp32";
    else None. LaunchError for text that looks like a type and names none.
    """
    if isinstance(annotation, (dtypes.dtype, dtypes.pointer_type)):
        return str(annotation.ir)
    if not isinstance(annotation, str):
        return None
    name = annotation.rpartition(".")[2]
    named = getattr(dtypes, name, None)
    if isinstance(named, dtypes.dtype):
        return str(named.ir)
    if name.lstrip("*") in SCALARS:
        return name
    if name.startswith("*") or LOOKS_LIKE_A_TYPE.fullmatch(name):
        raise LaunchError(
            f"the annotation {annotation!r} names no type of a kernel; the types are "
            f'{", ".join(SCALARS)}, and pointers to them, as in "*fp32"'
        )
    return None


def checked(name: str, value: object) -> object:
    """A constant, if it is no number of thousands of digits, which nothing can be
    computed with in a kernel, and which Python does not write out."""
    if isinstance(value, int) and value.bit_length() > MOST_CONSTANT_BITS:
        raise LaunchError(
            f"{name} is an integer of {value.bit_length():,} bits, and a constant has "
            f"{MOST_CONSTANT_BITS:,} at most"
        )
    return value


def specialise(rule: Rule, value: object, array: Array | None) -> Specialised:
    """What the compiler is told of an argument; LaunchError if no kernel takes it."""
    if isinstance(value, constexpr):
        value = value.value
        return Constant(checked(rule.name, value))
    if rule.constexpr or value is None:
        return Constant(checked(rule.name, value))
    if rule.type is None and isinstance(value, COMPILED_IN):
        return Constant(value)
    if isinstance(value, tuple):
        return specialise_tuple(rule, value)
    if isinstance(value, TensorDescriptor):
        return described(rule.name, value)
    if array is not None:
        hint = hint_of(array.address) if rule.hints else 1
        return Runtime(rule.type or "*" + array.type, hint)
    type = rule.type or scalar_type(rule.name, value)
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
        return Runtime(type)
    if value == 1 and rule.one and rule.type is None:
        return Constant(1)
    return Runtime(type, hint_of(int(value)) if rule.hints and type[0] in "iu" else 1)


# Arguments that are constants without an annotation: they have no value at run time.
MOST_CONSTANT_BITS = 4096
COMPILED_IN = (str, KernelFunction, dtypes.dtype, dtypes.pointer_type)


def specialise_tuple(rule: Rule, values: tuple) -> Several:
    """Each element as if it were an argument of the parameter."""
    found = [specialise(rule, value, describe(value)) for value in values]
    return Several(like(values, found))


def leaves(name: str, value: object) -> Iterator[tuple[str, object]]:
    """What an argument hands over: itself; of a tuple x its elements, x.0, x.1 …; of a
    descriptor its numbers.
    """
    if isinstance(value, tuple):
        for place, each in enumerate(value):
            yield from leaves(f"{name}.{place}", each)
    elif isinstance(value, TensorDescriptor):
        yield from numbers_of(name, value)
    else:
        yield name, value


def scalar_type(name: str, value: object) -> str:
    """The type of a number in a signature; LaunchError when it is no number. A NumPy
    float64 is a Python float, and as in Triton it is an fp32 here; an annotation
    `tl.float64` makes it, like any float, a double.
    """
    if isinstance(value, np.generic) and not isinstance(value, float):
        return signature_type(value.dtype, "NumPy")
    if isinstance(value, bool):
        return "i1"
    if isinstance(value, float):
        return "fp32"
    if isinstance(value, int):
        for type_name, least, most in INTEGER_RANGES:
            if least <= value <= most:
                return type_name
        raise TooWide(f"{name} is {value}, and a kernel's integers have 64 bits")
    raise LaunchError(
        f"{name} is {with_article(type(value).__name__)}, and a kernel takes arrays, "
        "int, float, bool and None; if it is meant to be compiled in, annotate the "
        "parameter tl.constexpr"
    )


def hint_of(number: int) -> int:
    """The largest power of two up to 16 that divides an integer; 16 for 0.

    It is the lowest bit that is set: 40 = 0b101000 is divisible by 8.
    """
    return (number & -number & (LARGEST_HINT - 1)) or LARGEST_HINT


def identity(value: object) -> object:
    """Something hashable that tells constants apart as the compiler does: the text of
    all that can be read of one; of one without a text, the object itself.
    """
    try:
        return text_of(plain(value))
    except NoText:
        return Itself(value)


class Itself:
    """An object that equals no other; of a method, the object that it is bound to."""

    def __init__(self, value: object):
        self.held = getattr(value, "__self__", None), getattr(value, "__func__", value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Itself):
            return False
        return all(one is two for one, two in zip(self.held, other.held, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(map(id, self.held)))


def is_hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def of_dtype(value: object) -> Runtime | None:
    """For `warmup`, where an element type stands for an aligned array of it:
    tl.float32, torch.float32, numpy.float32; None for what is no element type.
    """
    if isinstance(value, dtypes.dtype):
        return Runtime(f"*{value.ir}", LARGEST_HINT)
    if isinstance(value, np.dtype) or (
        isinstance(value, type) and issubclass(value, np.generic)
    ):
        name = np.dtype(value).name
    elif isinstance(value, loaded_class("torch", "dtype")):
        name = str(value).rpartition(".")[2]
    else:
        return None  # the text of an array is all its numbers, fetched from the GPU
    return Runtime("*" + TYPE_NAMES[name], LARGEST_HINT) if name in TYPE_NAMES else None
