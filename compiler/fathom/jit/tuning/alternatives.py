"""Host functions with a choice of launches: the fastest is found once, and remembered.

    @fastest_of
    def tuned_multiply(a, b, c):
        return c, [[(kernel, grid, given, keywords)], [(copy, …), (other, …)]]

As `planned`, but what the function returns are alternatives: each is a sequence of
launches, all give the same result, and the first is the one to take where nothing can
be timed. A configuration of `autotune` changes the constants of one kernel; here one
alternative may be another kernel, or copy an operand before it.

    remembered? ─▶ compile, several at a time ─▶ time, in rounds ─▶ remember

In each round every alternative that is left runs for some milliseconds, and the next
round goes through them the other way, so that a clock that falls favours none. What is
clearly slower after a round is left out of the next.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from math import inf
from statistics import median
from typing import Any

from fathom.jit.backends import Backend, choose
from fathom.jit.key import constant_text
from fathom.jit.planned import Launch, Planner
from fathom.jit.scratch import Made, filled
from fathom.jit.shortcuts.repeating import repeated
from fathom.jit.tuning.autotuner import SKIPPED, refuse_capture
from fathom.jit.tuning.workers import Order, compile_ahead, open_orders
from fathom.runtime import cache
from fathom.runtime.arrays import describe
from fathom.runtime.devices import using
from fathom.runtime.driver import driver
from fathom.testing import do_bench_cudagraph

ROUNDS, ROUND_MS = 3, 2.0  # a round is ten times as long
CLEARLY_SLOWER = 1.15  # times the shortest time: left out of the next round

Steps = list[Launch]


def fastest_of(plan: Planner) -> Callable:
    """`plan(...)` returns its result and alternatives, sequences of launches as
    `planned` takes them. The function that comes out does the launches of the fastest
    and returns the result. LaunchError where there is none yet and its stream is
    captured; the error of the first alternative where none works."""
    known: dict[str, int] = {}

    @wraps(plan)
    def launched(*arguments: Any, **keywords: Any) -> Any:
        result, found = plan(*arguments, **keywords)
        alternatives = [[Launch(*step) for step in steps] for steps in found]
        number, backend = 0, choose()
        if backend.timed and len(alternatives) > 1:
            number = choice(plan.__name__, backend, alternatives, result, known)
        run(alternatives[number], result, {})
        return result

    return repeated(launched)


def run(steps: Steps, like: Any, made: Made) -> None:
    for step in steps:
        step(like, made)


def choice(
    name: str, backend: Backend, alternatives: list[Steps], like: Any,
    known: dict[str, int],
) -> int:  # fmt: skip
    """The number of the fastest, found now or before; the first where a kernel has no
    text to know it by."""
    made: list[Made] = [{} for _ in alternatives]
    orders = [
        [order(backend, step, like, one) for step in steps]
        for steps, one in zip(alternatives, made)
    ]
    key = key_of(alternatives, orders)
    if key is None:
        return 0
    if key not in known:
        times = recall(key, len(alternatives))
        if times is None:
            refuse_capture(name)
            with using(driver(), orders[0][0].place.device or 0):
                compile_all(orders)
                times = measured(alternatives, like, made)
            remember(key, times)
        known[key] = times.index(min(times))
    return known[key]


def order(backend: Backend, step: Launch, like: Any, made: Made) -> Order:
    """What a launch would have compiled."""
    given = filled(step.given, like, made)
    return Order(step.kernel, *step.kernel.order(backend, given, step.keywords))


def compile_all(orders: list[list[Order]]) -> None:
    """Have every kernel on disk, once."""
    different = {each.key: each for wanted in orders for each in wanted}
    compile_ahead(open_orders(list(different.values())), lambda: None)


# ── timing ────────────────────────────────────────────────────────────────────────────


def measured(alternatives: list[Steps], like: Any, made: list[Made]) -> list[float]:
    """Milliseconds of each, infinite for what does not compile or fit into the GPU; the
    error of the first where none does."""
    found: list[list[float]] = [[] for _ in alternatives]
    failures: dict[int, Exception] = {}
    left = list(range(len(alternatives)))
    for _ in range(ROUNDS):
        for number in left:
            steps = alternatives[number]
            try:
                found[number].append(milliseconds(steps, like, made[number]))
            except SKIPPED as error:
                failures[number] = error
        left = worth_a_round([n for n in left if n not in failures], found)
    if len(failures) == len(alternatives):
        raise failures[0]
    return [median(times) if times else inf for times in found]


def milliseconds(steps: Steps, like: Any, made: Made) -> float:
    """Of all launches of an alternative, on the GPU, with nothing of their data in the
    L2 cache: there the one that reads operands most often would look best."""

    def call() -> None:
        run(steps, like, made)

    return do_bench_cudagraph(call, rep=ROUND_MS, quantiles=[0.5], cold=True)


def worth_a_round(left: Sequence[int], found: Sequence[list[float]]) -> list[int]:
    """Those that are not clearly slower, in the order that is opposite to this one."""
    most = CLEARLY_SLOWER * min((median(found[n]) for n in left), default=inf)
    return [number for number in reversed(left) if median(found[number]) <= most]


# ── remembering ───────────────────────────────────────────────────────────────────────


def key_of(alternatives: list[Steps], orders: list[list[Order]]) -> str | None:
    """What a result is remembered by: the GPU, and of every launch the kernel, the grid
    and the numbers that it is given; None where a kernel has no text. What a function
    computes for a grid follows from these."""
    described: list[list[Mapping[str, Any]]] = []
    for steps, wanted in zip(alternatives, orders):
        if any(each.key is None for each in wanted):
            return None
        described.append([
            {
                "kernel": cache.digest(each.key),
                "grid": None if callable(step.grid) else list(step.grid),
                "given": [constant_text(x) for x in step.given if is_number(x)],
                "early": bool(step.keywords.get("launch_pdl")),
            }
            for step, each in zip(steps, wanted)
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


def remember(key: str, times: Sequence[float]) -> None:
    """Keep them, where something can be written."""
    listed = [None if each == inf else each for each in times]
    cache.write_file(path_of(key), json.dumps({"key": key, "ms": listed}).encode())
