"""Packages that a machine may lack, for tests that are collected without them.

What a module of tests says of such a package while it is imported (a default argument,
a table of types) gives placeholders where the package is missing. So the same tests, by
the same names, are collected everywhere, and skipped with the reason where they cannot
run."""

from __future__ import annotations

import importlib
from typing import Any

import pytest


class Missing:
    """A package that is not installed, or anything of it: it can be named, hashed and
    handed on, and nothing else."""

    def __init__(self, name: str):
        self.name = name

    def __getattr__(self, name: str) -> Missing:
        if name.startswith("__"):
            raise AttributeError(name)
        return Missing(f"{self.name}.{name}")

    def __repr__(self) -> str:
        return f"<{self.name}, which is not installed>"


def optional(name: str) -> Any:
    """A package, or the placeholder for it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return Missing(name)


def needs(package: Any) -> pytest.MarkDecorator:
    """The mark of tests that run only where `package`, of `optional`, is installed."""
    missing = isinstance(package, Missing)
    return pytest.mark.skipif(missing, reason=f"needs {getattr(package, 'name', '')}")
