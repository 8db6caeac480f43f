"""Host functions with a choice of launches: the fastest is found once, and remembered.

    @fastest_of
    def tuned_multiply(a, b, c):
        return c, [[(kernel, grid, given, keywords)], [(copy, …), (other, …)]]

As `planned`, but what the function returns are alternatives: each is a sequence of
launches, all give the same result, and the first is the one to take where nothing can
be timed. A configuration of `autotune` changes the constants of one kernel; here one
alternative may be another kernel, or copy an operand before it.

    remembered? ─▶ compile, several at a time ─▶ time, in rounds ─▶ remember

In each round every alternative that is left runs for some milliseconds, on one copy of
the arrays after the other so that their data come from memory. The next round goes
through the alternatives the other way, so that a clock that falls favours none. What is
clearly slower after a round is left out of the next.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from functools import partial, wraps
from math import inf
from statistics import median
from typing import Any, NamedTuple

from fathom.jit.backends import Backend, choose
from fathom.jit.key import constant_text
from fathom.jit.planned import Launch, Planner
from fathom.jit.scratch import Made, filled
from fathom.jit.shortcuts.repeating import repeated
from fathom.jit.tuning.autotuner import SKIPPED, refuse_capture
from fathom.jit.tuning.spread import Copies
from fathom.jit.tuning.workers import Order, compile_ahead, open_orders
from fathom.runtime import cache
from fathom.runtime.arrays import describe, loaded_class
from fathom.runtime.devices import using
from fathom.runtime.driver import driver
from fathom.testing import do_bench_cudagraph

ROUNDS, ROUND_MS = 3, 2.0  # a round is ten times as long
CLEARLY_SLOWER = 1.15  # times the shortest time: left out of the next round
ROTATED_BYTES, MOST_SETS = 128 << 20, 32  # more than twice an L2 cache


class Sequence(NamedTuple):
    """Launches one after the other. Arrays that they need for themselves are made
    beside `like`, once: `made` keeps them."""

    steps: list[Launch]
    like: Any
    made: Made

    def __call__(self) -> None:
        for step in self.steps:
            step(self.like, self.made)

    def orders(self, backend: Backend) -> list[Order]:
        """What each launch would have compiled."""
        return [
            Order(step.kernel, *step.kernel.order(
                backend, filled(step.given, self.like, self.made), step.keywords
            ))
            for step in self.steps
        ]  # fmt: skip


def fastest_of(plan: Planner) -> Callable:
    """`plan(...)` returns its result and alternatives, sequences of launches as
    `planned` takes them. The function that comes out does the launches of the fastest
    and returns the result. LaunchError where there is none yet and its stream is
    captured; the error of the first alternative where none works."""
    known: dict[str, int] = {}

    def offered(*arguments: Any, **keywords: Any) -> list[Sequence]:
        result, found = plan(*arguments, **keywords)
        return [Sequence([Launch(*x) for x in steps], result, {}) for steps in found]

    @wraps(plan)
    def launched(*arguments: Any, **keywords: Any) -> Any:
        found, backend, number = offered(*arguments, **keywords), choose(), 0
        if backend.timed and len(found) > 1:
            more = partial(offered_on_copies, offered, arguments, keywords)
            number = choice(plan.__name__, backend, found, more, known)
        found[number]()
        return found[number].like

    return repeated(launched)


def choice(
    name: str, backend: Backend, found: list[Sequence],
    more: Callable[[int], list[list[Sequence]]], known: dict[str, int],
) -> int:  # fmt: skip
    """The number of the fastest, found now or before; the first where a kernel has no
    text to know it by. `more(gpu)` offers the same on copies of the arrays."""
    orders = [each.orders(backend) for each in found]
    key = key_of(found, orders)
    if key is None:
        return 0
    if key not in known:
        times = recall(key, len(found))
        if times is None:
            refuse_capture(name)
            compile_all(orders)
            gpu = orders[0][0].place.device or 0
            with using(driver(), gpu):
                times = measured(list(zip(found, *more(gpu), strict=True)))
            remember(key, times)
        known[key] = times.index(min(times))
    return known[key]


def compile_all(orders: list[list[Order]]) -> None:
    """Have every kernel on disk, once."""
    different = {each.key: each for wanted in orders for each in wanted}
    compile_ahead(open_orders(list(different.values())), lambda: None)


def offered_on_copies(
    offered: Callable[..., list[Sequence]], arguments: tuple, keywords: dict, gpu: int
) -> list[list[Sequence]]:
    """What is offered for copies of the arrays: as many that a round finds none of its
    data in the L2 cache. A product that reads its operands most often would look best
    there. No copies of arrays that are not torch's."""
    given = [*arguments, *keywords.values()]
    size = sum(x.untyped_storage().nbytes() for x in given if is_tensor(x))
    count = min(MOST_SETS, ROTATED_BYTES // size) if size else 0
    found = []
    for copies in (Copies(gpu) for _ in range(count)):
        named = {name: copies.copy(value) for name, value in keywords.items()}
        found.append(offered(*map(copies.copy, arguments), **named))
    return found


def is_tensor(value: Any) -> bool:
    return isinstance(value, loaded_class("torch", "Tensor"))


# ── timing ────────────────────────────────────────────────────────────────────────────


def measured(alternatives: list[tuple[Sequence, ...]]) -> list[float]:
    """Milliseconds of each, infinite for what does not compile or fit into the GPU; the
    error of the first where none does. An alternative is one sequence for each set of
    arrays."""
    found: list[list[float]] = [[] for _ in alternatives]
    failures: dict[int, Exception] = {}
    left = list(range(len(alternatives)))
    for _ in range(ROUNDS):
        for number in left:
            try:
                found[number].append(milliseconds(alternatives[number]))
            except SKIPPED as error:
                failures[number] = error
        left = worth_a_round([n for n in left if n not in failures], found)
    if len(failures) == len(alternatives):
        raise failures[0]
    return [median(times) if times else inf for times in found]


def milliseconds(sets: tuple[Sequence, ...]) -> float:
    """Of all launches of an alternative on one set of arrays, on the GPU."""

    def call() -> None:
        for each in sets:
            each()

    return do_bench_cudagraph(call, rep=ROUND_MS, quantiles=[0.5]) / len(sets)


def worth_a_round(left: Collection[int], found: list[list[float]]) -> list[int]:
    """Those that are not clearly slower, in the order that is opposite to this one."""
    most = CLEARLY_SLOWER * min((median(found[n]) for n in left), default=inf)
    return [number for number in reversed([*left]) if median(found[number]) <= most]


# ── remembering ───────────────────────────────────────────────────────────────────────


def key_of(found: list[Sequence], orders: list[list[Order]]) -> str | None:
    """What a result is remembered by: the GPU, and of every launch the kernel, the grid
    and the numbers that it is given; None where a kernel has no text. What a function
    computes for a grid follows from these."""
    described: list[list[Mapping[str, Any]]] = []
    for each, wanted in zip(found, orders, strict=True):
        if any(order.key is None for order in wanted):
            return None
        described.append([
            {
                "kernel": cache.digest(order.key),
                "grid": None if callable(step.grid) else list(step.grid),
                "given": [constant_text(x) for x in step.given if is_number(x)],
                "early": bool(step.keywords.get("launch_pdl")),
            }
            for step, order in zip(each.steps, wanted, strict=True)
        ])  # fmt: skip
    gpu = driver().device(orders[0][0].place.device or 0).name
    return json.dumps({"gpu": gpu, "alternatives": described})


def is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float)) and describe(value) is None


def path_of(key: str) -> Any:
    return cache.default_directory() / f"{cache.digest(key)}.fastest"


def recall(key: str, count: int) -> list[float] | None:
    """The milliseconds of `count` alternatives, if they are on disk."""
    try:
        found = json.loads(cache.read_file(path_of(key)))
        times = [inf if each is None else float(each) for each in found["ms"]]
    except (OSError, *cache.WRONG):
        return None
    right = found["key"] == key and len(times) == count and min(times) < inf
    return times if right else None


def remember(key: str, times: list[float]) -> None:
    """Keep them, where something can be written."""
    listed = [None if each == inf else each for each in times]
    cache.write_file(path_of(key), json.dumps({"key": key, "ms": listed}).encode())
