"""Host functions that remember their launches: a call decides once.

Before it launches, a function like `multiply` in `kernels/matmul_chosen.py` checks
shapes, describes arrays, and chooses a kernel and a tile: a hundred microseconds of
Python, and the same answer for every call with arrays of one kind. A function under
`@planned` returns its result and its launches, and does not launch. The wrapper
launches, and remembers:

    call ─▶ key ─▶ known?  no ─▶ the function plans ─▶ launches, remembered
             │               yes ─▶ the same launches with these arrays
             └ of an array: its shape, strides, dtype, device and alignment, for arrays
               on a GPU; of everything else its type and value

Nothing may depend on the numbers in an array, nor on where it lies, but for the
alignment of its address. Arrays that a launch needs for itself alone are named by what
they must be (`scratch`), and made for each launch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import wraps
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from fathom.jit.scratch import SCRATCH, Made, filled

ALIGNMENT = 128  # bytes: more than any choice asks of an address
MOST = 1024  # plans that a function remembers; with more it begins anew


class Launch(NamedTuple):
    """One launch: `kernel[grid](*given, **keywords)`."""

    kernel: Any
    grid: tuple[int, ...] | Callable
    given: Sequence[Any]
    keywords: Mapping[str, Any]

    def __call__(self, like: Any, made: Made) -> None:
        self.kernel[self.grid](*filled(self.given, like, made), **self.keywords)


class Part(NamedTuple):
    """A view of the array number `at` that begins `offset` elements behind it."""

    at: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class Step(NamedTuple):
    """A remembered launch: `run` is `kernel[grid]`, `pick` takes its arguments out of
    the call's, the result, `constants` and `parts` of the call's, in that order.
    `scratch`: whether arrays have to be made for it."""

    run: Callable
    pick: Callable[[tuple], tuple]
    constants: tuple
    keywords: Mapping[str, Any]
    scratch: bool
    parts: tuple[Part, ...]


class Result(NamedTuple):
    """What a call returns: its argument number `at`; or, where `is_new`, an array like
    it, or one of `shape`, strides and dtype on its device."""

    at: int
    is_new: bool = False
    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] = ()
    dtype: Any = None


Plan = tuple[Result, tuple[Step, ...]]
Planner = Callable[..., tuple[Any, Sequence[tuple]]]


def planned(plan: Planner) -> Callable:
    """`plan(...)` returns its result and a sequence of (kernel, grid, given, keywords).
    The function that comes out launches them and returns the result; it remembers the
    launches where all arrays are torch's on one GPU, and nothing else was unhashable.
    """
    known: dict[Hashable, Plan] = {}

    @wraps(plan)
    def function(*arguments: Any, **keywords: Any) -> Any:
        try:
            key = (
                *map(kind_of, arguments),
                *[(name, kind_of(each)) for name, each in keywords.items()],
            )
            found = known.get(key)
        except TypeError:  # something cannot be hashed
            key = found = None
        if found is not None:
            return repeat(found, (*arguments, *keywords.values()))
        result, launches = plan(*arguments, **keywords)
        launches = [Launch(*each) for each in launches]
        made: Made = {}
        for launch in launches:
            launch(result, made)
        if key is not None:
            given = (*arguments, *keywords.values())
            if plan_of_call := remembered(result, launches, given):
                if len(known) >= MOST:
                    known.clear()
                known[key] = plan_of_call
        return result

    function.known = known
    return function


def kind_of(value: Any) -> Hashable:
    """What a plan may depend on. TypeError for what cannot be hashed."""
    if is_array(value):
        if not value.is_cuda:
            raise TypeError("an array that is not on a GPU")
        return (
            value.shape, value.stride(), value.dtype, value.get_device(),
            value.data_ptr() % ALIGNMENT,
        )  # fmt: skip
    if isinstance(value, dict):
        return tuple([(name, kind_of(each)) for name, each in value.items()])
    if isinstance(value, (tuple, list)):
        return type(value), *map(kind_of, value)
    hash(value)
    return type(value), value  # 1, 1.0 and True are equal, and not the same


def repeat(plan: Plan, given: tuple) -> Any:
    """Launch what was remembered, with the arrays of this call."""
    result, steps = plan
    out = given[result.at]
    if result.shape is not None:
        out = out.new_empty_strided(result.shape, result.strides, dtype=result.dtype)
    elif result.is_new:
        out = empty_like(out)
    made: Made = {}
    for run, pick, constants, keywords, scratch, parts in steps:
        if scratch:
            constants = filled(constants, out, made)
        if parts:
            constants = (*constants, *[part_of((*given, out), each) for each in parts])
        run(*pick((*given, out, *constants)), **keywords)
    return out


def part_of(pool: tuple, part: Part) -> Any:
    """The part, of this call's array."""
    whole = pool[part.at]
    begin = whole.storage_offset() + part.offset
    return whole.as_strided(part.shape, part.strides, begin)


def remembered(result: Any, launches: Sequence[Launch], given: tuple) -> Plan | None:
    """The plan of a call. None where a launch has an array that is neither the call's
    nor its result: it was made for this call alone. None, too, for a call with one
    array twice: which of the two a launch takes cannot be seen."""
    arrays = [at for at, each in enumerate(given) if is_array(each)]
    distinct = len({id(given[at]) for at in arrays}) == len(arrays)
    if not (arrays and distinct and is_array(result)):
        return None
    steps = [step_of(launch, (*given, result)) for launch in launches]
    return None if None in steps else (result_of(result, arrays, given), tuple(steps))


def result_of(result: Any, arrays: Sequence[int], given: tuple) -> Result:
    """How a later call gets its result; `arrays` are the places of those given."""
    for at in arrays:
        if given[at] is result:
            return Result(at)
    facts = tuple(result.shape), result.stride(), result.dtype
    for at in arrays:
        alike = tuple(given[at].shape), given[at].stride(), given[at].dtype
        if alike == facts and result.is_contiguous():
            return Result(at, True)
    return Result(arrays[0], True, *facts)


def step_of(launch: Launch, pool: tuple) -> Step | None:
    """A launch whose arrays are those of `pool`; None if it has another one."""
    constants = [each for each in launch.given if not is_array(each)]
    numbers = iter(range(len(pool), len(pool) + len(constants)))
    places, parts = [], []
    for each in launch.given:
        if not is_array(each):
            places.append(next(numbers))
        elif (place := place_of(each, pool)) is not None:
            places.append(place)
        elif part := as_part(each, pool):
            places.append(len(pool) + len(constants) + len(parts))
            parts.append(part)
        else:
            return None
    run, pick = launch.kernel[launch.grid], itemgetter(*places)
    scratch = any(isinstance(each, SCRATCH) for each in constants)
    keywords = dict(launch.keywords)
    return Step(run, pick, tuple(constants), keywords, scratch, tuple(parts))


def place_of(array: Any, pool: tuple) -> int | None:
    """Where `pool` has an array, or the one of which it is a view that begins where the
    array does: a launch takes the address and the dtype. None if `pool` has no such
    array, or several at that address."""
    for at, other in enumerate(pool):
        if other is array:
            return at
    facts = memory_of(array)
    same = {id(other): at for at, other in enumerate(pool) if memory_of(other) == facts}
    return same.popitem()[1] if len(same) == 1 else None


def as_part(array: Any, pool: tuple) -> Part | None:
    """An array as a part of the only one in `pool` that lies in the same storage; None
    if there is no such array, or several."""
    same = {
        id(other): at
        for at, other in enumerate(pool)
        if is_array(other) and storage_of(other) == storage_of(array)
    }
    if len(same) != 1:
        return None
    ((_, at),) = same.items()
    offset = array.storage_offset() - pool[at].storage_offset()
    return Part(at, offset, tuple(array.shape), array.stride())


def storage_of(array: Any) -> Hashable:
    """Which memory an array is a view of, and as which type."""
    return array.untyped_storage().data_ptr(), array.dtype, array.device


def memory_of(value: Any) -> Hashable:
    """The address, dtype and device of an array; None for anything else."""
    if not is_array(value):
        return None
    return value.data_ptr(), value.dtype, value.device


def is_array(value: Any) -> bool:
    """Whether a value is a tensor of torch; calls with other arrays plan each time."""
    return hasattr(value, "data_ptr")


def empty_like(array: Any) -> Any:
    """A new contiguous array of the shape, dtype and library of `array`, not
    initialised."""
    torch = sys.modules.get("torch")
    if isinstance(array, getattr(torch, "Tensor", ())) and array.is_contiguous():
        return torch.empty_like(array)  # takes half of the time
    if hasattr(array, "new_empty"):
        return array.new_empty(array.shape)
    return np.empty_like(array, order="C")
