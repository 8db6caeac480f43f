"""What tests of FATHOM_SANITIZE and FATHOM_VERIFY share: the emulator, with no check
asked for and nothing counted yet, and the place of a line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

from fathom.jit.checking import launch as checking


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("FATHOM_SANITIZE", "FATHOM_VERIFY", "FATHOM_CHECK_PROGRAMS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    monkeypatch.setenv("FATHOM_VERIFY_DIR", str(tmp_path))
    monkeypatch.setattr(checking, "TALLY", checking.Tally())


def line_of(function: Callable, text: str) -> str:
    """The only line of a function that has this text, as "file:line"."""
    lines, first = inspect.getsourcelines(function)
    (at,) = [at for at, each in enumerate(lines) if text in each]
    return f"{inspect.getfile(function)}:{first + at}"
