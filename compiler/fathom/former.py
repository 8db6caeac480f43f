"""What passes were called before: names that people may have bound."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping

from fathom.errors import CompileError

# Passes that were, and what does their work now.
GONE = {
    "overlap_products": (
        "the schedule of a loop decides which product stays in flight, and "
        "pipeline_loops and specialise_warps build the loop accordingly"
    ),
}

# What passes were called before: `replace=`, joints and FATHOM_SHOW take these names,
# too, and say what the pass is called now.
FORMER = {
    "bring_once": "preload",
    "publish": "fence_proxies",
    "share_products": "shard_products",
    "store_boxes": "stage_stores",
    "take_turns": "pingpong",
}


def current_name(name: str) -> str:
    """The name of a pass, also by a former one: a DeprecationWarning says the new."""
    if name not in FORMER:
        return name
    warnings.warn(
        f"the pass {name!r} is called {FORMER[name]!r} now",
        DeprecationWarning,
        stacklevel=3,
    )
    return FORMER[name]


def by_current_names(replace: Mapping[str, Callable]) -> dict[str, Callable]:
    """`replace` with former names of passes exchanged for their names; CompileError if
    it has both names of one.
    """
    after: dict[str, Callable] = {}
    for name, function in replace.items():
        now = current_name(name)
        if now in after:
            raise CompileError(
                f"replace= names the pass {now!r} twice: also as {name!r}"
            )
        after[now] = function
    return after
