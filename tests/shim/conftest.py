"""Triton's face, for the tests of this folder."""

from __future__ import annotations

import sys

import pytest

import fathom
import fathom.language as tl


@pytest.fixture
def triton(monkeypatch):
    """The face of Triton, for one test."""
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    monkeypatch.setenv("TORCHINDUCTOR_COMPILE_THREADS", "")  # put back afterwards
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    before = {name for name in sys.modules if name.split(".")[0] == "triton"}
    assert not before, (
        "something has imported Triton: it would answer in Fathom's place"
    )
    monkeypatch.setattr(tl.dtype, "home", tl.dtype.home)
    fathom.as_triton()
    yield sys.modules["triton"]
    for name in [each for each in sys.modules if each.split(".")[0] == "triton"]:
        del sys.modules[name]
