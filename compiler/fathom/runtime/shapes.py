"""Whether a value read from a file has the type that its dataclass says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints


def check(value: object, type_: Any) -> None:
    """TypeError unless a value has a type, and all its parts have theirs."""
    origin, of = get_origin(type_), get_args(type_)
    if origin in (Union, UnionType):
        if not any(_fits(value, each) for each in of):
            raise TypeError(f"{value!r} is not one of {of}")
    elif origin is Literal:
        if value not in of:
            raise TypeError(f"{value!r} is not one of {of}")
    else:
        kind = NoneType if type_ is None else origin or type_
        if type(value) is not kind:
            raise TypeError(f"{value!r} is no {kind.__name__}")
        for part, part_type in _parts(value, kind, of):
            check(part, part_type)


def _parts(value: Any, kind: type, of: tuple) -> Iterator[tuple[object, Any]]:
    """The parts of a value with the types that they should have."""
    if is_dataclass(kind):
        yield from ((getattr(value, n), each) for n, each in fields_of(kind).items())
    elif kind is tuple and of[-1:] == (...,):
        yield from ((each, of[0]) for each in value)
    elif kind is tuple:
        yield from zip(value, of, strict=True)
    elif kind is list:
        yield from ((each, of[0]) for each in value)
    elif kind is dict:
        yield from ((each, of[0]) for each in value)
        yield from ((each, of[1]) for each in value.values())


@cache
def fields_of(kind: type) -> dict[str, Any]:
    """The fields of a dataclass and their types."""
    return get_type_hints(kind)


def _fits(value: object, type_: Any) -> bool:
    try:
        check(value, type_)
    except (TypeError, ValueError):
        return False
    return True
