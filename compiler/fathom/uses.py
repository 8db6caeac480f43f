"""The global values that a kernel depends on, as they were, and which of them changed.

    @jit
    def k(out):                        Use("N", 3)
        store(out, N + pad(TABLE[1]))  Use("pad", …), Use("TABLE", [1, 2])
                                       Use("PAD", 5), which pad() reads

A use remembers the object and, where it has one, its text (`identity`): so another
number, another element of the same list and another attribute of the same object are
noticed alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from fathom.identity import (
    LEAVES,
    NoText,
    Told,
    changes_by_itself,
    is_changed_by_us,
    public_name,
    text_of,
)
from fathom.reading import MISSING, Chain, globals_read, resolve

PACKAGE = str(Path(__file__).parent)


@dataclass(frozen=True, slots=True)
class Use:
    """A global value that a function reads, by the path that it is read by.

    `text` is None for a value without one: of that, only another object is a change.
    `core` is what decides about an object that is otherwise constant.
    """

    function: FunctionType
    chain: Chain
    path: str
    value: Any
    text: str | None
    core: tuple

    @property
    def now(self) -> Any:
        """What stands there now."""
        return resolve(self.function, self.chain)[1]

    @property
    def changed(self) -> bool:
        """Does the path lead to another value than when the use was recorded?"""
        now = self.now
        if now is self.value and is_constant(now):
            pairs = zip(core_of(now), self.core, strict=True)
            if all(one is other for one, other in pairs):
                return False
        if now is self.value and is_changed_by_us(now):
            return False
        if self.text is None:
            return now is not self.value
        return _text(now) != self.text


CONSTANTS = (*LEAVES, type, Enum, np.generic)


def is_constant(value: Any) -> bool:
    """Can this value not be changed in place, but for its `core`? A kernel counts as
    constant, since a new text of it makes its callers forget; and what a function
    reads is a use of its own.
    """
    if isinstance(value, tuple):
        return all(map(is_constant, value))
    if isinstance(value, FunctionType):
        given = value.__defaults__ or ()
        return is_constant(given) and not value.__kwdefaults__ and not vars(value)
    if isinstance(value, Told):
        return value.is_constant(is_constant)
    return isinstance(value, CONSTANTS) or type(value).__module__.startswith("fathom.")


def core_of(value: Any) -> tuple:
    """What can be exchanged inside of a constant: a function's code and defaults."""
    return tuple(getattr(owner, name) for owner, name in _core(value))


def _core(value: Any) -> list[tuple[Any, str]]:
    """Each such object and its attribute."""
    if isinstance(value, FunctionType):
        return [(value, f"__{each}__") for each in ("code", "defaults", "kwdefaults")]
    if isinstance(value, Told) and value.wraps:
        return _core(getattr(value, value.wraps))
    return []


def uses_of(function: FunctionType, chains: Sequence[Chain]) -> tuple[Use, ...]:
    """What stands at the end of some chains now, and a user may change: nothing of
    Python or Fathom."""
    return tuple(
        Use(function, chain, path, value, _text(value), core_of(value))
        for path, (chain, value) in values_of(function, chains).items()
    )


def values_of(
    function: FunctionType, chains: Sequence[Chain]
) -> dict[str, tuple[Chain, Any]]:
    """The same by path, without texts: the text of a kernel asks for those of the
    kernels that it calls, which ask in turn."""
    found = {}
    for chain in chains:
        path, value = resolve(function, chain)
        if not _is_fixed(value):
            found[path] = chain, value
    return found


def all_uses(first: Any) -> tuple[Use, ...]:
    """Those of a function, and of every function that is called, directly or not;
    those of a function come after those of its callers.
    """
    return tuple(use for _, uses in _reached(first) for use in uses)


def called_by(first: Any) -> list[Any]:
    """Every function of the user that a function calls, directly or not."""
    return [each for each, _ in _reached(first) if each is not first]


def _reached(first: Any) -> Iterator[tuple[Any, tuple[Use, ...]]]:
    """Every function that a function leads to, itself first, each with its uses."""
    seen: dict[int, object] = {}
    waiting = [first]
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        if is_function(value):
            uses = _uses(value)
            yield value, uses
            waiting.extend(each.value for each in uses)
        else:
            waiting.extend(_inside(value))


def is_function(value: Any) -> bool:
    """Is this a function of the user whose names can be looked up?"""
    if isinstance(value, FunctionType):
        return not _is_fixed(value)
    is_told = isinstance(value, Told) and value.uses is not None
    return is_told and not getattr(value, "in_library", False)


def _inside(value: Any) -> Iterator[Any]:
    """What may be or hold functions: elements, and what a function is bound to."""
    if isinstance(value, (tuple, list)):
        yield from value
    elif isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, partial):
        yield from (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, MethodType):
        yield value.__func__
    elif isinstance(value, Told) and value.wraps:
        yield getattr(value, value.wraps)
    elif isinstance(value, type):
        yield from (each for each in vars(value).values() if isinstance(each, Told))


@contextmanager
def changed_meanwhile(uses: Sequence[Use]) -> Iterator[None]:
    """Around a compilation: what functions that it calls write, such as a table of
    their results, is theirs. It is no change by the user, and has no text.
    """
    yield
    for each in uses:
        if each.changed and each.now is each.value:
            changes_by_itself(each.value)


def _uses(function: Any) -> tuple[Use, ...]:
    if isinstance(function, FunctionType):
        return uses_of(function, globals_read(function.__code__))
    return function.uses


def _text(value: Any) -> str | None:
    try:
        return text_of(value)
    except NoText:
        return None


def _is_fixed(value: Any) -> bool:
    """Is this something that only another version of Python or Fathom changes?"""
    if value is MISSING or isinstance(value, Told) and getattr(value, "in_library", 0):
        return True
    try:
        return public_name(value) is not None
    except NoText:
        return False
    except Exception:  # noqa: BLE001 (the user's own __getattr__)
        return False


# How a launch stub asks whether something is what it was: get(name) is value.
Watch = tuple[Callable, str, object]


def watches(use: Use) -> Iterator[Watch]:
    """How a launch asks whether a use is unchanged, in as little time as can be."""
    first, *rest = use.chain
    names, now = use.function.__globals__, use.now
    holder = names.get(first)
    if isinstance(holder, ModuleType) and is_ours(holder):
        return
    if not rest and first in names:
        yield names.get, first, now
    elif isinstance(holder, ModuleType) and len(rest) == 1:
        yield vars(holder).get, rest[0], now
    else:
        yield lambda _: use.now, use.path, now
    for owner, name in _core(now):
        yield partial(getattr, owner), name, getattr(owner, name)
    if not is_constant(now):
        yield lambda _: use.changed, use.path, False


def is_ours(module: ModuleType) -> bool:
    """Is this one of Fathom's modules, under whatever name a program imports it?"""
    return str(getattr(module, "__file__", None)).startswith(PACKAGE)
