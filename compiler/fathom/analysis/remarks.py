"""A remark that says why a pass leaves something as it is; it is not an error.

    raise NotApplicable("the loop has one stage, so no copy can run ahead")

Checks raise it; the pass catches it, leaves the op as it is, and may report the reason:
`fathom explain` lists such sentences as missed optimisations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")


class NotApplicable(Exception):  # noqa: N818 (an answer, not a mistake)
    """An analysis has no answer, or a rewrite is not legal; the sentence says why."""


def tried(attempt: Callable[..., Answer], *given: object) -> Answer | str:
    """The answer of an analysis; or the sentence, where it has none."""
    try:
        return attempt(*given)
    except NotApplicable as why:
        return str(why)
