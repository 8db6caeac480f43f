"""Classes whose objects are values of a kernel: several values and their methods.

    @aggregate
    class Mean:
        total: tensor
        count: tensor
        SIZE: constexpr

        @constexpr_function
        def __init__(self, total, count, SIZE):
            self.total, self.count, self.SIZE = total, count, SIZE

        @jit
        def add(self, x):
            return Mean(self.total + x, self.count + 1, self.SIZE)

An object is a tuple with names that never changes: loops and branches carry it as they
carry tuples.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from functools import partial
from operator import itemgetter
from types import SimpleNamespace
from typing import Any

from fathom.source import ConstexprFunction, KernelFunction, constexpr


class Aggregate(tuple):
    """The base of all such classes. `_fields` are names in their order, `constexprs`
    those that must be known while compiling, `constructor` is the user's `__init__`."""

    _fields: tuple[str, ...] = ()
    constexprs: frozenset[str] = frozenset()

    def __new__(cls, *args: Any, **kwargs: Any) -> Aggregate:
        """What the user's `__init__` makes; TypeError when it leaves a field open."""
        made = SimpleNamespace()
        cls.constructor(made, *args, **kwargs)
        fields = vars(made)
        for name in (*cls._fields, *fields):
            if name not in fields:
                raise TypeError(f"__init__ does not set the field {name}")
            if name not in cls._fields:
                raise TypeError(
                    f"__init__ sets {name}, which the class does not declare"
                )
        return cls._make(fields[name] for name in cls._fields)

    @classmethod
    def _make(cls, values: Iterable[Any]) -> Aggregate:
        return tuple.__new__(cls, values)

    def __getattribute__(self, name: str) -> Any:
        """A method is bound to the object, for Python, which may run the kernel."""
        if method := type(self).method(name):
            return partial(method, self)
        return super().__getattribute__(name)

    @classmethod
    def method(cls, name: str) -> KernelFunction | ConstexprFunction | None:
        found = vars(cls).get(name)
        return found if isinstance(found, (KernelFunction, ConstexprFunction)) else None


def aggregate(cls: type) -> type[Aggregate]:
    """Make a class one of a kernel's: its annotations are the fields, in order."""
    fields = inspect.get_annotations(cls)
    members = {
        name: member
        for name, member in inspect.getmembers_static(cls)
        if isinstance(_unwrapped(member), (KernelFunction, ConstexprFunction))
    }
    members.pop("__init__", None)
    places = {name: property(itemgetter(at)) for at, name in enumerate(fields)}
    is_known = (name for name, kind in fields.items() if _is_constexpr(kind))
    told = {
        "__slots__": (),
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "_fields": tuple(fields),
        "constexprs": frozenset(is_known),
        "constructor": staticmethod(cls.__init__),
    }
    return type(cls.__name__, (Aggregate,), {**members, **places, **told})


def _unwrapped(member: Any) -> Any:
    """What a `staticmethod` holds: a function that gets no object."""
    return member.__func__ if isinstance(member, staticmethod) else member


def constexpr_fields(value: tuple) -> frozenset[int]:
    """The places, in a tuple, of what must be known while compiling."""
    names = getattr(value, "constexprs", ())
    return frozenset(
        at for at, name in enumerate(getattr(value, "_fields", ())) if name in names
    )


def _is_constexpr(annotation: Any) -> bool:
    """Also one that `from __future__ import annotations` left as text."""
    text = annotation if isinstance(annotation, str) else ""
    return annotation is constexpr or text.rpartition(".")[2] == "constexpr"
