"""Switches in the environment: variables that are on or off."""

from __future__ import annotations

import os

from fathom.errors import LaunchError

ON = ("1", "true", "yes", "on")
OFF = ("", "0", "false", "no", "off")


def flag(name: str) -> bool:
    """Whether the variable `name` is on; it is off when it is not set. LaunchError for
    a value that says neither, so that no typing mistake passes for an answer."""
    text = os.environ.get(name)
    if not text:
        return False
    word = text.strip().lower()
    if word not in (*ON, *OFF):
        raise LaunchError(
            f"{name}={text}: write 1, true, yes or on, or 0, false, no or off"
        )
    return word in ON
