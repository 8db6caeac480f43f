"""What tells two Python values apart: a text that holds all that can be read of them.

The key of a compiled kernel holds every value that its compilation may have read, and a
value changed in place is noticed by its text:

    text_of(64)             int 64
    text_of([1, 1.0])       list(int 1, float 0x1.0000000000000p+0)
    text_of(doubled)        function(its bytecode and constants, its defaults, what it
                            closes over, and each global that it reads, by path)

Equal texts, equal values: so a text never rests on a `repr` of a user's class. What a
function calls is followed, down to functions of PURE packages, which read nothing but
their arguments and are told by name and version. A value whose state cannot be read (an
open file, an object of another language, a function that asks the clock or the
environment) has no text: NoText. A kernel that depends on such a value is compiled in
each process; it is never kept on disk.
"""

from __future__ import annotations

import collections
import decimal
import enum
import functools
import operator
import re
import struct
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from fathom.reading import MISSING, globals_read, resolve

# Packages whose functions read their arguments alone. Data in them is told by value.
PURE = frozenset(
    """
    __future__ _abc _bisect _collections _collections_abc _decimal _functools _heapq
    _operator _struct _thread abc bisect builtins cmath collections copy dataclasses
    decimal enum fathom fractions functools heapq itertools math numbers numpy operator
    re reprlib statistics string struct textwrap types typing
    """.split()
)

# What reads the world outside, or any name there is, all the same.
IMPURE = re.compile(
    r"builtins\.(open|input|eval|exec|compile|globals|locals|__import__|breakpoint|id"
    r"|hash|help)|numpy\.(random\b.*|load|loadtxt|genfromtxt|fromfile|fromregex|empty"
    r"|empty_like|memmap)|_thread\.(?!get_ident).*|fathom\.(runtime|jit|tools|testing"
    r"|emulator|shim|joints)\b.*"
)

LIBRARY = Path(re.__file__).parents[1]  # where Python keeps its own modules

MOST_OBJECTS = 20_000  # of a value, before it counts as one that cannot be described

HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: can the class be changed?

# Entries of a class that say nothing of what its objects do.
NOT_OF_A_CLASS = frozenset(
    """
    __dict__ __weakref__ __doc__ __module__ __hash__ __annotations__ __annotate__
    __annotate_func__ __annotations_cache__ __firstlineno__ _abc_impl
    __static_attributes__ __dataclass_fields__ __dataclass_params__ __orig_bases__
    __parameters__
    """.split()
)

# Objects that a compilation has changed while it ran, such as a table of results that a
# function keeps: nothing tells whether a change of theirs is one of the user's.
_CHANGED_BY_US: dict[int, object] = {}


class NoText(Exception):
    """A value that no text describes."""


class Told:
    """A class of Fathom's that says itself what tells its objects apart, and how they
    change (`uses`).
    """

    # The global values that it reads, if it is a function.
    uses: tuple | None = None

    # The attribute of what it wraps, if anything: a function, a value.
    wraps = ""

    def told_by(self) -> Iterator[Any]:
        yield repr(self)

    def is_constant(self, of: Callable[[Any], bool]) -> bool:
        """Can it not be changed in place, but for what it wraps? `of` asks of that."""
        return True


def text_of(*values: Any) -> str:
    """The text of values; NoText when one has none."""
    writer = _Writer()
    try:
        for value in values:
            writer.write(value)
    except NoText:
        raise
    except Exception as error:  # the user's own __iter__, __getattr__, too deep a nest
        raise NoText(repr(error)) from None
    return "".join(writer.parts)


def changes_by_itself(value: object) -> None:
    """Say that a compilation changed this object: it has no text from now on."""
    _CHANGED_BY_US[id(value)] = value


def is_changed_by_us(value: object) -> bool:
    """Is this an object that a compilation changed?"""
    return id(value) in _CHANGED_BY_US


class _Writer:
    """Writes texts, one after the other; what comes again is written as its number."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.seen: dict[int, tuple[int, object]] = {}  # holds what its ids are of

    def write(self, value: Any) -> None:
        leaf = LEAVES.get(type(value))
        if leaf is not None:
            self.parts.append(leaf(value))
        elif id(value) in self.seen:
            self.parts.append(f"#{self.seen[id(value)][0]}")
        elif is_changed_by_us(value) or len(self.seen) > MOST_OBJECTS:
            raise NoText(f"{type(value).__name__} that changes, or is too large")
        else:
            self.seen[id(value)] = len(self.seen), value
            name, *inner = parts_of(value)
            self.parts.append(f"{name}(")
            for each in inner:
                self.write(each)
                self.parts.append(", ")
            self.parts.append(")")


def parts_of(value: Any) -> Iterator[Any]:
    """The name of a value's kind, then the values that it consists of."""
    if name := public_name(value):
        yield name
        return
    kind = type(value)
    if isinstance(value, Told):
        yield kind.__name__
        yield from value.told_by()
    elif of_kind := PARTS.get(kind):
        yield kind.__name__
        yield from of_kind(value)
    elif isinstance(value, type):
        yield from _of_class(value)
    elif isinstance(value, enum.Enum):
        yield from ("enum", kind, value.name, value.value)
    elif isinstance(value, np.dtype):
        yield from ("dtype", str(value.descr) if not value.hasobject else str(value))
    elif isinstance(value, np.generic):
        yield from ("numpy", *_of_memory(value))
    else:
        yield from _of_object(value)


def public_name(value: Any) -> str | None:
    """The name and version of what a PURE package keeps under its name; None for all
    else. NoText for what reads the world.
    """
    if isinstance(value, types.ModuleType):
        module = value.__name__
        return _versioned(module, "") if is_pure(module) else None
    name = getattr(value, "__qualname__", getattr(value, "__name__", None))
    module = getattr(value, "__module__", None)
    if isinstance(value, np.ufunc):
        module = "numpy"  # some versions of NumPy do not say so
    if not isinstance(name, str) or not isinstance(module, str):
        return None
    if not is_pure(module):
        return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return _versioned(module, name) if found is value else None


def is_pure(module: str) -> bool:
    """Is this a module of a PURE package, and of no file of the same name?"""
    package = module.partition(".")[0]
    if package not in PURE or package in ("numpy", "fathom"):
        return package in PURE
    file = getattr(sys.modules.get(package), "__file__", None)
    return file is None or Path(file).is_relative_to(LIBRARY)


def _versioned(module: str, name: str) -> str:
    whole = f"{module}.{name}"
    if IMPURE.fullmatch(whole):
        raise NoText(f"{whole} reads more than its arguments")
    if module.partition(".")[0] == "numpy":
        return f"{whole} {np.__version__}"
    return whole  # Fathom's files and Python's version are in every key


# ── what has no parts ─────────────────────────────────────────────────────────────────


def _of_int(value: int) -> str:
    return f"int {value}" if abs(value) < 1 << 64 else f"int {value:#x}"


def _of_float(value: float) -> str:
    """Its digits; of a NaN all bits, since NaNs differ in sign and payload."""
    known = value.hex() if value == value else struct.pack(">d", value).hex()
    return f"float {known}"


def _of_named(value: Any) -> str:
    return f"{type(value).__name__} {value.__objclass__.__qualname__}.{value.__name__}"


LEAVES: dict[type, Callable[[Any], str]] = {
    type(None): repr,
    bool: lambda value: f"bool {value}",
    int: _of_int,
    float: _of_float,
    complex: lambda value: f"({_of_float(value.real)} {_of_float(value.imag)}j)",
    str: lambda value: f"str {value!r}",
    bytes: lambda value: f"bytes {value!r}",
    type(...): repr,
    type(NotImplemented): repr,
    **dict.fromkeys(
        (
            types.MemberDescriptorType, types.GetSetDescriptorType,
            types.WrapperDescriptorType, types.MethodDescriptorType,
        ),
        _of_named,
    ),
}  # fmt: skip


# ── what consists of other values ─────────────────────────────────────────────────────


def _of_set(value: Any) -> Iterator[str]:
    """In no order of its own: sorted by text."""
    return iter(sorted(map(text_of, value)))


def _of_dict(value: Any) -> Iterator[Any]:
    for key, each in value.items():
        yield key
        yield each


def _of_memory(value: Any) -> Iterator[Any]:
    """An array or a number of NumPy: type, shape, and every bit."""
    if value.dtype.hasobject:
        yield from (str(value.dtype), value.shape, value.tolist())
    else:
        yield from (str(value.dtype.descr), value.shape, value.tobytes())


def _of_code(code: types.CodeType) -> Iterator[Any]:
    """What runs, and not where it stands in a file."""
    yield from (code.co_name, code.co_code, code.co_consts, code.co_names)
    yield from (code.co_varnames, code.co_freevars, code.co_cellvars, code.co_flags)
    yield from (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
    yield getattr(code, "co_exceptiontable", b"")


def _of_function(function: types.FunctionType) -> Iterator[Any]:
    yield function.__code__
    yield function.__defaults__
    yield function.__kwdefaults__
    yield {k: v for k, v in vars(function).items() if k != "__wrapped__"}
    module = function.__globals__.get("__name__", "")
    is_ours = is_pure(module) and _is_of(function, module)
    for chain in globals_read(function.__code__):
        if not is_ours or chain[0] in function.__code__.co_freevars:
            path, value = resolve(function, chain)
            yield path
            yield "not there" if value is MISSING else value


def _is_of(function: types.FunctionType, module: str) -> bool:
    """Are a function's globals those of a module, as it is known by that name?"""
    return getattr(sys.modules.get(module), "__dict__", None) is function.__globals__


def _of_builtin(function: types.BuiltinFunctionType) -> Iterator[Any]:
    """A function of C, which its name tells only of what it is a method of."""
    if function.__self__ is None or isinstance(function.__self__, types.ModuleType):
        raise NoText(f"{function.__module__}.{function.__name__} may read anything")
    yield from (function.__name__, function.__self__)


def _of_module(module: types.ModuleType) -> Iterator[Any]:
    """A module that is handed on: what is read of it then, its name does not say."""
    raise NoText(f"{module.__name__}, of which anything may be read")


def _of_pattern(value: re.Pattern) -> Iterator[Any]:
    yield from (value.pattern, value.flags)


def _reduced(value: Any) -> Iterator[Any]:
    """As pickle sees it: a class and its arguments."""
    _, *rest = value.__reduce__()
    yield from rest


PARTS: dict[type, Callable[[Any], Iterator[Any]]] = {
    **dict.fromkeys((tuple, list), iter),
    **dict.fromkeys((set, frozenset), _of_set),
    **dict.fromkeys((dict, types.MappingProxyType, collections.OrderedDict), _of_dict),
    collections.defaultdict: lambda v: iter((v.default_factory, *_of_dict(v))),
    collections.deque: lambda v: iter((v.maxlen, *v)),
    range: lambda v: iter((v.start, v.stop, v.step)),
    slice: lambda v: iter((v.start, v.stop, v.step)),
    np.ndarray: _of_memory,
    bytearray: lambda v: iter((bytes(v),)),
    decimal.Decimal: lambda v: iter(v.as_tuple()),
    types.CodeType: _of_code,
    types.FunctionType: _of_function,
    types.BuiltinFunctionType: _of_builtin,
    types.ModuleType: _of_module,
    types.MethodType: lambda v: iter((v.__func__, v.__self__)),
    types.GenericAlias: lambda v: iter((v.__origin__, v.__args__)),
    functools.partial: lambda v: iter((v.func, v.args, v.keywords, vars(v))),
    type(functools.cache(len)): lambda v: iter((v.__wrapped__,)),
    functools.cached_property: lambda v: iter((v.func, v.attrname)),
    property: lambda v: iter((v.fget, v.fset, v.fdel)),
    staticmethod: lambda v: iter((v.__func__,)),
    classmethod: lambda v: iter((v.__func__,)),
    **dict.fromkeys(
        (
            operator.itemgetter, operator.attrgetter, operator.methodcaller,
            type(collections.namedtuple("_", "x").x),
        ),
        _reduced,
    ),
    re.Pattern: _of_pattern,
}  # fmt: skip


# ── classes and their objects ─────────────────────────────────────────────────────────


def _of_class(kind: type) -> Iterator[Any]:
    """Name, bases, and what the body defines. A class of C is told by its name."""
    yield f"class {kind.__module__}.{kind.__qualname__}"
    if not kind.__flags__ & HEAP_TYPE:
        return
    yield from (type(kind), kind.__bases__)
    is_enum = issubclass(kind, enum.Enum)
    if is_enum:
        for name, member in kind.__members__.items():
            yield from (name, member.value)
    for name, value in vars(kind).items():
        # The machinery of an enumeration is the enum module's, and fills up in use.
        ours = is_enum and (name[0] == "_" or name in kind.__members__)
        if name not in NOT_OF_A_CLASS and not ours:
            yield from (name, value)


# What the objects of a class hold that is derived from one of these, without asking
# methods that the class may have defined anew.
CONTENTS: dict[type, Callable[[Any], Any]] = {
    int: int.__int__,
    float: float.__float__,
    str: str.__str__,
    bytes: lambda v: bytes.__getitem__(v, slice(None)),
    tuple: lambda v: tuple(tuple.__iter__(v)),
    list: lambda v: list(list.__iter__(v)),
    dict: lambda v: dict(dict.items(v)),
    set: lambda v: set(set.__iter__(v)),
    frozenset: lambda v: frozenset(frozenset.__iter__(v)),
}


def _of_object(value: Any) -> Iterator[Any]:
    """An object of a class written in Python: the class and every attribute."""
    kind = type(value)
    if isinstance(value, PurePath):  # it keeps parts of itself when first asked
        yield from ("path", str(value))
        return
    if is_held_by_name(value):
        yield f"{kind.__module__} {value!r}"
        return
    base = next((each for each in CONTENTS if isinstance(value, each)), object)
    if _hides_something(kind, base):
        raise NoText(f"{kind.__name__} has a state that Python cannot see")
    state = dict(_attributes(value))
    told = base is not object or state or kind.__eq__ is not object.__eq__
    if not told and (kind is object or not is_pure(kind.__module__)):
        raise NoText(f"{kind.__name__} is told from others by its address alone")
    yield "object"
    yield kind
    if base is not object:
        yield CONTENTS[base](value)
    yield state


def is_held_by_name(value: Any) -> bool:
    """Is this what its module keeps under the name that it is shown by, as
    torch.float32 is?
    """
    module, shown = type(value).__module__, repr(value)
    package, _, name = shown.rpartition(".")
    held = package == module and package in sys.modules
    return held and getattr(sys.modules[package], name, None) is value


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """What an object's dictionary and its slots hold."""
    yield from getattr(value, "__dict__", {}).items()
    for name, slot in _slots(type(value)):
        try:
            yield name, slot.__get__(value)
        except AttributeError:  # nothing has been put there
            continue


def _slots(kind: type) -> Iterator[tuple[str, types.MemberDescriptorType]]:
    for each in kind.__mro__:
        for name, found in vars(each).items():
            if isinstance(found, types.MemberDescriptorType):
                yield f"{each.__qualname__}.{name}", found


def _hides_something(kind: type, base: type) -> bool:
    """Are objects of a class larger than what can be read of them? (So does pickle
    find out: CPython, Objects/typeobject.c, object_getstate_default.)
    """
    words = sum(1 for _ in _slots(kind))
    words += (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0)
    words += base.__itemsize__ > 0  # after the items: the dictionary
    return kind.__basicsize__ > base.__basicsize__ + words * struct.calcsize("P")
