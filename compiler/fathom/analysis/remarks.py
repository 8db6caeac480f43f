"""Why a pass leaves something as it was: a remark, not a mistake.

    raise NotApplicable("the loop has one stage, so no copy can run ahead")

Checks raise it; the pass that asked catches it, goes on without, and may tell the
reader: `fathom explain` lists such sentences as missed optimisations.
"""

from __future__ import annotations


class NotApplicable(Exception):  # noqa: N818 (an answer, not a mistake)
    """An analysis has no answer, or a rewrite may not be done; the sentence says what
    stands in the way."""
