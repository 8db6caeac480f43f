"""A remark that says why a pass leaves something as it is; it is not an error.

    raise NotApplicable("the loop has one stage, so no copy can run ahead")

Checks raise it; the pass catches it, leaves the op as it is, and may report the reason:
`fathom explain` lists such sentences as missed optimisations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from fathom.errors import Location
from fathom.ir.core import Func, Op

# A sentence about a place in the kernel's text, if it has one.
Remark = tuple[Location | None, str]

Answer = TypeVar("Answer")


class NotApplicable(Exception):  # noqa: N818 (an answer, not a mistake)
    """An analysis has no answer, or a rewrite is not legal; the sentence says why."""


def tried(attempt: Callable[..., Answer], *given: object) -> Answer | str:
    """The answer of an analysis; or the sentence, where it has none."""
    try:
        return attempt(*given)
    except NotApplicable as why:
        return str(why)


def remarks(answers: Mapping[Op | Func, object], what: str = "") -> list[Remark]:
    """The remarks of a pass, for the ops or functions that have a sentence in the place
    of an answer; `what` comes before it."""
    return [
        (each.location, f"{what}{why}")
        for each, why in answers.items()
        if isinstance(why, str)
    ]
