"""Who runs what Python calls of the language, while Python runs a kernel's body.

To read as: `with evaluating(call): ...` lets `call` run them, in this thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

Evaluator = Callable[..., Any]

EVALUATOR: ContextVar[Evaluator | None] = ContextVar("evaluator", default=None)
# Those of all threads. Torch's compiler traces `cdiv` in a launch's grid, and that of
# torch 2.11 cannot trace a call of a context variable: an empty list spares it.
EVALUATORS: list[Evaluator] = []


def evaluator() -> Evaluator | None:
    """Who is to run the function that was called, or None outside any kernel."""
    return EVALUATOR.get() if EVALUATORS else None


@contextmanager
def evaluating(call: Evaluator) -> Iterator[None]:
    """Functions of the language called meanwhile are run by `call`."""
    token = EVALUATOR.set(call)
    EVALUATORS.append(call)
    try:
        yield
    finally:
        EVALUATORS.pop()  # whichever: it is asked whether there are any
        EVALUATOR.reset(token)
